"""Layer normalization: each sample by its own statistics, with weights of each replica."""

from typing import Any

import keras
import tensorflow as tf

from tfperf.workloads.keras.stacked.layer import StackedLayer, Values, register
from tfperf.workloads.keras.stacked.layers.alignment import align_weights, shift_axes
from tfperf.workloads.keras.stacked.layers.folded import move_mask


@register
class StackedLayerNormalization(StackedLayer[keras.layers.LayerNormalization]):
    """Shapes: (R, B, ...) to the same; weights (R, ...) with the axes that are normalized."""

    kinds = (keras.layers.LayerNormalization,)

    def call(self, values: Values, *inputs: Any, training: bool, **options: Any) -> tf.Tensor:
        """Inputs less the mean, by the deviation, times gamma, plus beta."""
        (x,), layer = inputs, self.layer
        wide = tf.cast(x, keras.backend.result_type(x.dtype, "float32"))
        # weights have the axes in the layer's order, and are laid out by number: as Keras has it
        axes = shift_axes(layer.axis, len(x.shape))

        def get(variable: keras.Variable | None) -> tf.Tensor | None:
            return None if variable is None else align_weights(tf.cast(values.get(variable), wide.dtype), wide, axes)

        gamma, beta = get(layer.gamma), get(layer.beta)
        y = self._divide(wide, axes, gamma) if layer.rms_scaling else self._normalize(wide, axes, gamma, beta)
        y = tf.cast(tf.cast(y, x.dtype), layer.compute_dtype)
        return move_mask(x, y, lambda mask: mask)

    def _normalize(self, x: tf.Tensor, axes: list[int], gamma: tf.Tensor | None, beta: tf.Tensor | None) -> tf.Tensor:
        mean, variance = tf.nn.moments(x, axes, keepdims=True)
        scale = tf.math.rsqrt(variance + self.layer.epsilon)
        if gamma is not None:
            scale *= gamma
        offset = -mean * scale
        return x * scale + (offset if beta is None else offset + beta)

    def _divide(self, x: tf.Tensor, axes: list[int], gamma: tf.Tensor | None) -> tf.Tensor:
        y = x * tf.math.rsqrt(keras.ops.var(x, axis=axes, keepdims=True) + self.layer.epsilon)
        return y if gamma is None else y * gamma
