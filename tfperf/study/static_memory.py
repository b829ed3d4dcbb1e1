"""What a card's step needs by a static estimate, which is made in a fresh process and runs no step."""

import sys
from collections.abc import Callable, Sequence
from typing import Any

from tfperf.errors import CardError, Stopped, TrainingError
from tfperf.runcard.dump import to_json_tree
from tfperf.runcard.kinds import AnyCard
from tfperf.runcard.memory import MemoryBudget
from tfperf.signals import Signals
from tfperf.study.child import Record, run_subprocess
from tfperf.study.trial_log import TrialLog
from tfperf.workloads.registry import WORKLOADS

COMMAND = (sys.executable, "-m", "tfperf.study.static_estimate")
GIB = 2**30
MODES = ("train", "predict")


def refuse_modes(modes: Sequence[str]) -> None:
    """CardError for modes that there are not; a text is no sequence of them."""
    if isinstance(modes, str) or not modes or not {*modes} <= {*MODES}:
        raise CardError(f"modes: got {modes!r}; must be one or more of {', '.join(map(repr, MODES))}")


def estimate_card(
    card: AnyCard, mode: str, batches: Sequence[int] | None, *, limit: int | None = None, savings: bool = True,
    stopped: Callable[[], bool] = lambda: False, timeout: float = 600.0,
) -> Record | None:  # fmt: skip
    """The record of study/static_estimate.py; None: stopped before. limit: bytes, for the largest batch.

    Raises: CardError for a faulty card, and one without a step that is traced alone.
    """
    request = {
        "card": to_json_tree(card), "mode": mode, "batches": None if batches is None else list(batches),
        "limit": limit, "savings": savings,
    }  # fmt: skip
    record = run_subprocess(COMMAND, request, stopped, timeout)
    if record is not None and "refused" in record:
        raise CardError(*record["refused"])
    return record


def find_holders(
    card: AnyCard, mode: str, batch: int, log: TrialLog, stopped: Callable[[], bool], timeout: float
) -> Record:
    """Who holds the memory of a batch, and what would shrink it, kept in a study's log; `reason` where it fails."""
    key = f"{mode}: who holds batch {batch}"
    if key not in log.trials:
        try:
            record = estimate_card(card, mode, [batch], stopped=stopped, timeout=timeout)
        except CardError as error:
            record = {"error": "; ".join(error.faults)}
        if record is None:  # the study is stopped, and asks again when it goes on
            return {"reason": "stopped"}
        if "error" in record:  # not kept: it may go well the next time
            return {"reason": record["error"]}
        log.trials[key] = record
        log.save({})
    return log.trials[key]


def run_static_study(card: AnyCard, modes: Sequence[str] = ("train",), timeout: float = 600.0) -> dict[str, Any]:
    """The estimates of each mode, for the budget of the card, which may be more than there is here.

    Raises: CardError for a card that cannot be estimated, TrainingError where the estimate fails, Stopped.
    """
    workload = WORKLOADS.get_offering("memory", card.workload)
    refuse_modes(modes)
    wanted = card.memory or MemoryBudget()
    budget = None if wanted.budget == "device" else int(wanted.budget * GIB)
    limit = None if budget is None else int(budget * (1 - wanted.margin))
    report: dict[str, Any] = {
        "title": card.title, "unit": workload.memory_unit, "budget": budget, "margin": wanted.margin,
        "limit": limit, "device": wanted.device,
        "modes": {},
    }  # fmt: skip
    with Signals().listen() as signals, signals.defer():
        for mode in modes:
            record = estimate_card(
                card, mode, None, limit=limit, stopped=lambda: signals.received is not None, timeout=timeout
            )
            if record is None:
                assert signals.received is not None
                raise Stopped(signals.received)
            if "error" in record:
                raise TrainingError(f"{mode}: the estimate fails: {record['error']}")
            report["modes"][mode] = record
    return report
