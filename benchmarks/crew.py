"""Rules by which others hand out records, with tfperf's own worker, so that nothing but the rule differs.

Workers are processes that load the model once. A unit is cut into micro-batches by the same rule wherever it goes.
"""

import math
import pickle
import queue
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import current_process, get_context
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any

import numpy as np

from tfperf.arrays import AnyArray
from tfperf.errors import UserError
from tfperf.infer.dispatch_records import Slot
from tfperf.infer.micro_batches import BatchRule, cut_window
from tfperf.infer.prepared import RaggedColumn
from tfperf.infer.subprocesses import MessageProcess
from tfperf.infer.worker import Model, WorkerSpec, compute_batch

POOL_CHUNKS = 10  # of each worker, as sentence-transformers 5.1 cuts them
LOOK_SECONDS = 5.0  # between two looks at whether workers are there
FROM_QUEUE = "queue"  # what a worker is told that is to take units from the queue, until it finds the end there


@dataclass(frozen=True)
class Unit:
    """Records that are handed out together: the first one's number, and the values of the model's only input."""

    first: int
    values: RaggedColumn


@dataclass(frozen=True)
class UnitRows:
    """What came out: rows (n, ...); seconds of computing, asleep or not."""

    worker: int
    first: int
    rows: AnyArray
    seconds: float


@dataclass(frozen=True)
class CrewSpec:
    """What a worker of a crew needs. queues: pickled, since only processes with the key can have them."""

    worker: WorkerSpec
    number: int
    name: str  # of the input
    rule: BatchRule
    key: bytes
    queues: bytes


@dataclass(frozen=True)
class HandedOut:
    """What a rule came to: seconds from the first unit that is handed out to the last rows; rows (n, ...); of each
    worker the records, and seconds of its own computing, sleep not counted."""

    seconds: float
    rows: AnyArray
    records: tuple[int, ...]
    computing: tuple[float, ...]


def serve_crew(connection: Connection, spec: CrewSpec) -> None:
    """Load the model, then answer each unit, or take units from the queue."""
    current_process().authkey = spec.key
    tasks, results = pickle.loads(spec.queues)
    model = spec.worker.load_model()
    connection.send("ready")
    while True:
        told = connection.recv()
        if told != FROM_QUEUE:
            connection.send(compute_unit(spec, model, told))
            continue
        while (unit := tasks.get()) is not None:
            results.put(compute_unit(spec, model, unit))


def compute_unit(spec: CrewSpec, model: Model, unit: Unit) -> UnitRows:
    """Rows of a unit, by micro-batches."""
    parts, order, seconds = [], list[int](), 0.0
    for batch in cut_window(0, unit.values.lengths, spec.rule):
        values, spent = compute_batch(spec.worker, model, {spec.name: unit.values.take(batch.records)})
        parts.append(next(iter(values.values())))
        order += batch.records
        seconds += spent
    return UnitRows(spec.number, unit.first, np.concatenate(parts)[np.argsort(order)], seconds)


class Crew:
    """Processes that wait for units. Raises: UserError where one ends before it is told to."""

    def __init__(self, slots: Sequence[Slot], name: str, rule: BatchRule) -> None:
        self.slots = slots
        self._manager = get_context("spawn").Manager()
        self.tasks, self.results = self._manager.Queue(), self._manager.Queue()
        queues, key = pickle.dumps((self.tasks, self.results)), bytes(current_process().authkey)
        self.workers = [
            MessageProcess(serve_crew, CrewSpec(slot.spec, number, name, rule, key, queues), slot.environment)
            for number, slot in enumerate(slots)
        ]

    def __enter__(self) -> "Crew":
        try:
            for number in range(len(self.workers)):
                self.receive(number)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all processes."""
        for one in self.workers:
            one.kill()
        self._manager.shutdown()

    def receive(self, number: int) -> Any:
        """What a worker says."""
        try:
            return self.workers[number].connection.recv()
        except (EOFError, OSError):
            raise UserError(f"{self.slots[number].name}: {self.workers[number].kill()}") from None

    def take_result(self) -> UnitRows:
        """What comes next through the queue of results."""
        while True:
            try:
                found: UnitRows = self.results.get(timeout=LOOK_SECONDS)
                return found
            except queue.Empty:
                for number, one in enumerate(self.workers):
                    if one.connection.poll(0):  # it says nothing while it takes units from the queue
                        self.receive(number)


def cut_units(values: RaggedColumn, size: int) -> list[Unit]:
    """Of so many records each, as they come."""
    count = len(values.lengths)
    return [Unit(first, values.take(range(first, min(count, first + size)))) for first in range(0, count, size)]


def run_queue(crew: Crew, values: RaggedColumn, size: int) -> HandedOut:
    """Units of one size through a queue, which whoever is free takes the next one from."""
    units = cut_units(values, size)
    for one in crew.workers:
        one.send(FROM_QUEUE)
    begin = time.monotonic()
    for unit in units:
        crew.tasks.put(unit)
    for _ in crew.workers:
        crew.tasks.put(None)
    found = [crew.take_result() for _ in units]
    return gather_rows(crew, found, time.monotonic() - begin)


def run_pool(crew: Crew, values: RaggedColumn) -> HandedOut:
    """Ten chunks for each worker, of equal size, through a queue."""
    return run_queue(crew, values, math.ceil(len(values.lengths) / len(crew.workers) / POOL_CHUNKS))


def run_rounds(crew: Crew, values: RaggedColumn, size: int) -> HandedOut:
    """An equal unit for each worker, and the next ones when all are done."""
    units, found, begin = cut_units(values, size), list[UnitRows](), time.monotonic()
    for first in range(0, len(units), len(crew.workers)):
        some = units[first : first + len(crew.workers)]
        for worker, unit in zip(crew.workers, some, strict=False):
            worker.send(unit)
        found += [crew.receive(number) for number in range(len(some))]
    return gather_rows(crew, found, time.monotonic() - begin)


def gather_rows(crew: Crew, found: Sequence[UnitRows], seconds: float) -> HandedOut:
    """Units that were computed, in the order of their records."""
    records, computing = [0] * len(crew.slots), [0.0] * len(crew.slots)
    for one in found:
        records[one.worker] += len(one.rows)
        computing[one.worker] += one.seconds / crew.slots[one.worker].spec.slowness
    rows = np.concatenate([one.rows for one in sorted(found, key=lambda one: one.first)])
    return HandedOut(seconds, rows, tuple(records), tuple(computing))


Rule = Callable[[Crew, RaggedColumn], HandedOut]


def make_rules(sizes: Sequence[int], size_of_rounds: int) -> Mapping[str, Rule]:
    """By name: the queue with units of each size, the pool, and rounds."""

    def queue_up(size: int) -> Rule:
        return lambda crew, values: run_queue(crew, values, size)

    return {
        **{f"queue of units of {size}": queue_up(size) for size in sizes}, "pool": run_pool,
        "rounds": lambda crew, values: run_rounds(crew, values, size_of_rounds),
    }  # fmt: skip
