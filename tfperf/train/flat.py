"""All trained numbers of a replica side by side, so that an optimizer step is few operations, not some per layer."""

from collections.abc import Sequence
from math import prod

import tensorflow as tf


class Flattener:
    """Variables (R, ...) side by side as (R, P)."""

    def __init__(self, shapes: Sequence[tuple[int, ...]]) -> None:
        """`shapes`: those of the variables, with the replica axis."""
        self.shapes = list(shapes)
        self.sizes = [prod(shape[1:]) for shape in shapes]

    def join(self, variables: Sequence[tf.Tensor]) -> tf.Tensor:
        """(R, P) from the variables."""
        return tf.concat(
            [tf.reshape(p, [s[0], n]) for p, s, n in zip(variables, self.shapes, self.sizes, strict=True)], 1
        )

    def split(self, weights: tf.Tensor) -> list[tf.Tensor]:
        """The variables' values, of (R, P)."""
        arrays = tf.split(weights, self.sizes, axis=1)
        return [tf.reshape(p, shape) for p, shape in zip(arrays, self.shapes, strict=True)]
