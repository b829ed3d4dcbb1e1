"""Preprocessing of the network's outputs with powers of x and 1 - x."""

from typing import Any

import keras
import tensorflow as tf

from tfperf.arrays import Float64Array


class RangeConstraint(keras.constraints.Constraint):
    """Clip to the closed range [low, high], element by element; low, high broadcast to the variable."""

    def __init__(self, low: Float64Array, high: Float64Array) -> None:
        self.low, self.high = low, high

    def __call__(self, value: tf.Tensor) -> tf.Tensor:
        """The nearest values within the range."""
        return tf.clip_by_value(value, tf.cast(self.low, value.dtype), tf.cast(self.high, value.dtype))


class Preprocessing(keras.layers.Layer):
    """Factor x^(1 - alpha) (1 - x)^beta of each replica and flavour; trained exponents stay within their ranges.

    Shapes: x (X) dimensionless; alpha, beta (R, F, 1); ranges (2 exponents, 2 ends, F); returns (R, F, X).
    Source: NNPDF4.0, arXiv:2109.02653, eq. 3.5.
    """

    def __init__(self, replicas: int, ranges: Float64Array, trainable_exponents: bool, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        shape = (replicas, ranges.shape[2], 1)
        self.alpha, self.beta = (
            self.add_weight(
                name=name, shape=shape, initializer="zeros", trainable=trainable_exponents,
                constraint=RangeConstraint(low[:, None], high[:, None]),
            )
            for name, (low, high) in zip(("alpha", "beta"), ranges, strict=True)
        )  # fmt: skip

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """The factor at the nodes."""
        return tf.pow(x, 1 - self.alpha) * tf.pow(1 - x, self.beta)
