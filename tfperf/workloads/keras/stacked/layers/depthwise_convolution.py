"""Depthwise convolutions: each channel of each replica by kernels of its own."""

import keras
import tensorflow as tf

from tfperf.workloads.keras.stacked.layer import Values, register
from tfperf.workloads.keras.stacked.layers.convolution import StackedFilter
from tfperf.workloads.keras.stacked.layers.convolution_sums import convolve_depthwise


@register
class StackedDepthwiseConvolution(StackedFilter):
    """Kernel (R, *K, C, M); F = C M."""

    kinds = (keras.layers.DepthwiseConv1D, keras.layers.DepthwiseConv2D)

    def filter(self, values: Values, x: tf.Tensor) -> tf.Tensor:
        """Each channel by itself."""
        layer = self.layer
        return convolve_depthwise(x, values.get(layer.kernel), layer.strides, layer.padding, layer.dilation_rate)
