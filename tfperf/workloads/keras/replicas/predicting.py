"""Predictions of all replicas, stacked where the model's layers can be. R replicas, N samples."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfperf.arrays import AnyArray, ArraysByName
from tfperf.errors import UserError
from tfperf.sources.data import refuse_single_samples
from tfperf.sources.samples import make_samples
from tfperf.sources.user_errors import run_user_code
from tfperf.workloads.keras.stacked.layer import Values
from tfperf.workloads.keras.stacked.network import StackedNetwork, list_reasons

Nest = Any


def predict_replicas(model: keras.Model, weights: ArraysByName, x: Any, batch_size: int) -> Nest:
    """What a model predicts with each replica's weights (R, ...): an array (R, N, ...), or a nest of them.

    The model keeps its own weights. Raises: UserError for inputs that are no samples or do not fit the model.
    """
    return ReplicaPredictor(model).predict(weights, x, batch_size)


def find_mask(model: keras.Model, x: Any, batch_size: int) -> AnyArray | None:
    """Where a model's one output counts, by the mask that Keras' losses take with it (N, ...); None: it has no mask."""
    batches = [keras.tree.map_structure(_to_tensor, batch) for batch in _list_batches(x, batch_size)]

    def call() -> list[Any]:
        return [getattr(model(batch, training=False), "_keras_mask", None) for batch in batches]

    masks = run_user_code(call, "model: predicting", None)
    return None if masks[0] is None else np.concatenate([np.asarray(mask, bool) for mask in masks])


class ReplicaPredictor:
    """A model that predicts with the weights of replicas; its programs are traced once for batches of one shape."""

    def __init__(self, model: keras.Model) -> None:
        self.model = model
        self._programs: dict[int, Callable[..., Nest]] = {}  # by the number of replicas; 0: of one alone

    def predict(self, weights: ArraysByName, x: Any, batch_size: int) -> Nest:
        """As `predict_replicas`."""
        if batch_size < 1:
            raise UserError(f"predict: got batch_size={batch_size}; must be at least 1")
        batches = [keras.tree.map_structure(_to_tensor, batch) for batch in _list_batches(x, batch_size)]
        _check_inputs(self.model, batches[0])
        predict = self._predict_one_by_one if list_reasons(self.model) else self._predict_stacked
        found: Nest = run_user_code(partial(predict, [*weights.values()], batches), "model: predicting", None)
        return found

    def _get_program(self, replicas: int, make: Callable[[], Callable[..., Nest]]) -> Callable[..., Nest]:
        if replicas not in self._programs:
            # a shorter last batch has a graph of its own: stacks ask for all shapes
            self._programs[replicas] = tf.function(make(), autograph=False)
        return self._programs[replicas]

    def _predict_stacked(self, weights: Sequence[Any], batches: Sequence[Nest]) -> Nest:
        replicas, variables = len(weights[0]), list_weights(self.model)

        def make() -> Callable[..., Nest]:
            network = StackedNetwork(self.model)
            places = {id(variable): place for place, variable in enumerate(variables)}

            def forward(batch: Nest, *some: tf.Tensor) -> Nest:
                values = Values(replicas, lambda variable: some[places[id(variable)]])
                repeated = keras.tree.map_structure(lambda one: tf.repeat(one[None], replicas, axis=0), batch)
                return network.call(values, repeated, training=False)

            return forward

        given = [tf.cast(one, v.dtype) for one, v in zip(weights, variables, strict=True)]
        return _join(self._get_program(replicas, make), batches, given, axis=1)

    def _predict_one_by_one(self, weights: Sequence[Any], batches: Sequence[Nest]) -> Nest:
        variables = [variable.value for variable in list_weights(self.model)]
        before = [tf.identity(one) for one in variables]
        program = self._get_program(0, lambda: lambda batch: self.model(batch, training=False))

        def predict_one(row: int) -> Nest:
            for variable, values in zip(variables, weights, strict=True):
                variable.assign(tf.cast(values[row], variable.dtype))
            return _join(program, batches, [], axis=0)

        try:
            found = [predict_one(row) for row in range(len(weights[0]))]
        finally:
            for variable, value in zip(variables, before, strict=True):
                variable.assign(value)
        return keras.tree.map_structure(lambda *several: np.stack(several), *found)


def _check_inputs(model: keras.Model, batch: Nest) -> None:
    """UserError for inputs that do not fit a model that says which it takes."""
    wanted = getattr(model, "inputs", None)
    if not isinstance(wanted, list):
        return
    struct = getattr(model, "_inputs_struct", None)
    names = sorted(struct) if isinstance(struct, dict) else [one.name for one in wanted]
    if isinstance(batch, dict) and not {*names} <= {*batch}:
        raise UserError(f"predict: x: got keys {', '.join(map(str, batch))}; must be {', '.join(names)}")
    flat = [batch[name] for name in names] if isinstance(batch, dict) else keras.tree.flatten(batch)
    if len(flat) != len(wanted):
        raise UserError(f"predict: x: got {len(flat)} arrays; the model has {len(wanted)} inputs: {', '.join(names)}")
    for one, array in zip(wanted, flat, strict=True):
        shape, given = tuple(one.shape[1:]), tuple(array.shape[1:])
        if not _has_shape(shape, given):
            raise UserError(f"predict: x: got samples of shape {given}; {one.name} must have {shape}")


def _has_shape(wanted: tuple[int | None, ...], given: tuple[int, ...]) -> bool:
    """Whether samples have a shape, a last axis of one number left out or not."""
    known = [given, given[:-1]] if given[-1:] == (1,) else [given]
    known += [(*given, 1)]
    return any(
        len(one) == len(wanted) and all(b in (None, a) for a, b in zip(one, wanted, strict=True)) for one in known
    )


def _list_batches(x: Any, batch_size: int) -> list[Nest]:
    """Batches of arrays (N, ...) or nests of them; those of a tf.data.Dataset as they are, the inputs alone.

    Raises: UserError for anything else.
    """
    if isinstance(x, tf.data.Dataset):
        if x.cardinality() == tf.data.INFINITE_CARDINALITY:
            raise UserError("predict: x: a dataset without an end; end it by .take(n)")
        refuse_single_samples(x, "predict: x")
        return [one[0] if isinstance(one, tuple) else one for one in x.as_numpy_iterator()]
    if isinstance(x, keras.utils.PyDataset | Iterator) or callable(x):
        allowed = "must be arrays, or dicts or tuples of them, or a tf.data.Dataset of batches"
        raise UserError(f"predict: x: got {type(x).__name__}; {allowed}")
    samples = make_samples((x,), "predict: x")
    return [samples.select(slice(i, i + batch_size)).data[0] for i in range(0, len(samples), batch_size)]


def _join(program: Callable[..., Nest], batches: Sequence[Nest], given: Sequence[Any], axis: int) -> Nest:
    """What a program gives for all batches, joined along an axis."""
    parts = [program(batch, *given) for batch in batches]
    return keras.tree.map_structure(lambda *several: np.concatenate([one.numpy() for one in several], axis), *parts)


def list_weights(model: keras.Model) -> list[keras.Variable]:
    """A model's weights in the order in which ensembles keep them."""
    own = {id(variable) for variable in model.weights}
    return [variable for variable in model.variables if id(variable) in own]


def _to_tensor(array: Any) -> tf.Tensor:
    """As Keras' own `predict` takes it: floating-point numbers in Keras' floatx."""
    return tf.constant(array.astype(keras.config.floatx()) if array.dtype.kind == "f" else array)
