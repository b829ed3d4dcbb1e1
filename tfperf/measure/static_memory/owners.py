"""Whose a buffer is: the layer by the scope of its operation, and what it is for."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tfperf.measure.static_memory.heap import Buffer, Shape
from tfperf.measure.static_memory.kernels import CONSTANT, GIVEN, TEMPORARY, VARIABLE
from tfperf.measure.static_memory.program import Node, OptimizedGraph

BACKWARD, LOOPS = "gradient_tape", ("while", "cond", "then", "else", "body")
REWRITTEN = ("ArithmeticOptimizer", "ConstantFolding", "LayoutOptimizer", "Func")
DEPTH = 2  # parts of a scope that name a layer: those of the model and of the layer in it
MOST_STEPS = 4  # up or down the graph, to find the layer of an operation that has no scope
ACTIVATION, GRADIENT, WEIGHT, SLOT, UPDATE = "activation", "gradient", "weight", "slot", "update"
KINDS = {CONSTANT: "constant", GIVEN: "given", TEMPORARY: "temporary"}


@dataclass(frozen=True)
class HeldBuffer:
    """Bytes at the peak: of which operation, of which layer, of what shape, and what they are for."""

    size: int
    operation: str
    layer: str
    shape: Shape
    kind: str


@dataclass(frozen=True)
class LayerShare:
    """What a layer holds of one kind: bytes, buffers, the shape of the largest."""

    layer: str
    kind: str
    size: int
    count: int
    shape: Shape


def find_layer(operation: str) -> str:
    """The outer parts of an operation's scope; empty where it has none.

    >>> find_layer("gradient_tape/functional_1/dense_1/MatMul/MatMul_1"), find_layer("net/lstm/while/body/_1/MatMul")
    ('functional_1/dense_1', 'net/lstm')
    """
    parts = [part for part in operation.split("/") if part not in (BACKWARD, *REWRITTEN)]
    for place, part in enumerate(parts):
        if part in LOOPS:
            parts = parts[:place] + ([""] if place else [])
            break
    return "/".join(parts[:-1][:DEPTH])


def describe_buffers(
    program: OptimizedGraph, buffers: Iterable[Buffer], names: Mapping[str, str], slots: Collection[str], optimizer: str
) -> list[HeldBuffer]:
    """What was alive, the largest first. names: of variables by their node; slots: those of the optimizer."""
    nodes = {node.name: node for node in program.nodes}
    found = []
    for one in buffers:
        name = names.get(one.operation, one.operation)
        node = nodes.get(one.operation)
        layer = name.rpartition("/")[0] if one.role == VARIABLE else _search_layer(node, program.nodes, one.operation)
        kind = _find_kind(one, name in slots, optimizer)
        found.append(HeldBuffer(one.chunk, name, layer, one.shape, kind))
    return sorted(found, key=lambda one: -one.size)


def group_layers(buffers: Iterable[HeldBuffer]) -> list[LayerShare]:
    """By layer and kind, the largest first."""
    grouped: dict[tuple[str, str], list[HeldBuffer]] = defaultdict(list)
    for one in buffers:
        grouped[one.layer, one.kind].append(one)
    found = [
        LayerShare(layer, kind, sum(one.size for one in some), len(some), max(some, key=lambda one: one.size).shape)
        for (layer, kind), some in grouped.items()
    ]
    return sorted(found, key=lambda one: -one.size)


def _search_layer(node: Node | None, nodes: Sequence[Node], operation: str) -> str:
    """Its own, or that of the nearest operation before or behind it."""
    found = find_layer(operation)
    for _ in range(MOST_STEPS):
        if found or node is None:
            break
        near = [nodes[source] for source, _ in node.inputs] or [nodes[target] for _, target, _ in node.edges]
        named = [layer for one in near if (layer := find_layer(one.name))]
        found, node = (named[0] if named else ""), (near[0] if near else None)
    return found


def _find_kind(buffer: Buffer, is_slot: bool, optimizer: str) -> str:
    if buffer.role == VARIABLE:
        return SLOT if is_slot else WEIGHT
    if buffer.role in KINDS:
        return KINDS[buffer.role]
    return find_kind(buffer.operation, optimizer)


def find_kind(operation: str, optimizer: str) -> str:
    """Of an operation's result, by its scope."""
    parts = operation.split("/")
    if BACKWARD in parts:
        return GRADIENT
    if optimizer in parts:
        return UPDATE
    return ACTIVATION if len(parts) > 1 else GRADIENT if operation.startswith("AddN") else ACTIVATION
