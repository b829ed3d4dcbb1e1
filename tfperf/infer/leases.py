"""Who computes which batch: a state machine without clocks and without processes.

A batch is pending, leased to a worker, or settled. A worker that is lost gives its batches back; the one that it was at
is suspected and run record by record. A record that fails there is marked with its reason. Where none fails, the batch
is run whole once more, so that the loss of a worker, which no record caused, leaves no trace in what is computed.
"""

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import islice
from typing import Literal

from tfperf.infer.micro_batches import MicroBatch

MOST_LOSSES = 3  # workers that a batch may cost before it is taken to be to blame, though none of its records is

MOST_DEPARTURES = 3  # machines that may be lost while they are at a batch, before it is suspected of that

Loss = Literal["crashed", "hung"]
WorkerLoss = Literal["crashed", "hung", "gone"]  # gone: with its machine, or out of reach
FailureReason = Literal["raised", "crashed", "hung"]


class Mode(Enum):
    """How a batch is run."""

    WHOLE = "whole"
    SINGLY = "singly"  # each record by itself, since one of them is suspected
    AGAIN = "again"  # whole, after all of its records were fine by themselves
    ACCEPTED = "accepted"  # singly, and what comes out is kept: the whole batch fails, none of its records does


@dataclass(frozen=True)
class BatchTask:
    """A batch, and how it is to be run. records: those that are still to be run, where one by one."""

    batch: MicroBatch
    mode: Mode = Mode.WHOLE
    records: tuple[int, ...] = ()
    losses: int = 0  # of workers that ran it whole
    departures: int = 0  # of machines that ran it

    @property
    def key(self) -> tuple[int, int]:
        """Of its batch, among all."""
        return self.batch.window, self.batch.place

    @property
    def is_single(self) -> bool:
        """Whether its records are run one by one."""
        return self.mode in (Mode.SINGLY, Mode.ACCEPTED)

    @property
    def cost(self) -> int:
        """What is computed, as paces count it: length with padding."""
        return self.batch.padded_length


@dataclass(frozen=True)
class Load:
    """Batches that are to be done: how many, and their cost in all."""

    batches: int
    cost: float


@dataclass(frozen=True)
class RecordFailure:
    """A record that gave nothing. number: in its window."""

    window: int
    number: int
    reason: FailureReason
    message: str


@dataclass
class _Leased:
    """What a worker has: tasks in the order in which it runs them; how far it is in the first."""

    tasks: deque[BatchTask] = field(default_factory=deque)
    current: int | None = None  # record that it has begun, of a task that is run one by one
    is_started: bool = False  # whether it has begun the first task
    cost: int = 0  # of all its tasks


