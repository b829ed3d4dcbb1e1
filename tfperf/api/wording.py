"""What messages for cards and command lines are called in a Python program."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tfperf.errors import CardError, Interrupted, UserError
from tfperf.workloads.options import Options, parse_replicas

FLAGS = (  # of the command line, and the arguments that stand for them
    ("--resume", "resume=True"), ("--force", "force=True"), ("--retry-failed", "retry_failed=True"),
    (r"--replicas\b", "replicas"),
)  # fmt: skip
OF_OBJECTS = (  # of what a card would name, and the program gives itself
    (r"\.build: (got )?tfperf\.given:\w+", ""),
    (r"tfperf\.given:(\w+)", r"\1"),
    (r"its arguments stand under `arguments`", "give one that takes none, as functools.partial makes it"),
    (r"ensemble\.same_start: true", "same_start=True (of a card: ensemble.same_start: true)"),
    (r"name data of its own: \{build: \.\.\.\}", "give data of its own: validation=dataset, or (x, y)"),
    (r"for example optimizer: \{name: Adam\}", "call model.compile(...) where it is built, or keys={'train.optimizer': "
     "{'name': 'Adam'}}"),
    (r"for example loss: mean_squared_error", "call model.compile(...) where it is built, or keys={'train.loss': "
     "'mean_squared_error'}"),
)  # fmt: skip
MEANT = {  # names of Keras' own `fit`, and what is meant
    "validation_split": "validation=0.2", "validation_data": "validation=(x, y)", "verbose": "quiet=False",
    "batch": "batch_size=32", "batch_size": "batch=32", "output": "run=FOLDER", "run": "output=FOLDER",
    "x": "data=(x, y)", "y": "data=(x, y)", "sample_weight": "data=(x, y, sample_weight)",
    "shuffle": "keys={'data.shuffle': False}", "class_weight": "keys={'train.class_weight': {...}}",
    "steps_per_epoch": "keys={'train.steps_per_epoch': 100}", "seed": "tfperf.ensemble(..., seed=1)",
}  # fmt: skip


@contextmanager
def explain_for_python(objects: bool = True) -> Iterator[None]:
    """Let errors of what is called within name arguments of Python; objects: the program gives model and data."""
    try:
        yield
    except UserError as error:
        error.faults = tuple(replace_names(fault, objects) for fault in error.faults)
        error.args = ("\n".join(error.faults),)
        raise
    except Interrupted as stop:
        stop.args = (replace_names(str(stop), objects),)
        raise


def replace_names(text: str, objects: bool) -> str:
    """A message for a Python program.

    >>> replace_names("runs/a: holds a run; --resume goes on with it", objects=False)
    'runs/a: holds a run; resume=True goes on with it'
    """
    for before, after in (*FLAGS, *(OF_OBJECTS if objects else ())):
        text = re.sub(before, after, text)
    return text


def make_options(
    options: Options | None, resume: bool, force: bool, retry_failed: bool, replicas: int | str | None
) -> Options | None:
    """What was asked for by arguments, or by options alone. Raises: CardError for both."""
    asked = {"resume": resume, "force": force, "retry_failed": retry_failed, "replicas": replicas is not None}
    if not any(asked.values()):
        return options
    if options is not None:
        raise CardError(f"options: exclude {', '.join(name for name, given in asked.items() if given)}; name one way")
    return Options(resume, force, retry_failed, parse_replicas(None if replicas is None else str(replicas)))


def refuse_unknown(function: str, given: Mapping[str, Any]) -> None:
    """TypeError for arguments that a function does not have, with what is meant."""
    for name in given:
        meant = f"; write {MEANT[name]}" if name in MEANT else ""
        raise TypeError(f"{function}() got an unexpected keyword argument {name!r}{meant}")
