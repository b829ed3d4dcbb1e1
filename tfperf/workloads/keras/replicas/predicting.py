"""Predictions of all replicas, stacked where the model's layers can be. R replicas, N samples."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfperf.arrays import AnyArray, ArraysByName
from tfperf.errors import UserError
from tfperf.sources.samples import make_samples
from tfperf.sources.user_errors import run_user_code
from tfperf.workloads.keras.stacked.layer import Values
from tfperf.workloads.keras.stacked.network import StackedNetwork, list_reasons

Nest = Any


def predict_replicas(model: keras.Model, weights: ArraysByName, x: Any, batch_size: int) -> Nest:
    """What a model predicts with each replica's weights (R, ...): an array (R, N, ...), or a nest of them.

    The model keeps its own weights. Raises: UserError for inputs that are no samples or do not fit the model.
    """
    if batch_size < 1:
        raise UserError(f"predict: got batch_size={batch_size}; must be at least 1")
    batches = _make_batches(x, batch_size)
    predict = _predict_one_by_one if list_reasons(model) else _predict_stacked
    found: Nest = run_user_code(partial(predict, model, [*weights.values()], batches), "model: predicting", None)
    return found


def find_mask(model: keras.Model, x: Any, batch_size: int) -> AnyArray | None:
    """Where a model's one output counts, by the mask that Keras' losses take with it (N, ...); None: it has no mask."""

    def call() -> list[Any]:
        return [getattr(model(batch, training=False), "_keras_mask", None) for batch in _make_batches(x, batch_size)]

    masks = run_user_code(call, "model: predicting", None)
    return None if masks[0] is None else np.concatenate([np.asarray(mask, bool) for mask in masks])


def _make_batches(x: Any, batch_size: int) -> list[Nest]:
    samples = make_samples((x,), "predict: x")
    batches = [samples.select(slice(i, i + batch_size)).data[0] for i in range(0, len(samples), batch_size)]
    return [keras.tree.map_structure(_to_tensor, batch) for batch in batches]


def _predict_stacked(model: keras.Model, weights: Sequence[Any], batches: Sequence[Nest]) -> Nest:
    network, replicas = StackedNetwork(model), len(weights[0])
    places = {id(variable): place for place, variable in enumerate(list_weights(model))}

    def forward(batch: Nest, *some: tf.Tensor) -> Nest:
        values = Values(replicas, lambda variable: some[places[id(variable)]])
        repeated = keras.tree.map_structure(lambda one: tf.repeat(one[None], replicas, axis=0), batch)
        return network.call(values, repeated, training=False)

    given = [tf.cast(one, v.dtype) for one, v in zip(weights, list_weights(model), strict=True)]
    return _join(forward, batches, given, axis=1)


def _predict_one_by_one(model: keras.Model, weights: Sequence[Any], batches: Sequence[Nest]) -> Nest:
    variables = [variable.value for variable in list_weights(model)]
    before = [tf.identity(one) for one in variables]

    def predict_one(row: int) -> Nest:
        for variable, values in zip(variables, weights, strict=True):
            variable.assign(tf.cast(values[row], variable.dtype))
        return _join(lambda batch: model(batch, training=False), batches, [], axis=0)

    try:
        found = [predict_one(row) for row in range(len(weights[0]))]
    finally:
        for variable, value in zip(variables, before, strict=True):
            variable.assign(value)
    return keras.tree.map_structure(lambda *several: np.stack(several), *found)


def _join(forward: Callable[..., Nest], batches: Sequence[Nest], given: Sequence[Any], axis: int) -> Nest:
    """What a function gives for all batches, joined along an axis; traced once for batches of one shape."""
    program = tf.function(forward, autograph=False)  # a shorter last batch by one of its own: stacks ask for all shapes
    parts = [program(batch, *given) for batch in batches]
    return keras.tree.map_structure(lambda *several: np.concatenate([one.numpy() for one in several], axis), *parts)


def list_weights(model: keras.Model) -> list[keras.Variable]:
    """A model's weights in the order in which ensembles keep them."""
    own = {id(variable) for variable in model.weights}
    return [variable for variable in model.variables if id(variable) in own]


def _to_tensor(array: Any) -> tf.Tensor:
    """As Keras' own `predict` takes it: floating-point numbers in Keras' floatx."""
    return tf.constant(array.astype(keras.config.floatx()) if array.dtype.kind == "f" else array)
