"""Batch normalization: each replica by the statistics of its own batch, which it keeps. C channels."""

from typing import Any

import keras
import tensorflow as tf

from tfperf.workloads.keras.stacked.layer import StackedLayer, Values, register
from tfperf.workloads.keras.stacked.layers.alignment import align_weights, find_mask, set_mask, shift_axes


@register
class StackedBatchNormalization(StackedLayer[keras.layers.BatchNormalization]):
    """Shapes: (R, B, ..., C, ...) to the same; weights and moving statistics (R, C)."""

    kinds = (keras.layers.BatchNormalization,)

    @classmethod
    def refuse(cls, layer: keras.layers.BatchNormalization) -> str | None:
        """Statistics of many devices are not stacked: a replica is on one."""
        return "it synchronizes its statistics over devices" if layer.synchronized else None

    def call(self, values: Values, *inputs: Any, training: bool, **options: Any) -> tf.Tensor:
        """Inputs less the mean, by the deviation; of the batch in training, else of all batches before."""
        (x,), layer = inputs, self.layer
        mask, axes = find_mask(x, options), shift_axes([layer.axis], len(x.shape))
        wide = tf.cast(x, keras.backend.result_type(x.dtype, "float32"))

        def get(variable: keras.Variable | None) -> tf.Tensor | None:
            return None if variable is None else tf.cast(values.get(variable), wide.dtype)

        gamma, beta, mean, variance = map(get, (layer.gamma, layer.beta, layer.moving_mean, layer.moving_variance))
        if training and layer.trainable:
            mean, variance = measure_channels(wide, axes[0], mask)
            if layer.renorm:
                gamma, beta = self._renormalize(values, mean, variance, gamma, beta)
            else:
                self._move(values, layer.moving_mean, mean, layer.momentum)
                self._move(values, layer.moving_variance, variance, layer.momentum)

        def align(one: tf.Tensor | None) -> tf.Tensor | None:
            return None if one is None else align_weights(one, wide, axes)

        y = tf.nn.batch_normalization(wide, *map(align, (mean, variance, beta, gamma)), layer.epsilon)
        return set_mask(tf.cast(y, layer.compute_dtype), mask)

    def _move(self, values: Values, variable: keras.Variable, value: tf.Tensor, momentum: float) -> tf.Tensor:
        """Let a moving average (R, C) go on by a value; what it is then."""
        moved = tf.cast(values.get(variable), value.dtype) * momentum + value * (1.0 - momentum)
        values.assign(variable, tf.cast(moved, variable.dtype))
        return moved

    def _renormalize(
        self, values: Values, mean: tf.Tensor, variance: tf.Tensor, gamma: tf.Tensor | None, beta: tf.Tensor | None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Scale and offset (R, C) that correct the batch's statistics by the moving ones, which go on."""
        layer, epsilon = self.layer, tf.cast(self.layer.epsilon, mean.dtype)
        clipping, deviation = layer.renorm_clipping, tf.sqrt(variance + layer.epsilon)
        known = tf.maximum(tf.cast(values.get(layer.renorm_stddev), mean.dtype), tf.sqrt(epsilon))
        ratio, shift = deviation / known, (mean - tf.cast(values.get(layer.renorm_mean), mean.dtype)) / known
        if (least := clipping.get("rmin")) is not None:
            ratio = tf.maximum(ratio, least)
        if (most := clipping.get("rmax")) is not None:
            ratio = tf.minimum(ratio, most)
        if (most := clipping.get("dmax")) is not None:
            shift = tf.clip_by_value(shift, -most, most)
        ratio, shift = tf.stop_gradient(ratio), tf.stop_gradient(shift)
        scale, offset = (ratio, shift) if gamma is None else (ratio * gamma, shift * gamma)

        self._move(values, layer.renorm_mean, mean, layer.renorm_momentum)
        self._move(values, layer.renorm_stddev, deviation, layer.renorm_momentum)
        self._move(values, layer.moving_mean, mean, layer.momentum)
        moved = self._move(values, layer.moving_stddev, deviation, layer.momentum)
        squared = tf.nn.relu(moved * moved - layer.epsilon)
        values.assign(layer.moving_variance, tf.cast(squared, layer.moving_variance.dtype))
        return scale, offset if beta is None else offset + beta


def measure_channels(x: tf.Tensor, axis: int, mask: tf.Tensor | None) -> tuple[tf.Tensor, tf.Tensor]:
    """Mean and variance (R, C) over all but R and the axis of C, of what a mask (R, B, ...) leaves.

    The mask lacks the last axis of x. Source: Ioffe and Szegedy 2015.
    """
    axes = [one for one in range(1, len(x.shape)) if one != axis]
    if mask is None:
        mean, variance = tf.nn.moments(x, axes)
        return mean, variance
    kept = tf.broadcast_to(tf.cast(mask, tf.bool)[..., None], tf.shape(x))
    zeros = tf.zeros_like(x)
    count = tf.reduce_sum(tf.cast(kept, x.dtype), axes, keepdims=True) + keras.config.epsilon()
    mean = tf.reduce_sum(tf.where(kept, x, zeros), axes, keepdims=True) / count
    variance = tf.reduce_sum(tf.square(tf.where(kept, x - mean, zeros)), axes, keepdims=True) / count
    return tf.squeeze(mean, axes), tf.squeeze(variance, axes)
