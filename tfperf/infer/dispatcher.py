"""The parent's side: asks for windows, hands out batches, hands on results, replaces whoever dies or hangs."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.connection import wait
from typing import Any

import numpy as np

from tfperf.arrays import AnyArray, BoolMask
from tfperf.errors import TrainingError
from tfperf.infer.dispatch_records import BatchEvent, DispatchHooks, DispatchRule, Slot, UnitEvent, WindowEvent
from tfperf.infer.launchers import Launcher, LocalLauncher
from tfperf.infer.leases import BatchTask, LeaseBook, RecordFailure, WorkerLoss
from tfperf.infer.pace import IN_FLIGHT, Paces, WorkerPace
from tfperf.infer.preparer import PreparerSpec
from tfperf.infer.preparer_watch import MOST_STARTS, START_SECONDS, PreparerWatch
from tfperf.infer.running_worker import LossCount, RunningWorker
from tfperf.infer.subprocesses import receive_all
from tfperf.infer.window_queue import WindowQueue

TICK_SECONDS = 0.2  # between two looks at deadlines
AHEAD_SECONDS = 6.0  # of all workers' time, for which batches are prepared
AHEAD_BYTES = 256 * 2**20  # of windows that are open, beyond which no more are asked for
REQUESTED = 2  # windows that the preparer is at, or has to do next
MOST_RAISED = 100  # records that raise before the first one gives something
SENT_TOGETHER = 32  # batches of a unit, so that its first ones are computed while the others are put together


class Dispatcher:
    """Runs all windows that are wanted through the workers."""

    def __init__(
        self, slots: Sequence[Slot], preparer: PreparerSpec, rule: DispatchRule, hooks: DispatchHooks,
        clock: Callable[[], float] = time.monotonic, launcher: Launcher | None = None,
    ) -> None:  # fmt: skip
        """launcher: who starts workers on the slots; None: as processes of this machine."""
        self._slots, self._spec, self._rule, self._hooks, self._clock = slots, preparer, rule, hooks, clock
        self.book, self.paces, self.windows = LeaseBook(), Paces(rule.unit), WindowQueue(rule.batch, rule.seed)
        self._launcher = launcher or LocalLauncher(slots)
        self._workers: dict[int, RunningWorker] = {}
        self._starts = [0] * len(slots)  # of each slot, since one came to do a batch
        self._old_paces: dict[int, WorkerPace] = {}  # of slots
        self._next = 0
        self._preparing = PreparerWatch(preparer, rule.timeout, clock)
        self._prepared, self._prepared_cost = 0, 0  # windows
        self.first_lease: float | None = None
        self._lost = LossCount(len(slots))

    def run(self, wanted: Iterator[int], count: int, done: Callable[[int], BoolMask]) -> None:
        """wanted: numbers of windows, of which there are `count`; done: which of a window's records are done already.

        Raises: TrainingError where workers or the preparer cannot be started; whatever the hooks raise.
        """
        self._left = count
        try:
            while not self._hooks.is_stopped():
                self._fill_slots()
                self._ask(wanted)
                if self._left == 0 and self.book.is_idle and not self._preparing.requested:
                    return
                self._give()
                self._listen(done)
                self._check_deadlines()
        finally:
            self._preparing.stop()
            for worker in self._workers.values():
                worker.process.kill()

    def _fill_slots(self) -> None:
        """Workers on all slots that have none, where there is a machine for them."""
        for text in self._launcher.pop_news():
            self._hooks.say(text)
        if len(self._workers) < len(self._slots):
            for slot in sorted({*range(len(self._slots))} - {one.slot for one in self._workers.values()}):
                self._start(slot)

    def _ask(self, wanted: Iterator[int]) -> None:
        """More windows, where workers would run out of work."""
        while len(self._preparing.requested) < REQUESTED and self.windows.bytes < AHEAD_BYTES:
            rates = sum(one.rate for one in self.paces.workers.values() if one.is_known)
            known = self.book.pending_load
            if self._prepared and known.batches > 2 * len(self._slots) and known.cost > AHEAD_SECONDS * rates > 0:
                return
            window = next(wanted, None)
            if window is None:
                return
            self._preparing.request(window)

    def _give(self) -> None:
        """Units to all that have fewer than IN_FLIGHT, the fastest first."""
        ready = [number for number, one in self._workers.items() if one.is_ready]
        if self._rule.waits_for_all and self.first_lease is None and len(ready) < len(self._slots):
            return
        for number in sorted(ready, key=lambda one: -self._get_rate(one)):
            worker = self._workers[number]
            while len(worker.units) < IN_FLIGHT:
                costs = self.book.list_next_costs(*self.paces.list_unit_limits(number))
                backlog = {one: self.book.get_load(one) for one in ready}
                count = self.paces.choose_count(number, costs, backlog, self._estimate_further(costs))
                tasks = self.book.lease(number, count) if count else []
                if not tasks:
                    break
                if self.first_lease is None:
                    self.first_lease = self._clock()
                self._hooks.note_unit(self._describe_unit(number, [_get_cost(task) for task in tasks]))
                worker.units.append(len(tasks))
                if len(worker.units) == 1:
                    worker.deadline = self._clock() + self._rule.timeout
                for first in range(0, len(tasks), SENT_TOGETHER):
                    some = tasks[first : first + SENT_TOGETHER]
                    worker.process.send([(task, self.windows.take_columns(task)) for task in some])

    @property
    def elapsed(self) -> float:
        """Seconds since the first lease; 0 before it."""
        return 0.0 if self.first_lease is None else self._clock() - self.first_lease

    def _describe_unit(self, number: int, costs: Sequence[float]) -> UnitEvent:
        pace = self.paces.workers[number]
        seconds = pace.predict(costs) if pace.is_known else None
        return UnitEvent(self._workers[number].slot, self.elapsed, len(costs), sum(costs), seconds)

    def _estimate_further(self, listed: Sequence[float]) -> float:
        """Cost of what nobody has after what is listed; of what is not prepared yet, if it is as windows so far."""
        mean = self._prepared_cost / self._prepared if self._prepared else 0.0
        return self.book.pending_load.cost - sum(listed) + mean * self._left

    def _get_rate(self, number: int) -> float:
        pace = self.paces.workers[number]
        return pace.rate if pace.is_known else 0.0

    def _listen(self, done: Callable[[int], BoolMask]) -> None:
        """What has come from any process, or nothing for a moment."""
        by_connection: dict[Any, int] = {one.process.connection: number for number, one in self._workers.items()}
        mine = self._preparing.connection
        for connection in wait([*by_connection, *([] if mine is None else [mine])], TICK_SECONDS):
            if connection is mine:
                self._take_window(done)
                continue
            number = by_connection[connection]
            for message in receive_all(self._workers[number].process.connection):
                if message is None:
                    self._lose(number, self._workers[number].process.loss)
                    break
                self._handle(number, message)

    def _take_window(self, done: Callable[[int], BoolMask]) -> None:
        for prepared in self._preparing.receive():
            self._left -= 1
            is_done = done(prepared.window)
            batches, failures = self.windows.add(prepared, is_done)
            cost = sum(one.padded_length for one in batches)
            self._prepared += 1
            self._prepared_cost += cost
            length, records = float(prepared.lengths[~is_done].sum()), int((~is_done).sum())
            self._hooks.note_window(WindowEvent(prepared.window, records, length, float(cost), len(batches)))
            self.book.add(batches)
            if failures:
                numbers = [one.number for one in failures]
                self._hooks.give(prepared.window, numbers, {}, prepared.ids[numbers], failures)

    def _handle(self, number: int, message: tuple[Any, ...]) -> None:
        worker, (kind, *rest) = self._workers[number], message
        worker.deadline = self._clock() + self._rule.timeout
        if kind == "ready":
            worker.is_ready = True
            self.book.join(number)
            worker.has_old_pace = worker.slot in self._old_paces
            self.paces.workers[number] = self._old_paces.get(worker.slot, WorkerPace())
        elif kind == "start":
            self.book.start(number, *rest)
            worker.began = worker.began or self._clock()
        elif kind == "rows":
            self._take_rows(number, *rest)
        elif kind == "raised":
            key, record, text = rest
            if record is None:
                self._end_batch(number)
                self.book.raise_batch(number, key, text)
            else:
                self.book.fail_record(number, key, record, text)
                if not self._lost.is_fruitful and len(self.book.failures) >= MOST_RAISED:
                    raise TrainingError(
                        f"queue: nothing comes out of the model: {len(self.book.failures)} records raised: {text}"
                    )
        elif kind == "end":
            self._end_singles(number, rest[0])
        else:
            raise ValueError(f"a worker says {kind!r}")

    def _take_rows(
        self, number: int, key: tuple[int, int], record: int | None, values: Mapping[str, AnyArray], seconds: float
    ) -> None:
        self._lost.note_result()
        if record is not None:
            self.windows.keep_single(key, record, values)
            self.book.pass_record(number, key, record)
            return
        task = self.book.get_current(number)
        self._end_batch(number)
        worker = self._workers[number]
        if self.book.finish(number, key):
            self._settle(task, list(task.batch.records), values)
        pace = self.paces.workers[number]
        self.paces.workers[number] = worker.note_pace(pace, _get_cost(task), max(seconds, 1e-9))
        self._note_batch(number, task, seconds)

    def _note_batch(self, number: int, task: BatchTask, seconds: float) -> None:
        slot, records, cost = self._workers[number].slot, len(task.batch.records), _get_cost(task)
        self._hooks.note(BatchEvent(slot, self.elapsed, seconds, records, cost, number, task.is_single))

    def _end_singles(self, number: int, key: tuple[int, int]) -> None:
        task, began = self.book.get_current(number), self._workers[number].began
        self._end_batch(number)
        failed = [one for one in self.book.failures if one.window == key[0] and one.number in task.batch.records]
        singles = list(self.windows.pop_singles(key))
        if not self.book.finish(number, key):
            return
        self._note_batch(number, task, 1e-9 if began is None else max(self._clock() - began, 1e-9))
        numbers = [record for record, _ in singles]
        values = {
            name: np.concatenate([one[name] for _, one in singles]) for name in (singles[0][1] if singles else ())
        }
        self._settle(task, numbers, values, failed)

    def _settle(
        self,
        task: BatchTask,
        numbers: Sequence[int],
        values: Mapping[str, AnyArray],
        failed: Sequence[RecordFailure] = (),
    ) -> None:
        window = task.batch.window
        if numbers:
            self._hooks.give(window, numbers, values, self.windows.get_ids(window, numbers), ())
        if failed:
            bad = [one.number for one in failed]
            self._hooks.give(window, bad, {}, self.windows.get_ids(window, bad), failed)
        self.windows.settle(task.key)

    def _end_batch(self, number: int) -> None:
        """A worker is done with the first batch of its first unit."""
        slot = self._workers[number].slot
        self._workers[number].end_batch()
        self._starts[slot] = 0
        self._hooks.note_end(slot, self.elapsed)

    def _check_deadlines(self) -> None:
        now = self._clock()
        for number, worker in list(self._workers.items()):
            if (worker.units or not worker.is_ready) and now > worker.deadline:
                self._lose(number, "hung")
        if self._preparing.is_late():
            self._hooks.say(
                f"a window of {self._spec.window} records was not read and prepared in {self._rule.timeout:g} s "
                "(queue.timeout): it is begun again, record by record; a smaller queue.window takes less"
            )

    def _lose(self, number: int, reason: WorkerLoss) -> None:
        """A worker that is gone, or is taken away: what it had is leased again, and its slot is free for another."""
        worker = self._workers.pop(number)
        how = worker.process.kill()
        if worker.units:
            self._hooks.note_end(worker.slot, self.elapsed)
        name = self._slots[worker.slot].name
        self._lost.add(name, reason, how)
        if worker.is_ready:
            old = self.paces.workers.pop(number)
            if old.is_known:
                self._old_paces[worker.slot] = old
            failure = self.book.lose(
                number, reason, f"no answer for {self._rule.timeout:g} s" if reason == "hung" else how
            )
            told = "" if failure is None else f", at record {failure.number} of window {failure.window}"
            then = "others do what it had" if reason == "gone" else "another worker is started"
            self._hooks.say(f"{name}: {reason}{told} ({how}); {then}")
        if self._starts[worker.slot] >= MOST_STARTS and not worker.is_ready and reason != "gone":
            what = f"did not load the model in {START_SECONDS:g} s" if reason == "hung" else how
            raise TrainingError(f"queue.devices: {name}: {what}, {MOST_STARTS} times")
        if reason == "gone":
            self._starts[worker.slot] -= 1  # which says nothing of the model

    def _start(self, slot: int) -> None:
        process = self._launcher.start(slot)
        if process is None:
            return
        self._starts[slot] += 1
        self._workers[self._next] = RunningWorker(slot, process, self._clock() + START_SECONDS)
        self._next += 1


def _get_cost(task: BatchTask) -> float:
    return float(task.cost)
