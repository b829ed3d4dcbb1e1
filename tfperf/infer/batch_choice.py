"""How many records go through the model at once: what is fastest of what was tried, single records among it."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tfperf.errors import TrainingError
from tfperf.infer.launchers import WorkerProcess
from tfperf.infer.leases import BatchTask
from tfperf.infer.micro_batches import BatchRule, MicroBatch, cut_window
from tfperf.infer.prepared import PreparedWindow
from tfperf.infer.preparer_watch import START_SECONDS, TICK_SECONDS

GROWTH = 4  # from one size to the next
MOST_RECORDS, MOST_LENGTH = 1024, 65_536
BOTH_ENDS = 2  # batches, that do not count
MOST_LOSSES = 3  # of workers
BETTER = 1.05  # times as fast as a smaller size, that a larger one must be


@dataclass(frozen=True)
class MeasuredRule:
    """Records a second of one worker with batches of such a rule."""

    rule: BatchRule
    rate: float


def list_rules(window: PreparedWindow, is_sorted: bool) -> list[BatchRule]:
    """What is tried for such records: one by one, then ever larger budgets that still cut them."""
    found = [BatchRule(records=1, is_sorted=is_sorted)]
    typical = float(np.mean(window.lengths))
    if window.lengths.max() == 1:
        size = GROWTH
        while size <= min(MOST_RECORDS, len(window.lengths) // 2):
            found.append(BatchRule(records=size, is_sorted=is_sorted))
            size *= GROWTH
        return found
    length = 2 ** int(np.ceil(np.log2(2 * typical)))
    while length <= min(MOST_LENGTH, int(window.lengths.sum()) // 2):
        found.append(BatchRule(total_length=length, is_sorted=is_sorted))
        length *= GROWTH
    return found


class BatchCalibration:
    """Runs batches of the records of a window in one worker. Batches that raise, crash or hang are left out from then
    on, with all of their records: which of these is to blame is found when all records are run. There they cost their
    own time and that of their records one by one, and so they do in what is measured here.

    first_error: what the first batch that failed has said.
    """

    def __init__(
        self, start_worker: Callable[[], WorkerProcess], window: PreparedWindow, timeout: float,
        check: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        """timeout: seconds for a batch; check: called while it waits, raises where the command is to end."""
        self._start_worker, self._window, self._timeout, self._check = start_worker, window, timeout, check
        self._worker: WorkerProcess | None = None
        self._bad = {one.number for one in window.failures}
        self._losses = 0
        self._single_rate = 0.0  # records/s one by one; 0: not known
        self.first_error: str | None = None

    def measure(self, rule: BatchRule, seconds: float) -> MeasuredRule | None:
        """Records a second with batches of all lengths, for so many seconds after both ends were run once; None: none
        of them gave a result. Raises: TrainingError where worker after worker is lost."""
        good = [number for number in range(len(self._window.lengths)) if number not in self._bad]
        if not good:
            return None
        cut = cut_window(self._window.window, self._window.lengths[good], rule)
        batches = [MicroBatch(one.window, one.place, tuple(good[n] for n in one.records), one.longest) for one in cut]
        spent, records, lost_seconds, lost = 0.0, 0, 0.0, 0
        # both ends compile what there is to compile
        for number, place in enumerate([0, len(batches) - 1, *_spread(len(batches))]):
            batch = batches[place]
            if self._bad.intersection(batch.records):
                continue
            begin = time.perf_counter()
            found = self._ask(batch)
            if found is None:
                self._bad.update(batch.records)
                lost, lost_seconds = lost + len(batch.records), lost_seconds + time.perf_counter() - begin
            elif number >= BOTH_ENDS:
                spent, records = spent + found, records + len(batch.records)
            if spent >= seconds:
                break
        if not records:
            return None
        if rule.records == 1:
            self._single_rate = records / spent
        elif self._single_rate:
            spent, records = spent + lost_seconds + lost / self._single_rate, records + lost
        return MeasuredRule(rule, records / spent)

    def _ask(self, batch: MicroBatch) -> float | None:
        if self._worker is None:
            self._worker = self._start_worker()
            if self._receive(START_SECONDS) is None:
                raise TrainingError(f"model: {self._end()}")
        self._worker.send([(BatchTask(batch), self._window.take(batch.records))])
        while True:
            messages = self._receive(self._timeout)
            if messages is None:
                self._losses += 1
                told = self._end()
                self.first_error = self.first_error or told
                if self._losses == MOST_LOSSES:
                    raise TrainingError(f"model: {MOST_LOSSES} batches end their process, or hang: {told}")
                return None
            for kind, *rest in messages:
                if kind == "rows":
                    return max(float(rest[3]), 1e-9)
                if kind == "raised":
                    self.first_error = self.first_error or str(rest[2])
                    return None

    def _receive(self, timeout: float) -> Any:
        """A list of what the worker says; None: it is gone, or does not answer."""
        assert self._worker is not None
        end = time.monotonic() + timeout
        try:
            while (left := end - time.monotonic()) > 0:
                if self._worker.connection.poll(min(left, TICK_SECONDS)):
                    return self._worker.connection.recv()
                self._check()
        except (EOFError, OSError):
            pass
        return None

    def _end(self) -> str:
        """Kill the worker; how it ended."""
        worker, self._worker = self._worker, None
        return "" if worker is None else worker.kill()

    def close(self) -> None:
        """End the worker."""
        self._end()


def choose_rule(found: Sequence[MeasuredRule]) -> BatchRule:
    """The smallest that no other beats by more than BETTER."""
    best = max(one.rate for one in found)
    return next(one.rule for one in found if one.rate * BETTER >= best)


def _spread(count: int) -> Sequence[int]:
    """All numbers below `count`, so that the first ones are spread over all.

    >>> list(_spread(6))
    [0, 5, 4, 2, 1, 3]
    """
    order = dict.fromkeys([0, count - 1])
    step = 1 << count.bit_length()
    while step:
        order.update(dict.fromkeys(range(0, count, step)))
        step //= 2
    return list(order)
