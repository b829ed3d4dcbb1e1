"""Normalization by the root mean square of each sample, with a scale of each replica."""

from typing import Any

import keras
import tensorflow as tf

from tfperf.workloads.keras.stacked.layer import StackedLayer, Values, register
from tfperf.workloads.keras.stacked.layers.alignment import align_right, shift_axes


@register
class StackedRMSNormalization(StackedLayer[keras.layers.RMSNormalization]):
    """Shapes: (R, B, ...) to the same; scale (R, ...) with the axes that are normalized. Masks end here."""

    kinds = (keras.layers.RMSNormalization,)

    def call(self, values: Values, *inputs: Any, training: bool, **options: Any) -> tf.Tensor:
        """Inputs by their root mean square, times the scale. Source: Zhang and Sennrich 2019."""
        (x,), layer = inputs, self.layer
        wide = tf.cast(x, keras.backend.result_type(x.dtype, "float32"))
        axes = shift_axes(layer.axis, len(x.shape))
        y = wide * tf.math.rsqrt(tf.reduce_mean(tf.square(wide), axes, keepdims=True) + layer.epsilon)
        y *= align_right(tf.cast(values.get(layer.scale), wide.dtype), len(x.shape))  # by the last axes, as in Keras
        return tf.cast(y, x.dtype)
