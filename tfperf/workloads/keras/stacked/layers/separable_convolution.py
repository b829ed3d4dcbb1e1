"""Separable convolutions: a depthwise one, and a product that mixes the channels."""

import keras
import tensorflow as tf

from tfperf.workloads.keras.stacked.layer import Values, register
from tfperf.workloads.keras.stacked.layers.convolution import StackedFilter
from tfperf.workloads.keras.stacked.layers.convolution_sums import convolve, convolve_depthwise


@register
class StackedSeparableConvolution(StackedFilter):
    """Depthwise kernel (R, *K, C, M), pointwise one (R, 1, ..., C M, F)."""

    kinds = (keras.layers.SeparableConv1D, keras.layers.SeparableConv2D)

    def filter(self, values: Values, x: tf.Tensor) -> tf.Tensor:
        """Each channel by itself, then all of a place together."""
        layer = self.layer
        depthwise, pointwise = values.get(layer.depthwise_kernel), values.get(layer.pointwise_kernel)
        x = convolve_depthwise(x, depthwise, layer.strides, layer.padding, layer.dilation_rate)
        ones = (1,) * layer.rank
        return convolve(x, pointwise, ones, "valid", ones)
