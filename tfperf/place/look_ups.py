"""What a device looks up in embedding tables, read off the trainable's own graph for a local batch of known shapes."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import keras
import tensorflow as tf

from tfperf.place.shapes import UNKNOWN, TensorType
from tfperf.place.trainable import Trainable


class LookUp(NamedTuple):
    """In one table: how many, a row each, as often as it is named; bytes of a row and of an id.

    own_ids: whether the device finds the ids itself; else they are as the batch has them.
    """

    positions: int
    row: int
    width: int
    own_ids: bool

    @property
    def rows(self) -> int:
        """Bytes of all rows."""
        return self.positions * self.row

    @property
    def ids(self) -> int:
        """Bytes of all ids."""
        return self.positions * self.width


def trace_look_ups(trainable: Trainable, local_batch: Sequence[TensorType]) -> list[LookUp]:
    """Of each table, for a local batch of these shapes."""
    found: list[LookUp] = []

    def trace(*sides: tf.Tensor) -> None:
        for ids, table in zip(trainable.select_ids(sides), trainable.embeddings, strict=True):
            own = all(ids is not side for side in sides)
            # of tensors that nothing asked for, whose rows it does not ask for either, shapes may be unknown
            positions = math.prod(ids.shape) if ids.shape.is_fully_defined() else 0
            found.append(LookUp(positions, count_row_bytes(table), ids.dtype.size, own))

    tf.function(trace, autograph=False).get_concrete_function(*make_local_batch_specs(local_batch))
    return found


def make_local_batch_specs(local_batch: Sequence[TensorType]) -> list[tf.TensorSpec]:
    """Of a local batch's tensors."""
    return [
        tf.TensorSpec([None if size == UNKNOWN else size for size in value.dimensions], tf.as_dtype(value.kind))
        for value in local_batch
    ]


def count_row_bytes(table: keras.Variable) -> int:
    """Bytes of a row of a table (V, U)."""
    return int(tf.as_dtype(table.dtype).size) * int(table.shape[-1])
