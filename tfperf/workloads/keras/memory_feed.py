"""Batches of samples in memory, in an order that is drawn for each epoch."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfperf.arrays import ArraysByName, Indices
from tfperf.sources.py_datasets import DrawOrder
from tfperf.sources.samples import Samples
from tfperf.workloads.keras.loops import (
    Compilation,
    KerasLoop,
    Logs,
    MemoryLoop,
    Step,
    StepLoop,
    select_batch,
    to_tensors,
)  # fmt: skip


class MemoryFeed:
    """Samples in memory."""

    unkept: Sequence[str] = ()
    compilations: Sequence[Compilation] = ("graph", "XLA loop", "XLA step")

    def __init__(self, samples: Samples, batch: int, draw_order: DrawOrder) -> None:
        """batch: at most; the last of an epoch has what is left."""
        self.batch = min(batch, len(samples))
        self.steps_per_epoch = -(-len(samples) // self.batch)
        self._count, self._draw_order = len(samples), draw_order
        self._tensors = to_tensors(samples)
        self.has_texts = any(tensor.dtype == tf.string for tensor in keras.tree.flatten(self._tensors))
        self._order: tuple[int, Indices] | None = None  # of an epoch

    def read_first_batch(self) -> Any:
        """The first of the first epoch."""
        return select_batch(self._tensors, tf.constant(self._split(0)[0][0]))

    def record(self, count: int) -> "RecordedRows":
        """Those of the first epoch; timing goes through all of them."""
        return RecordedRows(self._split(0)[0], count)

    def make_loop(self, step: Step, compilation: Compilation) -> StepLoop:
        """A compiled loop over samples in memory."""
        return MemoryLoop(step, self._tensors, self.batch, compilation)

    def make_keras_loop(self, model: keras.Model, xla: bool) -> StepLoop:
        """Keras' own over the same batches."""
        return KerasLoop(model, self._tensors, xla)

    def run(self, loop: StepLoop, epoch: int, done: int, count: int) -> tuple[int, Logs]:
        """One call for whole batches, one for a shorter last."""
        order, logs = self._get_order(epoch)[done * self.batch : (done + count) * self.batch], Logs()
        total = 0
        for rows in split_rows(order, self.batch):
            more, logs = loop.run(rows)
            total += more
        return total, logs

    def warm_up(self, loop: StepLoop) -> None:
        """Compile what an epoch needs."""
        for rows in self._split(0):
            loop.run(rows[:1])

    def snapshot(self) -> ArraysByName:
        """Nothing: any epoch's order can be drawn."""
        return {}

    def restore(self, snapshot: ArraysByName) -> None:
        """Nothing to do."""

    def _split(self, epoch: int) -> list[Indices]:
        return split_rows(self._get_order(epoch), self.batch)

    def _get_order(self, epoch: int) -> Indices:
        if self._order is None or self._order[0] != epoch:
            self._order = epoch, self._draw_order(epoch, self._count)
        return self._order[1]


class RecordedRows:
    """Batches of samples in memory."""

    def __init__(self, rows: Indices, count: int) -> None:
        """rows: (steps, batch); the first `count` are compared."""
        self._rows, self._first = rows, rows[:count]

    def __len__(self) -> int:
        """Those that are compared."""
        return len(self._first)

    def split(self, single: bool) -> list[Indices]:
        """Rows of samples."""
        return [row[None] for row in self._first] if single else [self._first]

    def repeat(self, count: int) -> Indices:
        """Rows of samples."""
        return self._rows[np.arange(count) % len(self._rows)]


def split_rows(order: Indices, batch: int) -> list[Indices]:
    """Samples in the order of steps as whole batches (steps, batch), and the shorter last one by itself.

    >>> import numpy as np
    >>> [rows.tolist() for rows in split_rows(np.arange(5), batch=2)]
    [[[0, 1], [2, 3]], [[4]]]
    """
    whole = len(order) // batch * batch
    parts = [order[:whole].reshape(-1, batch), order[whole:].reshape(1, -1)]
    return [rows for rows in parts if rows.size]
