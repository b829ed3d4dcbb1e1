"""Dense layers: one batched product."""

from typing import Any

import keras
import tensorflow as tf

from tfperf.workloads.keras.stacked.layer import StackedLayer, Values, register
from tfperf.workloads.keras.stacked.layers.folded import move_mask


@register
class StackedDenseLayer(StackedLayer[keras.layers.Dense]):
    """Shapes: inputs (R, B, ..., I); kernel (R, I, O); bias (R, O); returns (R, B, ..., O)."""

    kinds = (keras.layers.Dense,)

    @classmethod
    def refuse(cls, layer: keras.layers.Dense) -> str | None:
        """LoRA and quantized kernels are not stacked."""
        if layer.lora_enabled:
            return "it has LoRA"
        return "it is quantized" if layer.quantization_mode is not None else None

    def call(self, values: Values, *inputs: Any, training: bool, **options: Any) -> tf.Tensor:
        """The activation of inputs times kernel plus bias."""
        (x,) = inputs
        kernel = values.get(self.layer.kernel)
        inner = x.shape[1:-1]
        flat = x if len(inner) == 1 else tf.reshape(x, [values.replicas, -1, x.shape[-1]])
        y = tf.matmul(flat, kernel)
        if self.layer.use_bias:
            y += values.get(self.layer.bias)[:, None]
        if len(inner) != 1:
            y = tf.reshape(y, [values.replicas, *(-1 if n is None else n for n in inner), y.shape[-1]])
        y = y if self.layer.activation is None else self.layer.activation(y)
        return move_mask(x, y, lambda mask: mask)
