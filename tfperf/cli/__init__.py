"""The command line: one click command per verb; each parses, calls one function, prints.

Exit codes: 0 done; 1 variants of an ablation disagree, or a profile shows slower steps than another; 2 bad input; 3 the
run is complete but a replica failed, or a trial of a sweep; 129, 130, 143 stopped by a signal, resumable. They tell the
result also where nothing can be printed; the text of `schema` is its result: 2 where stdout does not take it.
"""

from tfperf.cli import setup, studies, training
from tfperf.cli.group import main

__all__ = ["main", "setup", "studies", "training"]
