"""Batches of a stream for an ensemble: all replicas take the same, of which some at a time are on the device.

K steps are there at a time, B samples are a batch.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfperf.arrays import ArraysByName, Float32Array, Int32Array
from tfperf.console.stages import ShowStage
from tfperf.errors import CardError, UserError
from tfperf.sources.samples import Samples
from tfperf.sources.streams import BatchStream
from tfperf.train.blueprints import Unread
from tfperf.workloads.keras.loops import to_tensors
from tfperf.workloads.keras.replicas.draws import RowDraw

MOST_BYTES = 2**28  # of the batches that are on the device
MOST_FIRST_BYTES = 2**30  # of the first epoch, where it has to be gone through to know its length
PLACE = "place"  # in a snapshot: the first step of the window, and where the stream was then
Nest = Any


def check_stream(stream: BatchStream, key: str) -> None:
    """CardError for batches that replicas cannot take."""
    for spec in tf.nest.flatten(stream.element_spec):
        if not isinstance(spec, tf.TensorSpec):
            raise CardError(f"{key}: has {type(spec).__name__}; replicas take dense tensors")
        if spec.dtype == tf.string:
            raise CardError(f"{key}: has texts; replicas take numbers: index the texts before")


def gather_samples(stream: BatchStream, steps: int | None, key: str) -> Samples:
    """All that a stream has, or of its first steps. Raises: UserError where that is too much."""
    return _join(_read_first(stream, steps or stream.length, key))


def _read_first(stream: BatchStream, steps: int | None, key: str) -> list[Nest]:
    """The first batches, all of a pass where `steps` is None."""
    count, found = 1, stream.read_first(1)
    while len(found) == count and count != steps:
        size = sum(_count_bytes(batch) for batch in found)
        if size > MOST_FIRST_BYTES:
            raise UserError(
                f"{key}: {len(found)} batches take {size / 2**30:.1f} GiB already, and replicas need to know how long "
                "an epoch is: let all batches be of one length (drop_remainder=True) and give train.steps_per_epoch, "
                "or give less"
            )
        count = 2 * count if steps is None else min(2 * count, steps)
        found = stream.read_first(count)
    return found


def _to_arrays(batch: Nest) -> tuple[Nest, ...]:
    found = keras.tree.map_structure(np.asarray, batch)
    return found if isinstance(found, tuple) else (found,)


def _count_bytes(batch: Nest) -> int:
    return sum(np.asarray(one).nbytes for one in keras.tree.flatten(batch))


def _count_samples(batch: Nest) -> int:
    return len(keras.tree.flatten(batch)[0])


def _join(batches: Sequence[Nest]) -> Samples:
    parts = [_to_arrays(batch) for batch in batches]
    return Samples(keras.tree.map_structure(lambda *some: np.concatenate(some), *parts))


class StreamWindow(Unread):
    """The batches that are on the device. It goes along with the training: before a call it has what that takes."""

    def __init__(self, stream: BatchStream, steps_per_epoch: int | None, show_stage: ShowStage) -> None:
        """steps_per_epoch: None: an epoch is a pass. Raises: UserError for batches that are not of one shape."""
        self._stream, self._show_stage, self._is_natural = stream, show_stage, steps_per_epoch is None
        batches = _read_first(stream, stream.length, "data") if steps_per_epoch is None else stream.read_first(1)
        self.batch = _count_samples(batches[0])
        self.epoch = steps_per_epoch or len(batches)
        self.last = self.batch if steps_per_epoch else _count_samples(batches[-1])  # samples of an epoch's last batch
        self.samples = (self.epoch - 1) * self.batch + self.last
        self.example = _join([batches[0], *(batches[-1:] if self.last < self.batch else ())])  # to trace a step with
        self.size = max(1, min(self.epoch, MOST_BYTES // max(1, _count_bytes(batches[0]))))
        tensors = to_tensors(Samples(_to_arrays(batches[0])))
        self.tensors = keras.tree.map_structure(self._make_variable, tensors)  # nest of (K B, ...)
        self.first = self.count = 0  # the first step that is there, and how many are
        self._place = (0, 0)
        self._load(0)

    def _make_variable(self, one: tf.Tensor) -> tf.Variable:
        return tf.Variable(tf.zeros([self.size * self.batch, *one.shape[1:]], one.dtype), trainable=False)

    def restart(self, stream: BatchStream) -> None:
        """Begin again, with a stream that is new."""
        stream.read_first(1)
        self._stream = stream
        self._load(0)

    def _load(self, first: int) -> None:
        """Have the batches of the steps from `first` on."""
        stream, count = self._stream, min(self.size, self.epoch - first % self.epoch)
        if self._is_natural:
            stream.move_to(*divmod(first, self.epoch), self._show_stage)
        self._place = stream.place
        batches = [self._take(first + i) for i in range(count)]
        found = to_tensors(_join(batches))
        rest = self.size * self.batch - _count_samples(found)
        for variable, value in zip(keras.tree.flatten(self.tensors), keras.tree.flatten(found), strict=True):
            if value.shape[1:] != variable.shape[1:]:
                raise UserError(f"data: has batches of shapes {variable.shape[1:]} and {value.shape[1:]}; {_ONE_SHAPE}")
            variable.assign(tf.pad(value, [[0, rest], *[[0, 0]] * (len(value.shape) - 1)]))
        self.first, self.count = first, count

    def _take(self, step: int) -> Nest:
        """The batch of a step. Raises: UserError for one of another shape."""
        batch = self._read_next()
        wanted = self.last if (step + 1) % self.epoch == 0 else self.batch
        if (count := _count_samples(batch)) != wanted:
            raise UserError(f"data: step {step + 1} has {count} samples, must have {wanted}; {_ONE_SHAPE}")
        return batch

    def _read_next(self) -> Nest:
        stream, empty = self._stream, 0
        while True:
            try:
                batch = next(stream.iterator)
            except StopIteration:
                if stream.open_next():
                    continue
                if self._is_natural or empty:
                    raise UserError("data: a later pass has fewer batches than the first") from None
                empty += 1
                stream.begin_next()
            except tf.errors.OpError:
                if (fault := stream.find_fault()) is not None:
                    raise UserError(f"data: {fault}") from None
                raise
            else:
                stream.count(1)
                return batch

    def prepare(self, step: int) -> int:
        """Have the batches of the next steps; how many there are."""
        if not self.first <= step < self.first + self.count:
            self._load(step)
        return self.first + self.count - step

    def end_call(self, before: int, step: int, metrics: Mapping[str, Float32Array]) -> None:
        """Nothing to do."""

    def finish(self, step: int) -> None:
        """Nothing to do."""

    def snapshot(self) -> ArraysByName:
        """Where the stream was when the window was filled."""
        return {PLACE: np.array([self.first, *self._place], np.int64)}

    def restore(self, snapshot: ArraysByName) -> None:
        """Be there again."""
        first, number, done = map(int, snapshot[PLACE])
        if first != self.first:
            self._stream.move_to(number, done, self._show_stage)
            self._load(first)


_ONE_SHAPE = (
    "replicas take batches of one shape: pad them, and batch with drop_remainder=True where passes are no epochs"
)


class StreamDraw(RowDraw):
    """The batches of one replica, which all others take, too."""

    def __init__(self, seed: int, window: StreamWindow) -> None:
        """seed: of its model."""
        self.seed, self._window = seed, window

    def draw_rows(self, step: int, count: int) -> Int32Array:
        """Rows of the window of `count` steps from number `step` on (count, B); of others than it has, of some."""
        window = self._window
        numbers = (step - window.first + np.arange(count)) % window.count
        return (numbers[:, None] * window.batch + np.arange(window.batch)).astype(np.int32)
