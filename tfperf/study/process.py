"""Trials as child processes."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from tfperf.errors import CardError, Interrupted
from tfperf.study.trial import Request
from tfperf.train.signals import Signals

Record = dict[str, Any]
POLL_SECONDS = 0.5
COMMAND = (sys.executable, "-m", "tfperf.study.trial")


class Stopped(Interrupted):
    """A signal came between or in trials; `exit_code` is 128 + its number."""

    def __init__(self, signum: int) -> None:
        Exception.__init__(self, f"stopped by signal {signum}; the same command goes on with what is not measured yet")
        self.exit_code, self.step = 128 + signum, 0


def measure(request: Request, signals: Signals) -> Record:
    """The record of a trial; of one that failed {"error": why}.

    CardError where the card asks for what the form cannot do, Stopped when a signal came first.
    """
    command, settings = COMMAND, {"TF_CPP_MIN_LOG_LEVEL": "3"} | os.environ
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=settings) as child:
        output, errors = _communicate(child, json.dumps(asdict(request)), signals)
    record = _record(output)
    if record is None and signals.received is not None:
        raise Stopped(signals.received)
    if record is None:
        return {"error": _reason(child.returncode, errors)}
    if "refused" in record:
        raise CardError(*record["refused"])
    return record


def _communicate(child: "subprocess.Popen[str]", text: str, signals: Signals) -> tuple[str, str]:
    given: str | None = text
    while True:
        try:
            return child.communicate(given, timeout=POLL_SECONDS)
        except subprocess.TimeoutExpired:
            given = None  # is on its way
            if signals.received is not None:
                child.terminate()


def _record(output: str) -> Record | None:
    """The last line, if the trial came that far."""
    last = output.strip().rpartition("\n")[2]
    try:
        found = json.loads(last)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _reason(code: int, errors: str) -> str:
    said = errors.strip().rpartition("\n")[2]
    if code == -9:
        return "its process was killed, perhaps for its memory"
    return f"its process ended with {code}" + (f": {said}" if said else "")


Measure = Callable[[Request, Signals], Record]
Records = Mapping[str, Record]
