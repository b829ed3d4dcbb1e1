"""An operation that Keras puts into a graph where a layer makes a mask; NotEqual, the other, is among `operations`."""

from typing import Any

import tensorflow as tf
from keras.src.ops.numpy import Any as AnyOf

from tfperf.workloads.keras.stacked.layer import StackedLayer, Values, register
from tfperf.workloads.keras.stacked.layers.alignment import shift_axes


@register
class StackedAnyOf(StackedLayer[Any]):
    """Whether any number along some axes is not 0. Shapes: (R, B, ...) to (R, ...)."""

    kinds = (AnyOf,)

    def call(self, values: Values, *inputs: Any, training: bool, **options: Any) -> tf.Tensor:
        """Of each replica's own numbers."""
        (x,), operation = inputs, self.layer
        axes = range(len(x.shape) - 1) if operation.axis is None else operation.axis
        return tf.reduce_any(tf.cast(x, tf.bool), shift_axes(axes, len(x.shape)), operation.keepdims)
