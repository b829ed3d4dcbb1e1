"""Trials of an ablation as child processes."""

import sys
from collections.abc import Callable
from dataclasses import asdict

from tfperf.errors import CardError, Stopped
from tfperf.signals import Signals
from tfperf.study.child import Record, run_subprocess
from tfperf.workloads.switches import Request

COMMAND = (sys.executable, "-m", "tfperf.study.variant")


def run_variant(request: Request, signals: Signals) -> Record:
    """The record of a trial; of one that failed {"error": why}.

    CardError where the card asks for what the variant cannot do, Stopped when a signal came first.
    """
    record = run_subprocess(COMMAND, asdict(request), lambda: signals.received is not None)
    if record is None:
        assert signals.received is not None
        raise Stopped(signals.received)
    if "refused" in record:
        raise CardError(*record["refused"])
    return record


RunVariant = Callable[[Request, Signals], Record]
