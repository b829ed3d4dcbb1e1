"""What is told of a prediction while it runs: how long it still takes, and who does how much of it."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tfperf.infer.dispatch_records import BatchEvent, WindowEvent
from tfperf.infer.event_log import WorkerTotals
from tfperf.infer.length_sampler import LengthGroup
from tfperf.infer.micro_batches import BatchRule
from tfperf.infer.pace import WorkerPace
from tfperf.infer.time_left import CostSample, RateLog, estimate_time_left
from tfperf.measure.confidence import ConfidenceInterval

LEAST_GROUPS = 3  # of records that are still to come, on which their cost is told


@dataclass
class Outlook:
    """Notes windows and batches as they come, and tells the time that is left. records: that are to be done; rule: of
    batches.

    Any thread may call it.
    """

    records: int
    window: int
    rule: BatchRule
    clock: Callable[[], float] = time.monotonic
    slots: dict[int, WorkerTotals] = field(default_factory=dict)
    _begin: float | None = None  # when the first batch was handed out
    _rates: RateLog = field(default_factory=RateLog)
    _workers: set[int] = field(default_factory=set)
    _paces: dict[int, WorkerPace] = field(default_factory=dict)  # of slots
    _groups: Sequence[LengthGroup] = ()
    _open_records: int = 0
    _open_length: float = 0.0
    _open_cost: float = 0.0
    _open_batches: int = 0
    _done_cost: float = 0.0
    _done_batches: int = 0
    _front: int = 0  # number of the first record of which nothing is known yet

    def __post_init__(self) -> None:
        self._lock = threading.Lock()

    def note_window(self, event: WindowEvent) -> None:
        """Records that were prepared."""
        with self._lock:
            self._open_records += event.records
            self._open_length += event.length
            self._open_cost += event.cost
            self._open_batches += event.batches
            self._front = max(self._front, (event.window + 1) * self.window)

    def note_batch(self, event: BatchEvent) -> None:
        """A batch that was done. Rates are those since the newest worker's first one, which compiles."""
        with self._lock:
            if self._begin is None:
                self._begin = self.clock() - event.at
            self._done_cost += event.cost
            self._done_batches += 1
            slot = self.slots.setdefault(event.slot, WorkerTotals())
            slot.records += event.records
            slot.cost += event.cost
            slot.busy_seconds += event.seconds
            if event.worker in self._workers:
                self._rates.add(event.at, event.cost)
                if not event.is_single:
                    self._paces.setdefault(event.slot, WorkerPace()).add(event.cost, max(event.seconds, 1e-9))
            else:
                self._workers.add(event.worker)
                self._rates = RateLog(event.at)

    def set_groups(self, groups: Sequence[LengthGroup]) -> None:
        """Lengths of records from all over the source, in its order."""
        with self._lock:
            self._groups = groups

    @property
    def seconds(self) -> float:
        """Since the first batch was handed out; 0 where none came back yet."""
        return 0.0 if self._begin is None else self.clock() - self._begin

    def estimate_seconds_left(self) -> ConfidenceInterval | None:
        """None: nothing tells yet; without limits: they are not known."""
        with self._lock:
            if self._begin is None or not self._rates.total:
                return None
            batch_cost = self._estimate_batch_cost()
            rate = self._rates.estimate_rate(self.seconds, batch_cost)
            batches = self._open_batches - self._done_batches
            known = max(0.0, self._open_cost - self._done_cost + batch_cost * batches)
            further = max(0, self.records - self._open_records)
            return estimate_time_left(rate, known, further, self._estimate_record_cost(batch_cost))

    def compute_useful_share(self) -> float | None:
        """Of what all workers could have computed since the first batch was handed out."""
        with self._lock:
            rates = sum(one.cost / one.busy_seconds for one in self.slots.values() if one.busy_seconds)
            if self._begin is None or not rates:
                return None
            return self._done_cost / (self.seconds * rates)

    def _estimate_batch_cost(self) -> float:
        """What a batch costs beside its own cost: the mean of slots, each as often as it does cost."""
        costs = {slot: pace.fit_line() for slot, pace in self._paces.items()}
        done = sum(self.slots[slot].cost for slot in costs)
        return (
            sum(self.slots[slot].cost * fixed / slope for slot, (fixed, slope) in costs.items()) / done if done else 0.0
        )

    def _estimate_record_cost(self, batch_cost: float) -> ConfidenceInterval:
        """Of those of which nothing is known yet: their lengths, with as much padding as the others have, and their
        shares of batches."""
        mean = self._open_cost / max(1, self._open_records)
        share = self._open_batches / max(1, self._open_records)
        if not self._groups or not self._open_length:
            return ConfidenceInterval(mean + batch_cost * share)
        scale = share / self._count_batches(mean)  # batches are not quite full
        ahead = sum(one.first >= self._front for one in self._groups)
        chosen = self._groups[-max(LEAST_GROUPS, ahead) :]
        factor = self._open_cost / self._open_length
        costs = [factor * one.mean for one in chosen]
        return CostSample(tuple(one + batch_cost * scale * self._count_batches(one) for one in costs)).estimate_mean()

    def _count_batches(self, cost: float) -> float:
        """Full batches for each record of such a cost."""
        records, length = self.rule.records, self.rule.total_length
        return max(0.0 if records is None else 1 / records, 0.0 if length is None else min(1.0, cost / length))
