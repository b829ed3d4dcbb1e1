"""Predictions of all replicas. R replicas, N samples."""

from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfperf.arrays import ArraysByName
from tfperf.errors import UserError
from tfperf.sources.samples import make_samples
from tfperf.sources.user_errors import run_user_code


def predict_replicas(model: keras.Model, weights: ArraysByName, x: Any, batch_size: int) -> Any:
    """What a model predicts with each replica's weights (R, ...): an array (R, N, ...), or a nest of them.

    The model keeps its own weights. Raises: UserError for inputs that are no samples or do not fit the model.
    """
    if batch_size < 1:
        raise UserError(f"predict: got batch_size={batch_size}; must be at least 1")
    samples = make_samples((x,), "predict: x")
    variables = [variable.value for variable in list_weights(model)]
    before = [tf.identity(one) for one in variables]
    forward = tf.function(lambda batch: model(batch, training=False), autograph=False, reduce_retracing=True)
    batches = [samples.select(slice(i, i + batch_size)).data[0] for i in range(0, len(samples), batch_size)]
    batches = [keras.tree.map_structure(_to_tensor, batch) for batch in batches]

    def predict_one(row: int) -> Any:
        for variable, values in zip(variables, weights.values(), strict=True):
            variable.assign(tf.cast(values[row], variable.dtype))
        parts = [run_user_code(partial(forward, batch), "model: predicting", None) for batch in batches]
        return keras.tree.map_structure(lambda *several: np.concatenate([one.numpy() for one in several]), *parts)

    try:
        found = [predict_one(row) for row in range(len(next(iter(weights.values()))))]
    finally:
        for variable, value in zip(variables, before, strict=True):
            variable.assign(value)
    return keras.tree.map_structure(lambda *several: np.stack(several), *found)


def list_weights(model: keras.Model) -> list[keras.Variable]:
    """A model's weights in the order in which ensembles keep them."""
    own = {id(variable) for variable in model.weights}
    return [variable for variable in model.variables if id(variable) in own]


def _to_tensor(array: Any) -> tf.Tensor:
    """As Keras' own `predict` takes it: floating-point numbers in Keras' floatx."""
    return tf.constant(array.astype(keras.config.floatx()) if array.dtype.kind == "f" else array)
