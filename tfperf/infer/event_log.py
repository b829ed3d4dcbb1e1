"""What workers did over time, in bins whose width doubles when there are too many: a week takes no more than a day."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tfperf.arrays import Float64Array
from tfperf.infer.dispatch_records import BatchEvent, DispatchHooks, UnitEvent

MOST_BINS = 128
MOST_ROWS = 2**14  # bins of all slots together
FIRST_SECONDS = 1 / 64  # that a bin is wide at first; a power of 2, so that no time lies between two bins
STEPS = 8  # of a histogram, until a size has doubled: its quantiles are right to a factor of 2 ** (1 / 16)
LEAST_EXPONENT, MOST_EXPONENT = -10, 20  # of 2, for sizes: from a millisecond, or one batch, to a million
MOST_FAULTS = 200  # that are kept with their words
LOW, MIDDLE, HIGH = 0.1, 0.5, 0.9  # which quantiles are told


class TimeBins:
    """Sums in bins of time, the first of which begins at 0 s."""

    def __init__(self, most: int, figures: tuple[int, ...], seconds: float = FIRST_SECONDS) -> None:
        """most: bins, an even number; figures: shape of what a bin has; seconds: its width at first."""
        self.seconds = seconds
        self.values = np.zeros((most, *figures))

    def find_bin(self, at: float) -> int:
        """Where a time is; all bins are made as wide as that needs."""
        while at >= len(self.values) * self.seconds:
            self._fold()
        return int(max(0.0, at) / self.seconds)

    def _fold(self) -> None:
        half = len(self.values) // 2
        self.values[:half] = self.values.reshape(half, 2, *self.values.shape[1:]).sum(axis=1)
        self.values[half:] = 0
        self.seconds *= 2

    def spread(self, begin: float, end: float, place: int, amounts: Sequence[float]) -> None:
        """Add amounts to what a place has, in equal parts to all of the time from begin to end."""
        begin = max(0.0, begin)
        last, first = self.find_bin(end), self.find_bin(begin)
        if begin >= end or first == last:
            self.values[last, place] += amounts
            return
        edges = np.clip(np.arange(first, last + 2) * self.seconds, begin, end)
        self.values[first : last + 1, place] += np.outer(np.diff(edges) / (end - begin), amounts)


@dataclass
class WorkerTotals:
    """What the workers of a slot did. first, last: when they got the first unit, and ended the last batch [s]."""

    records: int = 0
    batches: int = 0
    cost: float = 0.0
    busy_seconds: float = 0.0
    first: float | None = None
    last: float | None = None


@dataclass(frozen=True)
class FaultEvent:
    """What happened to a worker or to the preparation, in words. at: s since the first lease."""

    at: float
    text: str


@dataclass(frozen=True)
class SizeQuantiles:
    """Of sizes: a tenth is below low, half below median, a tenth above high."""

    low: float
    median: float
    high: float


class EventLog:
    """Of a life: totals of each slot, its course (bins, slots, 3: records, cost, busy s), sizes of units, faults.

    units (bins, 2, sizes) counts them by predicted seconds and by batches; those whose seconds nobody could predict
    are among the batches only. All times are s since the first lease.
    """

    def __init__(self, slots: int) -> None:
        rows = max(8, min(MOST_BINS // 2, MOST_ROWS // 2 // max(1, slots)))
        self.totals = [WorkerTotals() for _ in range(slots)]
        self.course = TimeBins(2 * rows, (slots, 3))
        self.units = TimeBins(MOST_BINS, (2, STEPS * (MOST_EXPONENT - LEAST_EXPONENT)))
        self.faults: list[FaultEvent] = []
        self.fault_count = 0

    def add_batch(self, event: BatchEvent) -> None:
        """A batch that is done; it counts for all of the time that it took."""
        mine = self.totals[event.slot]
        mine.records += event.records
        mine.batches += 1
        mine.cost += event.cost
        mine.busy_seconds += event.seconds
        amounts = (event.records, event.cost, event.seconds)
        self.course.spread(event.at - event.seconds, event.at, event.slot, amounts)

    def add_unit(self, event: UnitEvent) -> None:
        """A unit that was handed out."""
        mine = self.totals[event.slot]
        mine.first = event.at if mine.first is None else mine.first
        at = self.units.find_bin(event.at)
        self.units.values[at, 1, find_size(event.batches)] += 1
        if event.seconds is not None:
            self.units.values[at, 0, find_size(event.seconds)] += 1

    def add_end(self, slot: int, at: float) -> None:
        """A worker has ended a batch, whatever came out, or was lost."""
        self.totals[slot].last = at

    def add_fault(self, at: float, text: str) -> None:
        """What happened; of many the first ones are kept, and all are counted."""
        self.fault_count += 1
        if len(self.faults) < MOST_FAULTS:
            self.faults.append(FaultEvent(at, text))


def find_size(size: float) -> int:
    """The bin of a size in a histogram, from the one of the smallest.

    >>> find_size(1.0), find_size(2.0), find_size(0.0)
    (80, 88, 0)
    """
    exponent = np.log2(max(size, 2.0**LEAST_EXPONENT))
    return int(min(STEPS * (exponent - LEAST_EXPONENT), STEPS * (MOST_EXPONENT - LEAST_EXPONENT) - 1))


def estimate_quantiles(counts: Float64Array) -> SizeQuantiles | None:
    """Of a histogram (sizes); None where it is empty.

    >>> counts = np.zeros(STEPS * (MOST_EXPONENT - LEAST_EXPONENT))
    >>> counts[find_size(4.0)] = 10
    >>> round(estimate_quantiles(counts).median)
    4
    """
    sums = np.cumsum(counts)
    if not len(sums) or sums[-1] == 0:
        return None
    places = [int(np.searchsorted(sums, share * sums[-1])) for share in (LOW, MIDDLE, HIGH)]
    return SizeQuantiles(*(float(2.0 ** ((place + 0.5) / STEPS + LEAST_EXPONENT)) for place in places))


def keep_events(log: EventLog, hooks: DispatchHooks, find_time: Callable[[], float]) -> DispatchHooks:
    """The same hooks, whose events are kept in a log, too. find_time: s since the first lease, of what has no time."""

    def note(event: BatchEvent) -> None:
        log.add_batch(event)
        hooks.note(event)

    def note_unit(event: UnitEvent) -> None:
        log.add_unit(event)
        hooks.note_unit(event)

    def note_end(slot: int, at: float) -> None:
        log.add_end(slot, at)
        hooks.note_end(slot, at)

    def say(text: str) -> None:
        log.add_fault(find_time(), text)
        hooks.say(text)

    return replace(hooks, note=note, note_unit=note_unit, note_end=note_end, say=say)
