"""What a life of a prediction came to, as report.json has it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from tfperf.arrays import Float64Array
from tfperf.infer.batch_choice import MeasuredRule
from tfperf.infer.dispatch_records import Slot
from tfperf.infer.event_log import EventLog, TimeBins, WorkerTotals, estimate_quantiles
from tfperf.infer.prediction import PredictionFolder, PredictionResult, summarise_failures

COURSE = ("records", "cost", "busy_seconds")  # of each slot in each bin
UNITS = ("seconds", "batches")


def summarise(
    folder: PredictionFolder, result: PredictionResult, slots: Sequence[Slot], measured: Sequence[MeasuredRule],
    began: float,
) -> dict[str, Any]:  # fmt: skip
    """What report.json has of this life. rate: records a second from the first lease to the last commit; began: when
    it did, by the clock of the result's first lease."""
    log = result.log if result.log.totals else EventLog(len(slots))
    finished, seconds = folder.progress.is_complete, result.seconds
    lease = result.first_lease
    return {
        "title": str(folder.plan.attributes.get("title", "")),
        "records": folder.plan.records, "committed": folder.progress.count, "file": str(folder.path),
        "is_finished": finished, **summarise_failures(folder),
        "seconds": seconds, "startup_seconds": None if lease is None else lease - began,
        "records_of_this_life": result.records, "rate": result.records / seconds if seconds else None,
        "useful_share": compute_useful_share(log.totals, seconds),
        "workers": [
            summarise_worker(slot, one, seconds, finished) for slot, one in zip(slots, log.totals, strict=True)
        ],
        "idle_tail": summarise_tail(log.totals, seconds) if finished else None,
        "course": summarise_course(log.course, seconds), "units": summarise_units(log.units),
        "faults": {"count": log.fault_count, "first": [asdict(one) for one in log.faults]},
        "batch": dict(folder.plan.identity["batch"]),
        "batches_tried": [{**asdict(one.rule), "rate": one.rate} for one in measured],
    }  # fmt: skip


def compute_useful_share(totals: Sequence[WorkerTotals], seconds: float) -> float | None:
    """Cost that was done, of what all workers could have done at their own rates in so many seconds.

    None: nothing was done. A worker that did no batch has no rate, and counts as none.
    """
    rates = [one.cost / one.busy_seconds for one in totals if one.busy_seconds]
    capacity = seconds * sum(rates)
    return sum(one.cost for one in totals) / capacity if capacity else None


def summarise_worker(slot: Slot, found: WorkerTotals, seconds: float, is_finished: bool) -> dict[str, Any]:
    """idle_seconds: from the end of its last batch to the last commit; None: it had no work, or was stopped."""
    idle = None if found.last is None or not is_finished else max(0.0, seconds - found.last)
    return {
        "name": slot.name, "device": slot.device or slot.name, "records": found.records, "batches": found.batches,
        "cost": found.cost, "busy_seconds": found.busy_seconds,
        "rate": found.records / found.busy_seconds if found.busy_seconds else None,
        "first_seconds": found.first, "idle_seconds": idle,
    }  # fmt: skip


def summarise_tail(totals: Sequence[WorkerTotals], seconds: float) -> dict[str, float] | None:
    """seconds: from when the first worker ran out of work for good to the last commit; commit_seconds: of them those
    after the last batch. None: no worker had any."""
    ends = [one.last for one in totals if one.last is not None]
    if not ends:
        return None
    return {"seconds": max(0.0, seconds - min(ends)), "commit_seconds": max(0.0, seconds - max(ends))}


def summarise_course(course: TimeBins, seconds: float) -> dict[str, Any]:
    """bin_seconds, and for each figure of COURSE a list of bins for each slot."""
    used = np.flatnonzero(course.values.any(axis=(1, 2)))
    bins = max(int(np.ceil(seconds / course.seconds)), int(used[-1]) + 1 if len(used) else 0)
    values = course.values[:bins]
    return {
        "bin_seconds": course.seconds,
        **{name: _round_figures(values[:, :, place].T) for place, name in enumerate(COURSE)},
    }


def summarise_units(units: TimeBins) -> dict[str, Any]:
    """Quantiles of predicted seconds and of batches: of all units, and of those of each bin of time, None for none."""
    used = np.flatnonzero(units.values.any(axis=(1, 2)))
    values = units.values[: used[-1] + 1 if len(used) else 0]
    found: dict[str, Any] = {"bin_seconds": units.seconds, "count": int(values[:, 1].sum())}
    for place, name in enumerate(UNITS):
        found[name] = _describe_sizes(values[:, place].sum(axis=0), name)
        found[f"{name}_over_time"] = [_describe_sizes(one, name) for one in values[:, place]]
    return found


def _describe_sizes(counts: Float64Array, name: str) -> Mapping[str, float] | None:
    """Batches are whole numbers."""
    found = estimate_quantiles(counts)
    if found is None:
        return None
    return {key: float(round(one)) if name == "batches" else float(f"{one:.3g}") for key, one in asdict(found).items()}


def _round_figures(values: Float64Array) -> list[list[float]]:
    """Six digits: they are many, and nobody measures more."""
    return [[float(f"{one:.6g}") for one in row] for row in values]
