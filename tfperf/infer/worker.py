"""A process that runs the model: it loads that once, then does batch after batch, and says when it begins each.

Messages to it are lists of (BatchTask, columns); from it come lists of
("ready", text), ("start", key, record), ("rows", key, record, values, seconds), ("raised", key, record, text) and
("end", key). A record stands for one that is run by itself, None for the whole batch. What ends a batch goes in one
list with what begins the next one, where there is one.
"""

import os
import pickle
import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from tfperf.arrays import AnyArray
from tfperf.infer.leases import BatchTask
from tfperf.infer.prepared import Column, RaggedColumn
from tfperf.infer.preparer import describe_error

Model = Callable[[Mapping[str, AnyArray]], Mapping[str, AnyArray]]


@dataclass(frozen=True)
class WorkerSpec:
    """What a worker loads, by a function that another process can import. fills: what the end of values is filled up
    with, by the names of inputs, 0 otherwise; slowness: how many times its own time it takes for a batch, asleep for
    the rest, so that it stands in for a slower device."""

    load_model: Callable[[], Model]
    fills: Mapping[str, Any] = field(default_factory=dict)
    slowness: float = 1.0


class _Outbox:
    """What is to be said, kept until it is sent in one list."""

    def __init__(self, connection: Connection) -> None:
        self._connection, self._kept = connection, list[tuple[Any, ...]]()

    def keep(self, *message: Any) -> None:
        """Say it with the next one that is sent."""
        self._kept.append(message)

    def send(self, *message: Any) -> None:
        """Say it now."""
        self.keep(*message)
        self.flush()

    def flush(self) -> None:
        """Say now what was kept, if anything was."""
        if self._kept:
            self._connection.send_bytes(pickle.dumps(self._kept, protocol=5))
            self._kept = []


def run_worker(connection: Connection, spec: WorkerSpec) -> None:
    """Load the model, and run what comes until the pipe ends."""
    inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(connection, inbox), daemon=True).start()
    outbox = _Outbox(connection)
    model = spec.load_model()
    outbox.send("ready", os.getpid())
    while True:
        if inbox.empty():
            outbox.flush()
        for task, columns in inbox.get():
            _run_task(outbox, spec, model, task, columns)


def _receive(connection: Connection, inbox: "queue.SimpleQueue[Any]") -> None:
    """Messages as they come; the end of the pipe ends the process, whatever it is at."""
    try:
        while True:
            inbox.put(connection.recv())
    except (EOFError, OSError):
        os._exit(0)


def _run_task(outbox: _Outbox, spec: WorkerSpec, model: Model, task: BatchTask, columns: Mapping[str, Column]) -> None:
    """columns: of the task's records, where it runs these one by one; of all of its batch else."""
    if not task.is_single:
        _run_records(outbox, spec, model, task, None, columns)
        return
    for place, record in enumerate(task.records):
        _run_records(outbox, spec, model, task, record, _take_one(columns, place))
    outbox.keep("end", task.key)


def _take_one(columns: Mapping[str, Column], place: int) -> dict[str, Column]:
    return {
        name: one[place : place + 1] if isinstance(one, np.ndarray) else one.take([place])
        for name, one in columns.items()
    }


def _run_records(
    outbox: _Outbox, spec: WorkerSpec, model: Model, task: BatchTask, record: int | None,
    columns: Mapping[str, Column],
) -> None:  # fmt: skip
    outbox.send("start", task.key, record)
    try:
        values, seconds = compute_batch(spec, model, columns)
    except Exception as error:
        outbox.keep("raised", task.key, record, describe_error(error))
    else:
        outbox.keep("rows", task.key, record, values, seconds)


def compute_batch(
    spec: WorkerSpec, model: Model, columns: Mapping[str, Column]
) -> tuple[Mapping[str, AnyArray], float]:
    """Values (n, ...) by names, and seconds that it took, sleep counted. Raises: whatever the model raises."""
    begin = time.perf_counter()
    inputs = {
        name: one.pad(spec.fills.get(name, 0)) if isinstance(one, RaggedColumn) else one
        for name, one in columns.items()
    }
    values = model(inputs)
    spent = time.perf_counter() - begin
    if spec.slowness > 1:
        time.sleep((spec.slowness - 1) * spent)
    return values, spent * spec.slowness
