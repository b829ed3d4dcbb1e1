"""Data that take a stated time for each element, and a record of when each began: the truth for studies of workers.

A wait takes no processor. One that holds Python's lock keeps all other Python code of its process waiting, as native
code does that does not release it; one that does not lets any number of others wait at the same time, as for a disk.
"""

import ctypes
import os
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfperf.arrays import AnyArray, Float32Array, Int32Array

ENTRY = np.dtype([("index", "<i8"), ("process", "<i8"), ("thread", "<i8"), ("start", "<f8"), ("end", "<f8")])
CLASSES = 13  # of the labels, as the photographs have


def wait(seconds: float, holds_gil: bool) -> None:
    """Wait that long, with or without holding Python's lock."""
    if not holds_gil:
        time.sleep(seconds)
        return
    end = time.perf_counter() + seconds
    library = ctypes.PyDLL(None)  # whose calls, unlike CDLL's, keep the lock
    while (left := end - time.perf_counter()) > 0:
        library.usleep(int(left * 1e6) + 1)  # a signal may end it early


class StartTimes:
    """When each element began and ended, in seconds of this machine's monotonic clock, from any thread or process.

    A file to which each appends in one write; it may be pickled, and then goes on with the same file. Of elements that
    wait with Python's lock the times may overlap, though the waits cannot: between its begin and its wait the lock may
    pass to another.
    """

    def __init__(self, path: Path | str | None = None) -> None:
        """path: None makes a temporary file."""
        if path is None:
            descriptor, path = tempfile.mkstemp(prefix="tfperf_waits_")
            os.close(descriptor)
        self.path = Path(path)

    def add(self, index: int, start: float, end: float) -> None:
        """An element is done."""
        entry = np.array([(index, os.getpid(), threading.get_native_id(), start, end)], ENTRY)
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, entry.tobytes())
        finally:
            os.close(descriptor)

    def read(self) -> AnyArray:
        """Records (N) of ENTRY, by start."""
        found = np.fromfile(self.path, ENTRY) if self.path.exists() else np.zeros(0, ENTRY)
        return found[np.argsort(found["start"], kind="stable")]

    def clear(self) -> None:
        """Forget all."""
        self.path.write_bytes(b"")

    def count_most_at_once(self) -> int:
        """How many elements were being made at the same time, at most."""
        found = self.read()
        times = np.concatenate([found["start"], found["end"]])
        changes = np.repeat([1, -1], len(found))
        # of what ends and begins at the same time, the end comes first
        return int(np.cumsum(changes[np.lexsort((changes, times))]).max(initial=0))


class Wait:
    """A stage that takes its time: `seconds` for each element, with or without Python's lock, each recorded."""

    def __init__(self, seconds: float, holds_gil: bool = False, times: StartTimes | None = None) -> None:
        self.seconds, self.holds_gil, self.times = seconds, holds_gil, times or StartTimes()

    def take(self, index: int) -> None:
        """Wait once, for the element of that number."""
        start = time.perf_counter()
        wait(self.seconds, self.holds_gil)
        self.times.add(index, start, time.perf_counter())

    def pass_on(self, value: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
        """A function for tf.data's map: the value, later. index: a number of the element, or anything else: -1."""
        number = index if index.dtype.is_integer else tf.constant(-1)

        def call(value: Any, number: Any) -> Any:
            self.take(int(number))
            return value

        given = tf.numpy_function(call, (value, number), value.dtype)
        given.set_shape(value.shape)
        return given


def make_element(index: int, shape: tuple[int, ...]) -> tuple[Float32Array, int]:
    """x of that shape, 0 to 1, all its numbers the same; y a class number. Both functions of the index."""
    return np.full(shape, index % 101 / 100, np.float32), index % CLASSES


def load_waiting(
    seconds: float = 1.0, records: int = 32, batch: int = 1, shape: tuple[int, ...] = (96, 96, 3),
    holds_gil: bool = False, parallel_calls: int = 1, prefetch: int = 0, threads: int = 0, times: str | None = None,
) -> tf.data.Dataset:  # fmt: skip
    """Batches of x (batch, *shape) and y (batch) by tf.data, `seconds` for each element, in a map named `wait`.

    parallel_calls, prefetch, threads: as of `tfperf.zoo.photos_pipeline.PipelineForm`; however many calls are allowed,
    no more wait at once than the pool has threads, which without one of the dataset's own are as many as the cores.
    times: the file of its `StartTimes`. Source: the mock dataset of a published study of workers, 32 records of a
    second each.
    """
    pause = Wait(seconds, holds_gil, StartTimes(times))
    calls = None if parallel_calls == 1 else parallel_calls
    numbers = tf.data.Dataset.range(records, output_type=tf.int32, name="records")
    waited = numbers.map(lambda index: pause.pass_on(index, index), calls, name="wait")

    def make(index: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return tf.fill(shape, tf.cast(index % 101, tf.float32) / 100), index % CLASSES

    made = waited.map(make, name="make").batch(batch, name="batch")
    if prefetch:
        made = made.prefetch(prefetch, name="prefetch")
    options = tf.data.Options()
    if threads:
        options.threading.private_threadpool_size = threads
    return made.with_options(options)


class WaitingSequence(keras.utils.PyDataset):
    """The same elements as a keras.utils.PyDataset: a batch takes `seconds` for each element, one after the other."""

    def __init__(
        self, pause: Wait, records: int, batch: int, shape: tuple[int, ...], workers: int, use_multiprocessing: bool
    ) -> None:
        super().__init__(workers, use_multiprocessing)
        self.pause, self.records, self.batch, self.shape = pause, records, batch, shape

    def __len__(self) -> int:
        return -(-self.records // self.batch)

    def __getitem__(self, number: int) -> tuple[Float32Array, Int32Array]:
        indices = range(number * self.batch, min((number + 1) * self.batch, self.records))
        for index in indices:
            self.pause.take(index)
        x, y = zip(*(make_element(index, self.shape) for index in indices), strict=True)
        return np.stack(x), np.array(y, np.int32)


def load_waiting_sequence(
    seconds: float = 1.0, records: int = 32, batch: int = 1, shape: tuple[int, ...] = (96, 96, 3),
    holds_gil: bool = False, workers: int = 1, use_multiprocessing: bool = False, times: str | None = None,
) -> WaitingSequence:  # fmt: skip
    """`load_waiting` as a PyDataset, with so many workers: threads, or processes."""
    return WaitingSequence(
        Wait(seconds, holds_gil, StartTimes(times)), records, batch, shape, workers, use_multiprocessing
    )
