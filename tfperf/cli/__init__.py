"""The command line: one click command per verb; each parses, calls one function, prints.

errors.py's EXIT_CODES says what a verb ends with. That tells the result also where nothing can be printed; the text of
`schema` is its result: 2 where stdout does not take it.
"""

from tfperf.cli import setup, stores, studies, training
from tfperf.cli.group import main

__all__ = ["main", "setup", "stores", "studies", "training"]
