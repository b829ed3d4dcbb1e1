"""Convolutions, and what all layers that filter places have in common: layout, bias, activation."""

from abc import abstractmethod
from typing import Any

import keras
import tensorflow as tf

from tfperf.workloads.keras.stacked.layer import StackedLayer, Values, register
from tfperf.workloads.keras.stacked.layers.convolution_sums import convolve


class StackedFilter(StackedLayer[Any]):
    """Shapes: inputs (R, B, *S, C), or (R, B, C, *S) where the channels come first; bias (R, F); returns the like."""

    @classmethod
    def refuse(cls, layer: Any) -> str | None:
        """A bias is not stacked that Keras adds along the last places rather than the channels, which are as many."""
        if layer.use_bias and layer.data_format == "channels_first" and layer.bias.shape[0] > 1:
            shapes = [node.outputs[0].shape for node in layer._inbound_nodes]
            if any(shape[1] == shape[-1] for shape in shapes):
                return "its channels come first, and Keras adds its bias along another axis of the same length"
        return None

    @abstractmethod
    def filter(self, values: Values, x: tf.Tensor) -> tf.Tensor:
        """Shapes: x (R, B, *S, C); returns (R, B, *S', F)."""

    def call(self, values: Values, *inputs: Any, training: bool, **options: Any) -> tf.Tensor:
        """The activation of the filtered inputs plus bias."""
        (x,), layer = inputs, self.layer
        first, last = layer.data_format == "channels_first", len(x.shape) - 1
        if first:
            x = tf.transpose(x, [0, 1, *range(3, last + 1), 2])
        y = self.filter(values, x)
        if layer.use_bias:
            bias = values.get(layer.bias)
            y += tf.reshape(bias, [bias.shape[0], *[1] * layer.rank, 1, bias.shape[-1]])
        if first:
            y = tf.transpose(y, [0, 1, last, *range(2, last)])
        return y if layer.activation is None else layer.activation(y)


@register
class StackedConvolution(StackedFilter):
    """Kernel (R, *K, C / G, F), in G groups of channels."""

    kinds = (keras.layers.Conv1D, keras.layers.Conv2D, keras.layers.Conv3D)

    @classmethod
    def refuse(cls, layer: Any) -> str | None:
        """LoRA is not stacked."""
        return "it has LoRA" if layer.lora_enabled else super().refuse(layer)

    def filter(self, values: Values, x: tf.Tensor) -> tf.Tensor:
        """Each replica's samples by its kernel."""
        layer, padding = self.layer, self.layer.padding
        if padding == "causal":
            before = layer.dilation_rate[0] * (layer.kernel_size[0] - 1)
            x, padding = tf.pad(x, [(0, 0), (0, 0), (before, 0), (0, 0)]), "valid"
        return convolve(x, values.get(layer.kernel), layer.strides, padding, layer.dilation_rate)
