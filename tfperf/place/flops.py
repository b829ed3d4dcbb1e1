"""FLOPs of the products of a trainable's pass, counted in the graph that its own functions make for one part."""

from collections.abc import Iterable, Iterator, Sequence

import tensorflow as tf

from tfperf.place.copies import Flops
from tfperf.place.look_ups import specs
from tfperf.place.nodes import PRODUCTS, hidden_work, product_flops
from tfperf.place.shapes import Value
from tfperf.place.trainable import Given, Place, Trainable


def count_flops(trainable: Trainable, part: Sequence[Value]) -> Flops | None:
    """Of forward and backward pass over a part of these shapes; None where the graph has loops or functions."""

    def trace(*sides: tf.Tensor) -> list[tf.Tensor]:
        given = _stand_in(trainable, sides)
        watched = [*given.weights, *given.rows]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(watched)
            outcome = trainable.compute(given)
        gradients = tape.gradient(outcome.loss, watched)
        return [*(one for one in gradients if one is not None), *outcome.statistics, *outcome.metrics, outcome.loss]

    graph = tf.function(trace, autograph=False).get_concrete_function(*specs(part)).graph
    total = 0.0
    for operation in _needed(graph.outputs):
        node = operation.node_def
        if hidden_work(node):
            return None
        if PRODUCTS.fullmatch(node.op):
            total += product_flops(node, list(map(_value, operation.inputs)), _value(operation.outputs[0]))
    return Flops(total)


def _stand_in(trainable: Trainable, sides: Sequence[tf.Tensor]) -> Given:
    """What a device gets, by shapes alone."""

    def zeros(variable: object) -> tf.Tensor:
        return tf.zeros(variable.shape, variable.dtype)  # type: ignore[attr-defined]

    tables = zip(trainable.look_up(sides), trainable.embeddings, strict=True)
    rows = [tf.gather(zeros(table), ids) for ids, table in tables]
    draws = trainable.draw(Place(tf.zeros([], tf.int64), 0), sides, rows, trainable.survey([sides]))
    return Given(
        list(map(zeros, trainable.weights)), rows, [zeros(one.variable) for one in trainable.statistics], sides, draws,
        tf.ones([], (trainable.weights or trainable.embeddings)[0].dtype),
    )  # fmt: skip


def _needed(outputs: Iterable[tf.Tensor]) -> Iterator[tf.Operation]:
    """Operations that outputs come from: TensorFlow leaves out the others."""
    left, seen = [output.op for output in outputs], set()
    while left:
        operation = left.pop()
        if operation.name not in seen:
            seen.add(operation.name)
            left += [one.op for one in operation.inputs]
            yield operation


def _value(tensor: tf.Tensor) -> Value | None:
    known = tensor.shape.is_fully_defined()
    return Value(tensor.dtype.name, tuple(tensor.shape)) if known else None
