"""All trained numbers of a replica side by side, so that an optimizer step is few operations, not some per layer."""

from collections.abc import Sequence
from math import prod

import keras
import tensorflow as tf


class Flattener:
    """Variables (R, ...) side by side as (R, P), of a type that holds each of theirs exactly: float32 at least."""

    def __init__(self, shapes: Sequence[tuple[int, ...]], dtypes: Sequence[str] = ()) -> None:
        """`shapes`: those of the variables, with the replica axis; `dtypes`: their types, where these may differ."""
        self.shapes = list(shapes)
        self.sizes = [prod(shape[1:]) for shape in shapes]
        self.dtype = keras.backend.result_type("float32", *dtypes)
        # empty where all are of that type, so that nothing is cast
        self.dtypes = [*dtypes] if {*dtypes} - {self.dtype} else []

    def join(self, variables: Sequence[tf.Tensor]) -> tf.Tensor:
        """(R, P) from the variables."""
        if self.dtypes:
            variables = [tf.cast(p, self.dtype) for p in variables]
        return tf.concat(
            [tf.reshape(p, [s[0], n]) for p, s, n in zip(variables, self.shapes, self.sizes, strict=True)], 1
        )

    def split(self, weights: tf.Tensor) -> list[tf.Tensor]:
        """The variables' values, of (R, P)."""
        arrays = tf.split(weights, self.sizes, axis=1)
        if self.dtypes:
            arrays = [tf.cast(p, dtype) for p, dtype in zip(arrays, self.dtypes, strict=True)]
        return [tf.reshape(p, shape) for p, shape in zip(arrays, self.shapes, strict=True)]
