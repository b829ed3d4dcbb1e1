"""Dropout: each replica draws from its own seed what it would draw alone."""

from typing import Any

import keras
import tensorflow as tf

from tfperf.workloads.keras.stacked.draws import draw_replicas
from tfperf.workloads.keras.stacked.layer import StackedLayer, Values, register
from tfperf.workloads.keras.stacked.layers.folded import move_mask


@register
class StackedDropout(StackedLayer[keras.layers.Dropout]):
    """Shapes: (R, B, ...) to the same."""

    kinds = (keras.layers.Dropout,)

    def call(self, values: Values, *inputs: Any, training: bool, **options: Any) -> tf.Tensor:
        """Inputs times what is drawn: 0, or 1 / (1 - rate)."""
        (x,), layer = inputs, self.layer
        if not training or not layer.rate:
            return x
        ones = tf.ones(x.shape[1:], x.dtype)
        factors = draw_replicas(values, layer.seed_generator, lambda: layer.call(ones, training=True))
        return move_mask(x, x * factors, lambda mask: mask)
