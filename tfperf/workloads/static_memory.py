"""The memory of a card's step, estimated in this process without running it: points, largest batch, who holds it."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tfperf.errors import UserError
from tfperf.measure.static_memory.owners import group_layers
from tfperf.measure.static_memory.result import StaticEstimate
from tfperf.workloads.step_tracer import StepTracer

FIRST, SECOND = 32, 128  # samples of the batches that are looked at where none are named
SHOWN = 20  # buffers and layers
ROUNDS = 6  # of the search for the largest batch, each of which traces a step
CLOSE = 1.005  # of two batches, between which none is tried


@dataclass(frozen=True)
class EstimatedBatch:
    """Bytes for a batch; peak and fixed are None where they cannot be told, and reason says why. Seconds."""

    batch: int
    peak: int | None
    fixed: int | None
    reason: str
    trace_seconds: float
    estimate_seconds: float


class StaticStudy:
    """Estimates of a tracer's steps, each made once."""

    def __init__(self, tracer: StepTracer) -> None:
        self._tracer = tracer
        self.points: list[EstimatedBatch] = []
        self._estimates: dict[int, StaticEstimate] = {}

    def estimate(self, batch: int) -> int | None:
        """Bytes at the peak; None where they cannot be told. Raises: UserError for faults of the user's code."""
        if batch not in self._estimates:
            begin = time.perf_counter()
            traced = self._tracer.trace_step(batch)
            middle = time.perf_counter()
            found = self._estimates[batch] = traced.estimate()
            times = (middle - begin, time.perf_counter() - middle)
            self.points.append(EstimatedBatch(batch, found.peak, found.fixed, found.reason, *times))
        return self._estimates[batch].peak

    def get(self, batch: int) -> StaticEstimate:
        """All of an estimate that was made."""
        return self._estimates[batch]

    def find_largest(self, limit: int) -> int | None:
        """The largest batch whose estimate is within a limit, within 0.5 %; None: not one sample, or it is not known.

        No batch above the largest that the tracer takes is tried, even where it would fit.
        Each round tries where the line through the two nearest points crosses the limit.
        """
        low, high = 0, 0
        for _ in range(ROUNDS):
            known = sorted((p.batch, p.peak) for p in self.points if p.peak is not None)
            low = max((batch for batch, peak in known if peak <= limit), default=0)
            high = min((batch for batch, peak in known if peak > limit), default=0)
            if low >= self._tracer.most or (high and (high <= low * CLOSE or high - low <= 1)):
                break
            batch = _choose_batch(known, limit, low, high, self._tracer.most)
            if batch in (low, high) or self.estimate(batch) is None:
                break
        known = sorted((p.batch, p.peak) for p in self.points if p.peak is not None)
        return max((batch for batch, peak in known if peak <= limit), default=None)

    def list_savings(self, batch: int) -> list[dict[str, Any]]:
        """For each change of the step, what the peak then is, and how much less that is."""
        whole, found = self.estimate(batch), []
        for name, text in self._tracer.list_variants().items():
            peak, reason = None, ""
            try:
                changed = self._tracer.trace_step(batch, name).estimate()
                peak, reason = changed.peak, changed.reason
            except UserError as error:
                reason = error.faults[-1] if error.faults else str(error)
            saved = None if peak is None or whole is None else whole - peak
            found.append({"name": name, "what": text, "peak": peak, "saved": saved, "reason": reason})
        return found


def estimate_memory(tracer: StepTracer, request: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a request: see study/static_estimate.py. Raises: UserError for faults of the card or its files."""
    study = StaticStudy(tracer)
    for one in request["batches"] or (FIRST, SECOND):
        study.estimate(one)
    limit, largest = request["limit"], None
    known = all(point.peak is not None for point in study.points)
    if limit is not None and known:
        largest = study.find_largest(limit)
    batch = largest or max(point.batch for point in study.points)
    found = study.get(batch)
    return {
        "kind": found.kind, "compiled": found.compiled,
        "reason": next((point.reason for point in study.points if point.reason), ""),
        "points": [asdict(point) for point in sorted(study.points, key=lambda one: one.batch)],
        "largest": largest, "is_bound": largest is not None and largest >= tracer.most,
        "shown": batch, "per_sample": _find_slope(study.points),
        "buffers": [asdict(one) for one in found.buffers[:SHOWN]],
        "layers": [asdict(one) for one in group_layers(found.buffers)[:SHOWN]],
        "savings": study.list_savings(batch) if request["savings"] and known else [],
    }  # fmt: skip


def _choose_batch(known: Sequence[tuple[int, int]], limit: int, low: int, high: int, most: int) -> int:
    """Between one that fits and one that does not, or above all known ones; where none fits yet, half or less.

    most: the largest that is tried.
    """
    (first, less), (last, more) = _choose_pair(known, low, high)
    slope = (more - less) / (last - first) if last > first else 0.0
    aim = int(last + (limit - more) / slope) if slope > 0 else most
    if high:
        return min(max(aim, low + 1), high - 1 if low else max(high // 2, 1))
    return max(min(aim, most), low + 1)


def _choose_pair(known: Sequence[tuple[int, int]], low: int, high: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """The two points that a line is drawn through: beside the limit where it lies between two, else the last two."""
    if low and high:
        return next(one for one in known if one[0] == low), next(one for one in known if one[0] == high)
    if high:
        return (0, 0), next(one for one in known if one[0] == high)
    return (known[-2] if len(known) > 1 else (0, 0)), known[-1]


def _find_slope(points: Sequence[EstimatedBatch]) -> float | None:
    """Bytes a sample, of the two largest batches."""
    known = sorted((p.batch, p.peak) for p in points if p.peak is not None)
    if len(known) < 2:
        return None
    (first, less), (last, more) = known[-2:]
    if last < 1.5 * first:  # too near to tell
        first, less = known[0]
    return (more - less) / (last - first)
