"""What every engine computes on one device: loss and gradients of its part of a batch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tfperf.place.method import Method
from tfperf.place.trainable import Given, Parts, Place, Trainable
from tfperf.scopes import phase


@dataclass(frozen=True)
class Gradients:
    """Of one device's part: its share of the loss, and gradients of it.

    tables: (V, U) dense, or slices of it; weights: dense; statistics: new values of those that change, or
    what is added where changes are summed.
    """

    loss: tf.Tensor
    tables: Sequence[tf.Tensor | tf.IndexedSlices]
    weights: Sequence[tf.Tensor]
    statistics: Sequence[tf.Tensor] = ()
    metrics: Sequence[tf.Tensor] = ()

    def of(self, index: int) -> tf.Tensor | tf.IndexedSlices:
        """Of a variable, tables first."""
        return [*self.tables, *self.weights][index]


def survey(trainable: Trainable, parts: Parts) -> Sequence[tf.Tensor]:
    """What each device has to know of the whole batch."""
    with tf.name_scope("survey"):
        return trainable.survey(parts)


def draw(
    trainable: Trainable, step: tf.Tensor, number: int, part: Sequence[tf.Tensor], rows: Sequence[tf.Tensor],
    known: Sequence[tf.Tensor],
) -> Any:  # fmt: skip
    """Random numbers of the part of a device of this number, outside of what XLA compiles."""
    with phase("forward"), tf.name_scope("draws"):
        return trainable.draw(Place(step, number * part[0].shape[0]), part, rows, known)


def forward_backward(trainable: Trainable, method: Method) -> Callable[[Given], Gradients]:
    """A function that gives a device's gradients."""
    shapes = [tuple(table.shape) for table in trainable.embeddings]
    dense = method.embedding_gradients == "dense"

    def compute(given: Given) -> tuple[Any, ...]:
        watched = list(given.weights), list(given.rows)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(watched)
            with phase("forward"):
                outcome = trainable.compute(given)
                loss = outcome.loss / given.count
                found = zip(trainable.statistics, outcome.statistics, given.statistics, strict=True)
                statistics = [
                    new - old if one.merge == "sum" else new for one, new, old in found if one.merge != "fixed"
                ]
        with phase("backward"):
            weights, inner = tape.gradient(loss, watched, unconnected_gradients=tf.UnconnectedGradients.ZERO)
            weights = [tf.convert_to_tensor(gradient) for gradient in weights]  # also of a weight that is looked up
            tables = [_flat(g, ids) for g, ids in zip(inner, trainable.look_up(given.part), strict=True)]
            if dense:
                pairs = zip(tables, shapes, strict=True)
                tables = [(tf.math.unsorted_segment_sum(g, ids, rows), ids) for (g, ids), (rows, _) in pairs]
        return loss, tables, weights, statistics, outcome.metrics

    run = tf.function(compute, jit_compile=True, autograph=False) if method.xla else compute

    def gradients(given: Given) -> Gradients:
        loss, tables, *others = run(given)
        if dense:
            return Gradients(loss, [values for values, _ in tables], *others)
        pairs = zip(tables, shapes, strict=True)
        return Gradients(loss, [tf.IndexedSlices(g, ids, tf.constant(shape)) for (g, ids), shape in pairs], *others)

    return gradients


def take_steps(
    step: Callable[[], Sequence[tf.Tensor]], trainable: Trainable, method: Method, count: tf.Tensor
) -> tuple[tf.Tensor, ...]:
    """Loss of each step (count), and each metric (count, ...); `step` gives those of the next."""
    kinds = [method.precision, *(metric.dtype for metric in trainable.metrics)]
    arrays = [tf.TensorArray(kind, count) for kind in kinds]

    def body(i: tf.Tensor, arrays: Sequence[tf.TensorArray]) -> tuple[tf.Tensor, list[tf.TensorArray]]:
        return i + 1, [array.write(i, value) for array, value in zip(arrays, step(), strict=True)]

    _, arrays = tf.while_loop(lambda i, _: i < count, body, (0, arrays))
    return tuple(array.stack() for array in arrays)


def _flat(gradient: tf.Tensor, ids: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Gradients of rows (..., U) and their ids (...) as (N, U) and (N)."""
    return tf.reshape(gradient, [-1, gradient.shape[-1]]), tf.reshape(ids, [-1])
