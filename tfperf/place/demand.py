"""What a pass needs of what it is given, and which gradients it has, read off the graph that its own functions make.

TensorFlow leaves out what nothing depends on: weights and statistics that are not read, tensors of a part that nobody
asks for, gradients of what the loss does not depend on.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import tensorflow as tf

from tfperf.place.copies import Flops
from tfperf.place.function_graphs import optimize_graph
from tfperf.place.look_ups import specs
from tfperf.place.method import Method
from tfperf.place.nodes import PRODUCTS, SMALL, constant_bytes, hidden_work, print_content, product_flops
from tfperf.place.shapes import Value
from tfperf.place.step import Gradients, forward_backward
from tfperf.place.trainable import Given, Place, Trainable

SHAPED = frozenset(["Shape", "ShapeN", "Size", "Rank", "ZerosLike", "OnesLike"])  # of a fixed shape they read nothing


class Captured(NamedTuple):
    """A tensor of so many bytes that was made outside of the pass, on a device."""

    device: str
    size: int


class Demand(NamedTuple):
    """Of one pass. Variables are in the trainable's order, tables first.

    gradients: of each variable, whether the loss depends on it; variables, statistics, sides: whether anything depends
    on each, the last by tensors of the part; look_ups: on which of these ids alone do; statistics_vary, told: whether
    each new value of a statistic, and what is told of a step, loss first, depends on anything given; flops: of
    products, None where it has loops or functions; constants: prints of those that are more than is small; captured:
    tensors made outside.
    """

    gradients: Sequence[bool]
    variables: Sequence[bool]
    statistics: Sequence[bool]
    sides: Sequence[bool]
    look_ups: Sequence[bool]
    statistics_vary: Sequence[bool] = ()
    told: Sequence[bool] = ()
    flops: Flops | None = None
    constants: frozenset[str] = frozenset()
    captured: Sequence[Captured] = ()


@dataclass
class Recorded:
    """A pass as a graph: what it is given, by kind, and what it finds."""

    trainable: Trainable
    graph: Any
    given: dict[str, list[tf.Tensor]]
    found: Gradients

    def demand(self, statistics: bool, metrics: bool, xla: bool) -> Demand:
        """Whether statistics, and metrics, that merge as `first` are taken from this pass; xla: it is compiled."""
        changing = [one for one in self.trainable.statistics if one.merge != "fixed"]
        new = list(zip(changing, self.found.statistics, strict=True))
        told = list(zip(self.trainable.metrics, self.found.metrics, strict=True))
        variables = [*self.found.tables, *self.found.weights]
        wanted = [
            self.found.loss, *(one for gradient in variables for one in _parts(gradient)),
            *(value for one, value in new if statistics or one.merge != "first"),
            *(value for one, value in told if metrics or one.merge != "first"),
        ]  # fmt: skip
        needed = _reach([one.op for one in wanted] + list(self.graph.control_outputs))
        # what XLA compiled is given everything
        read = {kind: [xla or one.op.name in needed for one in some] for kind, some in self.given.items()}
        ids = [asked and not side for asked, side in zip(read["looked_up"], read["sides"], strict=True)]
        return Demand(
            [gradient is not None for gradient in variables], read["tables"] + read["weights"], read["statistics"],
            read["sides"], ids, [self._varies(value) for _, value in new],
            [self._varies(value) for value in (self.found.loss, *self.found.metrics)], _count_flops(needed.values()),
            frozenset(self._constants(wanted)), tuple(self._captured(needed)),
        )  # fmt: skip

    def _varies(self, value: tf.Tensor) -> bool:
        return any(operation.type == "Placeholder" for operation in _reach([value.op]).values())

    def _captured(self, needed: dict[str, tf.Operation]) -> Iterator[Captured]:
        for outer, inner in self.graph.captures:
            if inner.op.name in needed and outer.dtype != tf.resource:
                yield Captured(outer.device, int(outer.shape.num_elements() * outer.dtype.size))

    def _constants(self, wanted: Iterable[tf.Tensor]) -> Iterator[str]:
        """Prints of those that are more than is small, also of what TensorFlow makes of constants before it runs."""
        for graph in (self.graph.as_graph_def(), optimize_graph(self.graph, wanted)):
            for nodes in (graph.node, *(function.node_def for function in graph.library.function)):
                for node in nodes:
                    if node.op == "Const" and constant_bytes(node) > SMALL:
                        yield print_content(node)


def record_pass(trainable: Trainable, method: Method, part: Sequence[Value]) -> Recorded:
    """The pass over a part of these shapes, as engines compute it."""
    compute, found = forward_backward(trainable, replace(method, xla=False)), []

    def trace(**given: list[tf.Tensor]) -> None:
        ids = trainable.look_up(given["looked_up"])
        rows = [tf.gather(table, some) for table, some in zip(given["tables"], ids, strict=True)]
        known = trainable.survey([given["surveyed"]])
        draws = trainable.draw(Place(tf.zeros([], tf.int64), 0), given["sides"], rows, known)
        count = tf.ones([], method.precision)
        found.append(compute(Given(given["weights"], rows, given["statistics"], given["sides"], draws, count)))

    sides, statistics = specs(part), [one.variable for one in trainable.statistics]
    asked = {
        "sides": sides, "looked_up": sides, "surveyed": sides, "tables": _specs(trainable.embeddings),
        "weights": _specs(trainable.weights), "statistics": _specs(statistics),
    }  # fmt: skip
    graph = tf.function(trace, autograph=False).get_concrete_function(**asked).graph
    inputs = iter(graph.inputs)
    given = {kind: [next(inputs) for _ in asked[kind]] for kind in sorted(asked)}
    return Recorded(trainable, graph, given, found[-1])


def _specs(variables: Iterable[Any]) -> list[tf.TensorSpec]:
    return [tf.TensorSpec(tuple(variable.shape), variable.dtype) for variable in variables]


def _parts(gradient: tf.Tensor | tf.IndexedSlices | None) -> list[tf.Tensor]:
    """Tensors that a gradient consists of."""
    if gradient is None:
        return []
    return [gradient.values, gradient.indices] if isinstance(gradient, tf.IndexedSlices) else [gradient]


def _reach(operations: Iterable[tf.Operation]) -> dict[str, tf.Operation]:
    """By name the operations that some come from, themselves too."""
    left, seen = list(operations), {}
    while left:
        operation = left.pop()
        if operation.name in seen:
            continue
        seen[operation.name] = operation
        left += operation.control_inputs
        if operation.type not in SHAPED or not all(one.shape.is_fully_defined() for one in operation.inputs):
            left += [one.op for one in operation.inputs]
    return seen


def _count_flops(operations: Iterable[tf.Operation]) -> Flops | None:
    """Of products; None where there are loops or functions."""
    total = 0.0
    for operation in operations:
        node = operation.node_def
        if hidden_work(node):
            return None
        if PRODUCTS.fullmatch(node.op):
            total += product_flops(node, list(map(_value, operation.inputs)), _value(operation.outputs[0]))
    return Flops(total)


def _value(tensor: tf.Tensor) -> Value | None:
    known = tensor.shape.is_fully_defined()
    return Value(tensor.dtype.name, tuple(tensor.shape)) if known else None
