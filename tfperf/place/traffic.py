"""What an update has to fetch and to bring back, where it runs on another device than its variable or slots."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from tfperf.place.copies import Way
from tfperf.place.optimizer import Decayed, made_on, make_optimizer
from tfperf.place.rules import PLUMBING
from tfperf.runcard.descent import Descent

ENTRIES = 2  # of each axis of a stand-in


class Moves(NamedTuple):
    """How often the update of variable `update` reads and writes a tensor: slot number `slot`, None: the variable.

    makes: how many operations of the update give what may be as large as the variable, assignments left out.
    handed: what an assignment sets to a value just as it was read here, each named as in `slot`; such a value goes
    there without coming by where the update runs. given: how many of the writes set what was so read elsewhere.
    """

    update: int
    slot: int | None
    reads: int
    writes: int
    makes: int = 0
    handed: tuple[int | None, ...] = ()
    given: int = 0


def count_moves(descent: Descent, variables: Sequence[keras.Variable], host: str) -> list[Moves]:
    """Of every variable's update by the card's optimizer, read off graphs of a small stand-in for each."""
    small = [_stand_in(variable, host) for variable in variables]
    with tf.device(host), made_on(host):
        optimizer = make_optimizer(descent, Decayed)
        optimizer.build(small)
    slots = {id(slot.value.handle): i for i, slot in enumerate(optimizer.variables)}
    every = (
        move for number, variable in enumerate(small)
        for move in _read_moves(_graph(optimizer, variable), number, {id(variable.value.handle): None, **slots})
    )  # fmt: skip
    return [move for move in every if move.reads or move.writes]


def list_ways(move: Moves, size: int, copy: str, slots: str, update: str) -> Iterator[Way]:
    """What is sent of a tensor of so many bytes, by the devices of the variable's copy, its slots and its update."""
    place = copy if move.slot is None else slots
    yield Way("fetched by updates", place, update, (move.reads - len(move.handed)) * size)
    yield Way("brought back by updates", update, place, (move.writes - move.given) * size)
    for slot in move.handed:
        yield Way("handed on by updates", place, copy if slot is None else slots, size)


def _read_moves(graph: tf.Graph, update: int, slots: Mapping[int, int | None]) -> Iterator[Moves]:
    """Of an update's graph; slots: numbers by the identity of the handle, None: the variable."""
    reads, writes = _count(graph)
    makes = sum(_makes(operation) for operation in graph.get_operations())
    handed = [(slots[begin], slots[end]) for begin, end in _find_handed(graph)]
    for handle, slot in slots.items():
        to = tuple(end for begin, end in handed if begin == slot)
        given = sum(end == slot for _, end in handed)
        yield Moves(update, slot, reads[handle], writes[handle], makes, to, given)


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


def _find_handed(graph: tf.Graph) -> Iterator[tuple[int, int]]:
    """Identities of handles: what is read for an assignment alone, as RMSprop's momentum, and what that sets to it."""
    handles = {inner.name: id(outer) for outer, inner in graph.captures}
    for operation in graph.get_operations():
        if operation.type == "ReadVariableOp":
            takers = operation.outputs[0].consumers()
            if len(takers) == 1 and takers[0].type.startswith("Assign"):
                yield handles[operation.inputs[0].name], handles[takers[0].inputs[0].name]


def _makes(operation: tf.Operation) -> bool:
    """Whether an operation computes something that has axes."""
    return operation.type not in PLUMBING and any(output.shape.rank != 0 for output in operation.outputs)
