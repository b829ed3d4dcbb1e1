"""Penalties on weights and on what layers give, for each replica by itself."""

from typing import Any

import keras
import tensorflow as tf

from tfperf.workloads.keras.stacked.layer import Values
from tfperf.workloads.keras.stacked.replicas import map_replicas

SUMS = (keras.regularizers.L1, keras.regularizers.L2, keras.regularizers.L1L2)


def penalise(regularizer: Any, tensor: tf.Tensor) -> tf.Tensor:
    """What a regularizer gives for each replica's part (R) of a tensor (R, ...)."""
    if type(regularizer) not in SUMS:
        return map_replicas(regularizer, tensor)
    axes, found = [*range(1, len(tensor.shape))], tf.zeros([tensor.shape[0]], tensor.dtype)
    if l1 := getattr(regularizer, "l1", 0.0):
        found += _to_factor(l1, tensor) * tf.reduce_sum(tf.abs(tensor), axes)
    if l2 := getattr(regularizer, "l2", 0.0):
        found += _to_factor(l2, tensor) * tf.reduce_sum(tensor * tensor, axes)
    return found


def _to_factor(factor: float, tensor: tf.Tensor) -> tf.Tensor:
    """As Keras has it, which rounds a number to float32 on its way to another type."""
    return keras.ops.cast(factor, tensor.dtype)


def add_activity_losses(values: Values, layer: Any, outputs: Any) -> None:
    """The penalty of what a layer gives (R, B, ...), divided by the samples, as Keras has it."""
    regularizer = getattr(layer, "activity_regularizer", None)
    if regularizer is not None:
        for one in keras.tree.flatten(outputs):
            batch = tf.cast(tf.shape(one)[1], one.dtype)
            values.losses.append(penalise(regularizer, one) / batch)


def penalise_weights(values: Values, model: keras.Model) -> list[tf.Tensor]:
    """The penalties (R) of all trained weights that have a regularizer."""
    return [
        penalise(variable.regularizer, values.get(variable))
        for variable in model.trainable_variables
        if variable.regularizer is not None
    ]
