"""Noise, which each replica draws from its own seed as it would alone."""

from typing import Any

import keras
import tensorflow as tf
from keras import layers

from tfperf.workloads.keras.stacked.draws import draw_replicas
from tfperf.workloads.keras.stacked.layer import StackedLayer, Values, register
from tfperf.workloads.keras.stacked.layers.folded import move_mask

# of keras.activations.selu, and so of what alpha dropout puts in place of a number: -ALPHA SCALE
ALPHA, SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


@register
class StackedGaussianNoise(StackedLayer[layers.GaussianNoise]):
    """Shapes: (R, B, ...) to the same."""

    kinds = (layers.GaussianNoise,)

    def call(self, values: Values, *inputs: Any, training: bool, **options: Any) -> tf.Tensor:
        """Inputs plus what is drawn."""
        (x,), layer = inputs, self.layer
        if not training or not layer.stddev:
            return x
        zeros = tf.zeros(x.shape[1:], x.dtype)
        noise = draw_replicas(values, layer.seed_generator, lambda: layer.call(zeros, training=True))
        return move_mask(x, x + noise, lambda mask: mask)


@register
class StackedFactors(StackedLayer[Any]):
    """Layers that multiply by what they draw: it is what they make of ones. Shapes: (R, B, ...) to the same."""

    kinds = (layers.GaussianDropout, layers.SpatialDropout1D, layers.SpatialDropout2D, layers.SpatialDropout3D)

    def call(self, values: Values, *inputs: Any, training: bool, **options: Any) -> tf.Tensor:
        """Inputs times what is drawn."""
        (x,), layer = inputs, self.layer
        if not training or not layer.rate:
            return x
        ones = tf.ones(self._find_shape(x.shape[1:]), x.dtype)
        factors = draw_replicas(values, layer.seed_generator, lambda: layer.call(ones, training=True))
        return move_mask(x, x * factors, lambda mask: mask)

    def _find_shape(self, shape: tf.TensorShape) -> list[int]:
        """Of the numbers of one replica's batch that are drawn: spatial ones have one for each channel."""
        if isinstance(self.layer, layers.GaussianDropout):
            return [*shape]
        first = getattr(self.layer, "data_format", None) == "channels_first"
        channels = 1 if first else len(shape) - 1
        return [n if axis in (0, channels) else 1 for axis, n in enumerate(shape)]


@register
class StackedAlphaDropout(StackedLayer[layers.AlphaDropout]):
    """Shapes: (R, B, ...) to the same."""

    kinds = (layers.AlphaDropout,)

    def call(self, values: Values, *inputs: Any, training: bool, **options: Any) -> tf.Tensor:
        """Inputs, or the least of a selu where they are dropped, scaled to the same mean and variance.

        Source: Klambauer et al. 2017.
        """
        (x,), layer = inputs, self.layer
        if not training or not layer.rate:
            return x
        least, rate = -ALPHA * SCALE, layer.rate
        shape = self._find_shape(x.shape[1:])

        def draw() -> tf.Tensor:
            return tf.cast(keras.random.uniform(shape, seed=layer.seed_generator) >= rate, x.dtype)

        kept = draw_replicas(values, layer.seed_generator, draw)
        scale = ((1 - rate) * (1 + rate * least**2)) ** -0.5
        y = scale * (x * kept + least * (1 - kept)) - scale * least * rate
        return move_mask(x, y, lambda mask: mask)

    def _find_shape(self, shape: tf.TensorShape) -> list[int]:
        """Of the numbers of one replica's batch that are drawn."""
        wanted = self.layer.noise_shape
        return [*shape] if wanted is None else [n if w is None else w for n, w in zip(shape, wanted, strict=True)]
