"""What every engine computes on one device: loss and gradients of its local batch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tfperf.errors import UserError
from tfperf.place.method import Method
from tfperf.place.trainable import BatchPosition, LocalBatches, PassInputs, PassOutcome, Trainable
from tfperf.scopes import phase


@dataclass(frozen=True)
class Gradients:
    """Of one device's local batch: its share of the loss, and gradients of it.

    tables: (V, U) dense, or slices of it; weights: dense; None: the loss does not depend on it; statistics: new
    values of those that change, or what is added where changes are summed.
    """

    loss: tf.Tensor
    tables: Sequence[tf.Tensor | tf.IndexedSlices | None]
    weights: Sequence[tf.Tensor | None]
    statistics: Sequence[tf.Tensor] = ()
    metrics: Sequence[tf.Tensor] = ()

    def get_gradient(self, index: int) -> tf.Tensor | tf.IndexedSlices | None:
        """Of a variable, tables first."""
        return [*self.tables, *self.weights][index]


def survey(trainable: Trainable, local_batches: LocalBatches) -> Sequence[tf.Tensor]:
    """What each device has to know of the whole batch."""
    with tf.name_scope("survey"):
        return trainable.survey(local_batches)


def sample_draws(
    trainable: Trainable, step: tf.Tensor, number: int, local_batch: Sequence[tf.Tensor], rows: Sequence[tf.Tensor],
    known: Sequence[tf.Tensor],
) -> Any:  # fmt: skip
    """Random numbers of the local batch of a device of this number, outside of what XLA compiles."""
    with phase("forward"), tf.name_scope("draws"):
        return trainable.sample_draws(BatchPosition(step, number * local_batch[0].shape[0]), local_batch, rows, known)


def build_pass(trainable: Trainable, method: Method) -> Callable[[PassInputs], Gradients]:
    """A function that gives a device's gradients.

    It raises: UserError where `compute` does not give what the trainable has.
    """
    shapes = [tuple(table.shape) for table in trainable.embeddings]
    dense = method.embedding_gradients == "dense"

    def compute(given: PassInputs) -> tuple[Any, ...]:
        watched = list(given.weights), list(given.rows)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(watched)
            with phase("forward"):
                outcome = _convert_outcome(trainable, trainable.compute(given))
                loss = outcome.loss / given.count
                found = zip(trainable.statistics, outcome.statistics, given.statistics, strict=True)
                statistics = [
                    new - old if one.merge == "sum" else new for one, new, old in found if one.merge != "fixed"
                ]
        with phase("backward"):
            weights, inner = tape.gradient(loss, watched)
            # also of a weight that is looked up
            weights = [None if gradient is None else tf.convert_to_tensor(gradient) for gradient in weights]
            every = zip(inner, trainable.select_ids(given.local_batch), shapes, strict=True)
            tables = [None if g is None else _flatten(g, ids, shape[0] if dense else None) for g, ids, shape in every]
        return loss, tables, weights, statistics, outcome.metrics

    run = tf.function(compute, jit_compile=True, autograph=False) if method.xla else compute

    def compute_gradients(given: PassInputs) -> Gradients:
        loss, tables, weights, statistics, metrics = run(given)
        loss, *metrics = mark_found("told", [loss, *metrics])
        pairs = zip(tables, shapes, strict=True)
        found = [one and _make_slices(one[0], one[1], None if dense else shape) for one, shape in pairs]
        return Gradients(loss, found, weights, mark_found("statistic", statistics), metrics)

    return compute_gradients


def mark_found(what: str, values: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Values that a device found, under names by which the proof finds them in merges.

    TensorFlow moves arithmetic across an Identity, but not across this, which copies nothing either; and it makes one
    operation of equal ones, unless their attributes differ.
    """
    return [_mark(value, f"found_{what}_{i}") for i, value in enumerate(values)]


def _mark(value: tf.Tensor, name: str) -> tf.Tensor:
    own = tf.compat.v1.AttrValue(s=name.encode())
    with tf.compat.v1.get_default_graph()._attr_scope({"_tfperf": own}):  # not public
        return tf.ensure_shape(value, value.shape, name=name)


def build_step_loop(
    step: Callable[[], Sequence[tf.Tensor]], trainable: Trainable, method: Method, count: tf.Tensor
) -> tuple[tf.Tensor, ...]:
    """Loss of each step (count), and each metric (count, ...); `step` gives those of the next."""
    kinds = [method.precision, *(metric.dtype for metric in trainable.metrics)]
    arrays = [tf.TensorArray(kind, count) for kind in kinds]

    def body(i: tf.Tensor, arrays: Sequence[tf.TensorArray]) -> tuple[tf.Tensor, list[tf.TensorArray]]:
        written = []
        for number, (array, value) in enumerate(zip(arrays, step(), strict=True)):
            with tf.name_scope(f"told_{number}"):
                written.append(array.write(i, value))
        return i + 1, written

    _, arrays = tf.while_loop(lambda i, _: i < count, body, (0, arrays))
    return tuple(array.stack() for array in arrays)


def _flatten(gradient: tf.Tensor, ids: tf.Tensor, rows: int | None) -> tuple[tf.Tensor, tf.Tensor]:
    """Gradients of rows looked up (..., U) and their ids (...) as (N, U) and (N); of all so many rows: (V, U)."""
    values, ids = tf.reshape(gradient, [-1, gradient.shape[-1]]), tf.reshape(ids, [-1])
    return (values if rows is None else tf.math.unsorted_segment_sum(values, ids, rows)), ids


def _make_slices(values: tf.Tensor, ids: tf.Tensor, shape: tuple[int, ...] | None) -> tf.Tensor | tf.IndexedSlices:
    """Slices of a table of a shape; None: the values are dense."""
    return values if shape is None else tf.IndexedSlices(values, ids, tf.constant(shape))


def _convert_outcome(trainable: Trainable, outcome: PassOutcome) -> PassOutcome:
    """Raises: UserError where statistics or metrics are not as many as the trainable's, or of other types."""
    for name in ("statistics", "metrics"):
        got, must = len(getattr(outcome, name)), len(getattr(trainable, name))
        if got != must:
            raise UserError(f"compute: {name}: got {got}; must be as many as the trainable has, {must}")
    metrics = [
        _convert_tensor(f"metric {one.name}", value, one.dtype)
        for one, value in zip(trainable.metrics, outcome.metrics, strict=True)
    ]
    statistics = [
        _convert_tensor(f"statistic {one.variable.name}", value, one.variable.dtype)
        for one, value in zip(trainable.statistics, outcome.statistics, strict=True)
    ]
    return outcome._replace(statistics=statistics, metrics=metrics)


def _convert_tensor(what: str, value: Any, dtype: str) -> tf.Tensor:
    """Numbers of Python's take the type that is wanted."""
    number = isinstance(value, bool | int | float)
    tensor = tf.convert_to_tensor(value, dtype if number else None)
    if tensor.dtype != tf.as_dtype(dtype):
        raise UserError(f"compute: {what}: got {tensor.dtype.name}; must be {dtype}, as it was made")
    return tensor
