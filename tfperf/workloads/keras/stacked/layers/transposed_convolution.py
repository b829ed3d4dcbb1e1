"""Transposed convolutions: the replicas one by one, as no faster form is known on CPUs."""

import keras
import tensorflow as tf

from tfperf.workloads.keras.stacked.layer import Values, register
from tfperf.workloads.keras.stacked.layers.convolution import StackedFilter
from tfperf.workloads.keras.stacked.layers.convolution_sums import take_each


@register
class StackedTransposedConvolution(StackedFilter):
    """Kernel (R, *K, F, C)."""

    kinds = (keras.layers.Conv1DTranspose, keras.layers.Conv2DTranspose, keras.layers.Conv3DTranspose)

    def filter(self, values: Values, x: tf.Tensor) -> tf.Tensor:
        """Each replica's samples by its kernel."""
        layer = self.layer

        def take(one: tf.Tensor, own: tf.Tensor) -> tf.Tensor:
            return keras.ops.conv_transpose(
                one, own, [*layer.strides], layer.padding, layer.output_padding, "channels_last", layer.dilation_rate
            )

        return take_each(take, x, values.get(layer.kernel))
