"""Rectified units with a slope of each replica's own below zero."""

from typing import Any

import keras
import tensorflow as tf

from tfperf.workloads.keras.stacked.layer import StackedLayer, Values, register
from tfperf.workloads.keras.stacked.layers.folded import move_mask


@register
class StackedPReLU(StackedLayer[keras.layers.PReLU]):
    """Shapes: (R, B, ...) to the same; slopes (R, ...), 1 in axes that share them."""

    kinds = (keras.layers.PReLU,)

    def call(self, values: Values, *inputs: Any, training: bool, **options: Any) -> tf.Tensor:
        """Inputs above zero, and slopes times inputs below."""
        (x,) = inputs
        slopes = values.get(self.layer.alpha)[:, None]
        return move_mask(x, tf.nn.relu(x) - slopes * tf.nn.relu(-x), lambda mask: mask)
