"""What an update has to fetch and to bring back, where it runs on another device than its variable or slots."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from tfperf.place.optimizer import DecayMixin, make_optimizer, place_variables
from tfperf.place.rules import PLUMBING
from tfperf.place.transfers import NeededTransfer
from tfperf.runcard.model_optimizer import ModelOptimizer

ENTRIES = 2  # of each axis of a stand-in


class Moves(NamedTuple):
    """How often the update of variable `update` reads and writes a tensor: slot number `slot`, None: the variable.

    large_outputs: operations of the update whose results may be as large as the variable, assignments left out.
    forwarded_to: what an assignment sets to a value just as it was read here, each named as in `slot`; such a value
    goes there without coming by where the update runs. forwarded_writes: that set what was so read elsewhere.
    """

    update: int
    slot: int | None
    reads: int
    writes: int
    large_outputs: int = 0
    forwarded_to: tuple[int | None, ...] = ()
    forwarded_writes: int = 0


def count_moves(options: ModelOptimizer, variables: Sequence[keras.Variable], host: str) -> list[Moves]:
    """Of every variable's update by the card's optimizer, read off graphs of a small stand-in for each."""
    small = [_make_stand_in(variable, host) for variable in variables]
    with tf.device(host), place_variables(host):
        optimizer = make_optimizer(options, DecayMixin)
        optimizer.build(small)
    slots: dict[int, int | None] = {id(slot.value.handle): i for i, slot in enumerate(optimizer.variables)}
    graphs = [_build_update_graph(optimizer, variable) for variable in small]
    handles = [{id(variable.value.handle): None, **slots} for variable in small]
    every = (move for i, graph in enumerate(graphs) for move in _count_graph_moves(graph, i, handles[i]))
    return [move for move in every if move.reads or move.writes]


def list_move_transfers(move: Moves, size: int, copy: str, slots: str, update: str) -> Iterator[NeededTransfer]:
    """What is sent of a tensor of so many bytes, by the devices of the variable's copy, its slots and its update."""
    place = copy if move.slot is None else slots
    yield NeededTransfer("fetched by updates", place, update, (move.reads - len(move.forwarded_to)) * size)
    yield NeededTransfer("brought back by updates", update, place, (move.writes - move.forwarded_writes) * size)
    for slot in move.forwarded_to:
        yield NeededTransfer("handed on by updates", place, copy if slot is None else slots, size)


def _count_graph_moves(graph: tf.Graph, update: int, slots: Mapping[int, int | None]) -> Iterator[Moves]:
    """Of an update's graph; slots: numbers by the identity of the handle, None: the variable."""
    reads, writes = _count_accesses(graph)
    outputs = sum(_is_computation(operation) for operation in graph.get_operations())
    forwards = [(slots[begin], slots[end]) for begin, end in _find_forwards(graph)]
    for handle, slot in slots.items():
        to = tuple(end for begin, end in forwards if begin == slot)
        given = sum(end == slot for _, end in forwards)
        yield Moves(update, slot, reads[handle], writes[handle], outputs, to, given)


def _make_stand_in(variable: keras.Variable, host: str) -> keras.Variable:
    """A variable of as many axes, with the same path: optimizers go by both."""
    with ExitStack() as scopes:
        for name in variable.path.split("/")[:-1]:
            scopes.enter_context(keras.name_scope(name))
        scopes.enter_context(place_variables(host))
        return keras.Variable(tf.zeros([ENTRIES] * len(variable.shape)), dtype=variable.dtype, name=variable.name)


def _build_update_graph(optimizer: Any, variable: keras.Variable) -> tf.Graph:
    """Of a variable's update."""

    def update() -> None:
        gradient = tf.zeros(variable.shape, variable.dtype)
        optimizer.decay_and_update(gradient, variable.value, tf.zeros([], variable.dtype))

    return tf.function(update, autograph=False).get_concrete_function().graph


def _count_accesses(graph: tf.Graph) -> tuple[Counter[int], Counter[int]]:
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


def _find_forwards(graph: tf.Graph) -> Iterator[tuple[int, int]]:
    """Identities of handles: what is read for an assignment alone, as RMSprop's momentum, and what that sets to it."""
    handles = {inner.name: id(outer) for outer, inner in graph.captures}
    for operation in graph.get_operations():
        if operation.type == "ReadVariableOp":
            takers = operation.outputs[0].consumers()
            if len(takers) == 1 and takers[0].type.startswith("Assign"):
                yield handles[operation.inputs[0].name], handles[takers[0].inputs[0].name]


def _is_computation(operation: tf.Operation) -> bool:
    """Whether an operation computes something that has axes."""
    return operation.type not in PLUMBING and any(output.shape.rank != 0 for output in operation.outputs)
