"""A penalty on what goes through: the network adds it, as for every layer that has one."""

from typing import Any

import keras
import tensorflow as tf

from tfperf.workloads.keras.stacked.layer import StackedLayer, Values, register


@register
class StackedActivityRegularization(StackedLayer[keras.layers.ActivityRegularization]):
    """Shapes: (R, B, ...) to the same."""

    kinds = (keras.layers.ActivityRegularization,)

    def call(self, values: Values, *inputs: Any, training: bool, **options: Any) -> tf.Tensor:
        """Its inputs, with their mask."""
        (x,) = inputs
        return x
