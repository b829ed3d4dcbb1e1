"""What an update has to fetch and to bring back, where it runs on another device than its variable or slots."""

from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from tfperf.place.optimizer import Decayed, made_on, make_optimizer
from tfperf.place.rules import PLUMBING
from tfperf.runcard.descent import Descent

ENTRIES = 2  # of each axis of a stand-in


class Moves(NamedTuple):
    """How often the update of variable `update` reads and writes a tensor: slot number `slot`, None: the variable.

    makes: how many operations of the update give what may be as large as the variable, assignments left out.
    """

    update: int
    slot: int | None
    reads: int
    writes: int
    makes: int = 0


def count_moves(descent: Descent, variables: Sequence[keras.Variable], host: str) -> list[Moves]:
    """Of every variable's update by the card's optimizer, read off graphs of a small stand-in for each."""
    small = [_stand_in(variable, host) for variable in variables]
    with tf.device(host), made_on(host):
        optimizer = make_optimizer(descent, Decayed)
        optimizer.build(small)
    found: list[Moves] = []
    for number, variable in enumerate(small):
        graph = _graph(optimizer, variable)
        reads, writes = _count(graph)
        makes = sum(_makes(operation) for operation in graph.get_operations())
        for slot, one in enumerate([None, *optimizer.variables]):
            handle = (variable if one is None else one).value.handle
            number_of = slot - 1 if slot else None
            found.append(Moves(number, number_of, reads[id(handle)], writes[id(handle)], makes))
    return [move for move in found if move.reads or move.writes]


def _stand_in(variable: keras.Variable, host: str) -> keras.Variable:
    """A variable of as many axes, with the same path: optimizers go by both."""
    with ExitStack() as scopes:
        for part in variable.path.split("/")[:-1]:
            scopes.enter_context(keras.name_scope(part))
        scopes.enter_context(made_on(host))
        return keras.Variable(tf.zeros([ENTRIES] * len(variable.shape)), dtype=variable.dtype, name=variable.name)


def _graph(optimizer: Any, variable: keras.Variable) -> tf.Graph:
    """Of a variable's update."""

    def update() -> None:
        gradient = tf.zeros(variable.shape, variable.dtype)
        optimizer.decay_and_update(gradient, variable.value, tf.zeros([], variable.dtype))

    return tf.function(update, autograph=False).get_concrete_function().graph


def _count(graph: tf.Graph) -> tuple[Counter[int], Counter[int]]:
    """Reads and writes by the identity of the handle."""
    handles = {inner.name: outer for outer, inner in graph.captures}
    reads: Counter[int] = Counter()
    writes: Counter[int] = Counter()
    for operation in graph.get_operations():
        for tensor in operation.inputs:
            if tensor.dtype == tf.resource and tensor.name in handles:
                kinds = reads if operation.type == "ReadVariableOp" else writes
                kinds[id(handles[tensor.name])] += 1
    return reads, writes


def _makes(operation: tf.Operation) -> bool:
    """Whether an operation computes something that has axes."""
    return operation.type not in PLUMBING and any(output.shape.rank != 0 for output in operation.outputs)
