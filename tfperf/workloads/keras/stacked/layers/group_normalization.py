"""Group normalization: the channels of each sample in groups. G groups of C channels."""

from typing import Any

import keras
import tensorflow as tf

from tfperf.workloads.keras.stacked.layer import StackedLayer, Values, register
from tfperf.workloads.keras.stacked.layers.alignment import align_weights, shift_axes
from tfperf.workloads.keras.stacked.layers.folded import move_mask


@register
class StackedGroupNormalization(StackedLayer[keras.layers.GroupNormalization]):
    """Shapes: (R, B, ..., G C, ...) to the same; weights (R, G C)."""

    kinds = (keras.layers.GroupNormalization,)

    def call(self, values: Values, *inputs: Any, training: bool, **options: Any) -> tf.Tensor:
        """Inputs less the mean of their sample and group, by the deviation, times gamma, plus beta."""
        (x,), layer = inputs, self.layer
        (axis,) = shift_axes([layer.axis], len(x.shape))
        shape = tf.shape(x) if None in x.shape else x.shape
        groups = [*shape[:axis], layer.groups, x.shape[axis] // layer.groups, *shape[axis + 1 :]]
        wide = tf.cast(tf.reshape(x, groups), keras.backend.result_type(x.dtype, "float32"))

        def get(variable: keras.Variable) -> tf.Tensor:
            return align_weights(tf.cast(values.get(variable), wide.dtype), wide, [axis, axis + 1])

        axes = [one for one in range(2, len(wide.shape)) if one != axis]
        mean, variance = tf.nn.moments(wide, axes, keepdims=True)
        scale = tf.math.rsqrt(variance + layer.epsilon)
        if layer.scale:
            scale *= get(layer.gamma)
        offset = -mean * scale
        if layer.center:
            offset += get(layer.beta)
        y = tf.reshape(tf.cast(wide * scale + offset, x.dtype), shape)
        return move_mask(x, tf.cast(y, layer.compute_dtype), lambda mask: mask)
