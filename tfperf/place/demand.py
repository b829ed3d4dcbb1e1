"""What a pass needs of what it is given, and which gradients it has, read off the graph that its own functions make.

TensorFlow leaves out what nothing depends on: weights and statistics that are not read, tensors of a local batch that
nobody asks for, gradients of what the loss does not depend on.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import tensorflow as tf

from tfperf.place.function_graphs import optimize_graph
from tfperf.place.look_ups import make_local_batch_specs
from tfperf.place.method import Method
from tfperf.place.nodes import PRODUCTS, SMALL, count_constant_bytes, count_flops, digest_constant, find_hidden_work
from tfperf.place.shapes import TensorType
from tfperf.place.step import Gradients, build_pass
from tfperf.place.trainable import BatchPosition, PassInputs, Trainable
from tfperf.place.transfers import Flops

SHAPED = frozenset(["Shape", "ShapeN", "Size", "Rank", "ZerosLike", "OnesLike"])  # of a fixed shape they read nothing


class CapturedTensor(NamedTuple):
    """A tensor of so many bytes that was made outside of the pass, on a device."""

    device: str
    size: int


class Demand(NamedTuple):
    """Of one pass. Variables are in the trainable's order, tables first.

    gradients: of each variable, whether the loss depends on it; variables, statistics, sides: whether anything depends
    on each, the last by tensors of the local batch; look_ups: on which of these ids alone do; statistics_vary,
    metrics_vary: whether each new value of a statistic, and what is told of a step, loss first, depends on anything
    given; flops: of products, None where it has loops or functions; constants: digests of those that are more than is
    small; captured: tensors made outside.
    """

    gradients: Sequence[bool]
    variables: Sequence[bool]
    statistics: Sequence[bool]
    sides: Sequence[bool]
    look_ups: Sequence[bool]
    statistics_vary: Sequence[bool] = ()
    metrics_vary: Sequence[bool] = ()
    flops: Flops | None = None
    constants: frozenset[str] = frozenset()
    captured: Sequence[CapturedTensor] = ()


@dataclass
class RecordedPass:
    """A pass as a graph: what it is given, by kind, and what it finds."""

    trainable: Trainable
    graph: Any
    given: dict[str, list[tf.Tensor]]
    found: Gradients

    def find_demand(self, statistics: bool, metrics: bool, xla: bool) -> Demand:
        """Whether statistics, and metrics, that merge as `first` are taken from this pass; xla: it is compiled."""
        changing = [one for one in self.trainable.statistics if one.merge != "fixed"]
        new = list(zip(changing, self.found.statistics, strict=True))
        measured = list(zip(self.trainable.metrics, self.found.metrics, strict=True))
        variables = [*self.found.tables, *self.found.weights]
        wanted = [
            self.found.loss, *(one for gradient in variables for one in _list_tensors(gradient)),
            *(value for one, value in new if statistics or one.merge != "first"),
            *(value for one, value in measured if metrics or one.merge != "first"),
        ]  # fmt: skip
        needed = _find_ancestors([one.op for one in wanted] + list(self.graph.control_outputs))
        # what XLA compiled is given everything
        read = {kind: [xla or one.op.name in needed for one in some] for kind, some in self.given.items()}
        ids = [asked and not side for asked, side in zip(read["looked_up"], read["sides"], strict=True)]
        return Demand(
            gradients=[gradient is not None for gradient in variables], variables=read["tables"] + read["weights"],
            statistics=read["statistics"],
            sides=read["sides"], look_ups=ids, statistics_vary=[self._varies(value) for _, value in new],
            metrics_vary=[self._varies(value) for value in (self.found.loss, *self.found.metrics)],
            flops=_sum_flops(needed.values()),
            constants=frozenset(self._list_constants(wanted)), captured=tuple(self._list_captured(needed)),
        )  # fmt: skip

    def _varies(self, value: tf.Tensor) -> bool:
        return any(operation.type == "Placeholder" for operation in _find_ancestors([value.op]).values())

    def _list_captured(self, needed: dict[str, tf.Operation]) -> Iterator[CapturedTensor]:
        for outer, inner in self.graph.captures:
            if inner.op.name in needed and outer.dtype != tf.resource:
                yield CapturedTensor(outer.device, int(outer.shape.num_elements() * outer.dtype.size))

    def _list_constants(self, wanted: Iterable[tf.Tensor]) -> Iterator[str]:
        """Digests of those that are more than is small, also of what TensorFlow makes of constants before it runs."""
        for graph in (self.graph.as_graph_def(), optimize_graph(self.graph, wanted)):
            for nodes in (graph.node, *(function.node_def for function in graph.library.function)):
                for node in nodes:
                    if node.op == "Const" and count_constant_bytes(node) > SMALL:
                        yield digest_constant(node)


def record_pass(trainable: Trainable, method: Method, local_batch: Sequence[TensorType]) -> RecordedPass:
    """The pass over a local batch of these shapes, as engines compute it."""
    compute, found = build_pass(trainable, replace(method, xla=False)), []

    def trace(**given: list[tf.Tensor]) -> None:
        ids = trainable.select_ids(given["looked_up"])
        rows = [tf.gather(table, some) for table, some in zip(given["tables"], ids, strict=True)]
        known = trainable.survey([given["surveyed"]])
        draws = trainable.sample_draws(BatchPosition(tf.zeros([], tf.int64), 0), given["sides"], rows, known)
        count = tf.ones([], method.precision)
        found.append(compute(PassInputs(given["weights"], rows, given["statistics"], given["sides"], draws, count)))

    sides, statistics = make_local_batch_specs(local_batch), [one.variable for one in trainable.statistics]
    asked = {
        "sides": sides, "looked_up": sides, "surveyed": sides, "tables": _make_variable_specs(trainable.embeddings),
        "weights": _make_variable_specs(trainable.weights), "statistics": _make_variable_specs(statistics),
    }  # fmt: skip
    graph = tf.function(trace, autograph=False).get_concrete_function(**asked).graph
    inputs = iter(graph.inputs)
    given = {kind: [next(inputs) for _ in asked[kind]] for kind in sorted(asked)}
    return RecordedPass(trainable, graph, given, found[-1])


def _make_variable_specs(variables: Iterable[Any]) -> list[tf.TensorSpec]:
    return [tf.TensorSpec(tuple(variable.shape), variable.dtype) for variable in variables]


def _list_tensors(gradient: tf.Tensor | tf.IndexedSlices | None) -> list[tf.Tensor]:
    """Tensors that a gradient consists of."""
    if gradient is None:
        return []
    return [gradient.values, gradient.indices] if isinstance(gradient, tf.IndexedSlices) else [gradient]


def _find_ancestors(operations: Iterable[tf.Operation]) -> dict[str, tf.Operation]:
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


def _sum_flops(operations: Iterable[tf.Operation]) -> Flops | None:
    """Of products; None where there are loops or functions."""
    total = 0.0
    for one in operations:
        node = one.node_def
        if find_hidden_work(node):
            return None
        if PRODUCTS.fullmatch(node.op):
            total += count_flops(node, [*map(_make_tensor_type, one.inputs)], _make_tensor_type(one.outputs[0]))
    return Flops(total)


def _make_tensor_type(tensor: tf.Tensor) -> TensorType | None:
    known = tensor.shape.is_fully_defined()
    return TensorType(tensor.dtype.name, tuple(tensor.shape)) if known else None