class LeaseBook:
    """Batches that are to be run, and by whom. Raises: KeyError for workers and ValueError for reports that are none
    of this book's; that is a fault of the caller."""

    def __init__(self) -> None:
        self.failures: list[RecordFailure] = []
        self._pending: deque[BatchTask] = deque()
        self._pending_cost = 0
        self._leased: dict[int, _Leased] = {}
        self._failed: dict[tuple[int, int], set[int]] = {}  # of batches that are not settled: records that failed

    def add(self, batches: Iterable[MicroBatch]) -> None:
        """More to do, after what there is."""
        for one in batches:
            self._pending.append(BatchTask(one))
            self._pending_cost += self._pending[-1].cost

    def join(self, worker: int) -> None:
        """A worker that may be given tasks. Raises: ValueError for one that is there already."""
        if worker in self._leased:
            raise ValueError(f"worker {worker} is there already")
        self._leased[worker] = _Leased()

    @property
    def pending(self) -> Sequence[BatchTask]:
        """Nobody's yet, first come first."""
        return tuple(self._pending)

    def list_next_costs(self, count: int, most: float = math.inf) -> list[float]:
        """Costs of the first of them: at most so many, and none after those that have come to `most`."""
        found: list[float] = []
        total = 0
        for task in islice(self._pending, count):
            found.append(float(task.cost))
            total += task.cost
            if total >= most:
                break
        return found

    @property
    def pending_load(self) -> Load:
        """All of them."""
        return Load(len(self._pending), float(self._pending_cost))

    @property
    def leased_count(self) -> int:
        """Tasks that workers have."""
        return sum(len(one.tasks) for one in self._leased.values())

    def get_leased(self, worker: int) -> Sequence[BatchTask]:
        """What a worker has, the one that it is at first."""
        return tuple(self._leased[worker].tasks)

    def get_current(self, worker: int) -> BatchTask:
        """What a worker is at, or begins next. Raises: IndexError where it has nothing."""
        return self._leased[worker].tasks[0]

    def get_load(self, worker: int) -> Load:
        """All that a worker has."""
        mine = self._leased[worker]
        return Load(len(mine.tasks), float(mine.cost))

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do, until more is added."""
        return not self._pending and not self.leased_count

    def lease(self, worker: int, count: int) -> list[BatchTask]:
        """Give a worker the next tasks, at most so many; none where none are left.

        Suspects are given alone: whoever dies of one loses nothing else.
        """
        mine = self._leased[worker]
        found: list[BatchTask] = []
        while self._pending and len(found) < count:
            if self._pending[0].mode is not Mode.WHOLE and (found or mine.tasks):
                break
            if mine.tasks and mine.tasks[0].mode is not Mode.WHOLE:
                break
            task = self._pending.popleft()
            self._pending_cost -= task.cost
            found.append(task)
            mine.tasks.append(task)
            mine.cost += task.cost
        return found

    def start(self, worker: int, key: tuple[int, int], record: int | None = None) -> None:
        """A worker has begun a task, or a record of one."""
        mine = self._find_current(worker, key)
        mine.is_started, mine.current = True, record

    def fail_record(self, worker: int, key: tuple[int, int], record: int, message: str) -> None:
        """A record that was run by itself raised something; its worker goes on with the next one."""
        mine = self._find_current(worker, key)
        self._mark(mine.tasks[0], record, "raised", message)
        mine.tasks[0] = _leave_out(mine.tasks[0], record)
        mine.current = None

    def pass_record(self, worker: int, key: tuple[int, int], record: int) -> None:
        """A record that was run by itself gave a result."""
        mine = self._find_current(worker, key)
        mine.tasks[0] = _leave_out(mine.tasks[0], record)
        mine.current = None

    def raise_batch(self, worker: int, key: tuple[int, int], message: str) -> None:
        """A whole batch raised something: its records are run one by one. The worker goes on."""
        task = self._end(worker, key)
        self._suspect(task, Mode.ACCEPTED if task.mode is Mode.AGAIN else Mode.SINGLY)

    def finish(self, worker: int, key: tuple[int, int]) -> bool:
        """A worker has done all of a task; whether its batch is settled by that, and its rows are to be kept.

        Where one of its records failed, what the others gave by themselves is kept; where none did, rows of records
        that were run one by one are dropped, and the batch is run whole again.
        """
        task = self._end(worker, key)
        if task.mode is Mode.SINGLY and not self._failed.get(key):
            self._put_back(replace(task, mode=Mode.AGAIN, records=()))
            return False
        self._failed.pop(key, None)
        return True

    def lose(self, worker: int, reason: WorkerLoss, message: str = "") -> RecordFailure | None:
        """A worker is gone, by itself or taken away: its tasks are pending again; the record that is to blame, if one
        is known to be. No record is blamed for the loss of a machine, unless it is lost over and over."""
        mine = self._leased.pop(worker)
        failed = None
        for place, task in reversed(list(enumerate(mine.tasks))):
            if place or not mine.is_started:
                self._put_back(task)
            elif reason == "gone" and task.departures < MOST_DEPARTURES:
                self._put_back(replace(task, departures=task.departures + 1))
            elif not task.is_single:
                lost = replace(task, losses=task.losses + 1)
                self._suspect(lost, Mode.ACCEPTED if lost.losses == MOST_LOSSES else Mode.SINGLY)
            elif mine.current is None:  # between two records
                self._put_back(task)
            else:
                failed = self._mark(task, mine.current, "crashed" if reason == "gone" else reason, message)
                self._put_back(_leave_out(task, mine.current))
        return failed

    def _put_back(self, task: BatchTask) -> None:
        """It is the next one."""
        self._pending.appendleft(task)
        self._pending_cost += task.cost

    def _suspect(self, task: BatchTask, mode: Mode) -> None:
        self._put_back(replace(task, mode=mode, records=task.batch.records))

    def _mark(self, task: BatchTask, record: int, reason: FailureReason, message: str) -> RecordFailure:
        found = RecordFailure(task.batch.window, record, reason, message)
        self._failed.setdefault(task.key, set()).add(record)
        self.failures.append(found)
        return found

    def _find_current(self, worker: int, key: tuple[int, int]) -> _Leased:
        mine = self._leased[worker]
        if not mine.tasks or mine.tasks[0].key != key:
            raise ValueError(f"worker {worker} reports batch {key}, and is at {[one.key for one in mine.tasks][:1]}")
        return mine

    def _end(self, worker: int, key: tuple[int, int]) -> BatchTask:
        mine = self._find_current(worker, key)
        mine.is_started, mine.current = False, None
        task = mine.tasks.popleft()
        mine.cost -= task.cost
        return task


def _leave_out(task: BatchTask, record: int) -> BatchTask:
    return replace(task, records=tuple(one for one in task.records if one != record))
