"""Batches of a stream; an epoch is a pass of it, or a number of steps."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfperf.arrays import ArraysByName
from tfperf.console.stages import ShowStage
from tfperf.errors import UserError
from tfperf.sources.streams import BatchStream
from tfperf.workloads.keras.loops import Compilation, KerasLoop, Logs, Step, StepLoop, StreamLoop

PLACE = "place"  # in a snapshot: the pass, and the batches of it that were taken


class StreamFeed:
    """A stream of batches; an epoch is a pass, or a number of steps, after which the stream goes on."""

    compilations: Sequence[Compilation] = ("graph", "XLA step")

    def __init__(self, stream: BatchStream, steps_per_epoch: int | None, show_stage: ShowStage) -> None:
        """show_stage: told what a resumed run waits for."""
        self._stream, self._show_stage = stream, show_stage
        self._is_natural = steps_per_epoch is None
        self.steps_per_epoch = stream.length if self._is_natural else steps_per_epoch
        self.unkept = stream.unkept
        specs = tf.nest.flatten(stream.element_spec, expand_composites=True)
        self.has_texts = any(spec.dtype == tf.string for spec in specs)
        lengths = {spec.shape[0] for spec in tf.nest.flatten(stream.read_first(1)[0]) if spec.shape.rank}
        self.batch: int | None = lengths.pop() if len(lengths) == 1 else None

    def read_first_batch(self) -> Any:
        """The first."""
        return self._stream.read_first(1)[0]

    def record(self, count: int) -> "RecordedBatches":
        """The first; the training takes them, too."""
        batches = self._stream.read_first(count)
        return RecordedBatches(self._stream.repeat(batches), len(batches))

    def make_loop(self, step: Step, compilation: Compilation) -> StepLoop:
        """A compiled loop over an iterator."""
        return StreamLoop(step, self._stream.element_spec, compilation)

    def make_keras_loop(self, model: keras.Model, xla: bool) -> StepLoop:
        """Keras' own."""
        return KerasLoop(model, None, xla)

    def run(self, loop: StepLoop, epoch: int, done: int, count: int) -> tuple[int, Logs]:
        """As many calls as the stream has iterators."""
        stream, left, logs = self._stream, count, Logs()
        if self._is_natural:
            stream.move_to(epoch, done, self._show_stage)
        empty = 0
        while left:
            more, last = self._run_loop(loop, left)
            stream.count(more)
            left, logs, empty = left - more, last or logs, 0 if more else empty
            if left and not stream.open_next():
                if self._is_natural:
                    break
                empty += 1
                if empty > 1:
                    raise UserError("data: a pass of the dataset has no batch")
                stream.begin_next()
        return count - left, logs

    def _run_loop(self, loop: StepLoop, count: int) -> tuple[int, Logs]:
        try:
            return loop.run((self._stream.iterator, count))
        except tf.errors.OpError:
            if (fault := self._stream.find_fault()) is not None:
                raise UserError(f"data: {fault}") from None
            raise

    def warm_up(self, loop: StepLoop) -> None:
        """A step of a batch that was looked at; other shapes are compiled when they come."""
        loop.run((iter(self._stream.repeat(self._stream.read_first(1))), 1))

    def snapshot(self) -> ArraysByName:
        """The pass, and the batches that were taken."""
        return {PLACE: np.array(self._stream.place)}

    def restore(self, snapshot: ArraysByName) -> None:
        """Go through what was taken."""
        self._stream.read_first(1)
        number, done = map(int, snapshot[PLACE])
        self._stream.move_to(number, done, self._show_stage)


class RecordedBatches:
    """Batches of a stream in memory."""

    def __init__(self, dataset: tf.data.Dataset, count: int) -> None:
        """dataset: of the batches."""
        self._dataset, self._count = dataset, count

    def __len__(self) -> int:
        """All of them."""
        return self._count

    def split(self, single: bool) -> list[tuple[Any, int]]:
        """Steps of one iterator."""
        iterator = iter(self._dataset)
        return [(iterator, 1)] * self._count if single else [(iterator, self._count)]

    def repeat(self, count: int) -> tuple[Any, int]:
        """An iterator that begins again at its end."""
        return iter(self._dataset.repeat()), count
