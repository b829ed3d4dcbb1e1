"""Dense layers by an einsum equation, which has one more letter for the replicas."""

from string import ascii_letters
from typing import Any

import keras
import tensorflow as tf

from tfperf.workloads.keras.stacked.layer import StackedLayer, Values, register
from tfperf.workloads.keras.stacked.layers.alignment import align_right
from tfperf.workloads.keras.stacked.layers.dense import StackedDenseLayer


@register
class StackedEinsumDense(StackedLayer[keras.layers.EinsumDense]):
    """Shapes: inputs (R, B, ...), kernel and bias (R, ...); returns (R, ...). Masks end here."""

    kinds = (keras.layers.EinsumDense,)

    @classmethod
    def refuse(cls, layer: keras.layers.EinsumDense) -> str | None:
        """As for dense layers, and where no letter is left."""
        if set(ascii_letters) <= set(layer.equation):
            return "its equation uses all letters"
        return StackedDenseLayer.refuse(layer)

    def call(self, values: Values, *inputs: Any, training: bool, **options: Any) -> tf.Tensor:
        """The activation of the product plus bias."""
        (x,), layer = inputs, self.layer
        y = tf.einsum(add_letter(layer.equation), x, values.get(layer.kernel))
        if layer.bias is not None:
            y += align_right(values.get(layer.bias), len(y.shape))
        return y if layer.activation is None else layer.activation(y)


def add_letter(equation: str) -> str:
    """The equation for all replicas: "ab,bc->ac" becomes "dab,dbc->dac"."""
    letter = next(one for one in ascii_letters if one not in equation)
    given, result = equation.split("->")
    return ",".join(letter + one for one in given.split(",")) + "->" + letter + result
