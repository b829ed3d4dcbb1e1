"""Activations by name or function, of which the listed ones look at one sample at a time."""

from typing import Any

import keras
import tensorflow as tf

from tfperf.workloads.keras.stacked.layer import StackedLayer, Values, register
from tfperf.workloads.keras.stacked.layers.folded import call_folded

KNOWN = tuple(
    getattr(keras.activations, name)
    for name in dir(keras.activations)
    if name[0] != "_" and name not in ("get", "serialize", "deserialize")
)


def refuse_activation(activation: Any) -> str | None:
    """Why an activation cannot be taken of all replicas at once, in words; None where it can."""
    if activation is None or activation in KNOWN:
        return None
    return f"its activation {getattr(activation, '__name__', activation)} is not one of Keras'"


@register
class StackedActivation(StackedLayer[keras.layers.Activation]):
    """Keras' own activations."""

    kinds = (keras.layers.Activation,)

    @classmethod
    def refuse(cls, layer: keras.layers.Activation) -> str | None:
        """One of the user's own may look at the batch."""
        return refuse_activation(layer.activation)

    def call(self, values: Values, *inputs: Any, training: bool, **options: Any) -> tf.Tensor:
        """Of folded inputs."""
        return call_folded(self.layer, values.replicas, *inputs)
