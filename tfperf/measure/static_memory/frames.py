"""Loops that run, and what is ready in them, as TensorFlow's executor keeps them.

A frame is a loop that runs; several of its iterations may do so at once. A dead node lies in a branch that was not
taken.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tfperf.measure.static_memory.heap import Value
from tfperf.measure.static_memory.program import Node


@dataclass(eq=False)
class Iteration:
    """What has come of one iteration of a frame. waits: by node; dead: those with a dead input."""

    frame: "Frame"
    index: int
    waits: dict[int, int] = field(default_factory=dict)
    dead: dict[int, int] = field(default_factory=dict)
    inputs: dict[int, list[Value | None]] = field(default_factory=dict)
    running: int = 0  # operations that are ready, and frames within it


@dataclass(eq=False)
class Frame:
    """A loop that runs. enters: values that it waits for; last: its latest iteration; waiting: values for the next."""

    key: tuple[object, ...]
    parent: Iteration | None
    most: int
    enters: int
    iterations: dict[int, Iteration] = field(default_factory=dict)
    last: int = 0
    waiting: list[tuple[Node, Value]] = field(default_factory=list)
    constant: list[tuple[Node, Value]] = field(default_factory=list)
    dead_exits: list[Node] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """A node whose inputs are there, in an iteration. dead: it only tells those behind it."""

    node: Node
    place: Iteration
    dead: bool


def count_enters(nodes: Sequence[Node]) -> dict[bytes, int]:
    """How many values each frame waits for, by its name."""
    found: dict[bytes, int] = {}
    for node in nodes:
        if node.op == "Enter":
            name = node.attr["frame_name"].s
            found[name] = found.get(name, 0) + 1
    return found


def find_bounds(nodes: Sequence[Node]) -> frozenset[int]:
    """What each loop's condition is made of, where several parts have to be true, as that it has not run too often."""
    found = set()
    for node in nodes:
        while node.op in ("LoopCond", "Identity") and node.inputs:
            node = nodes[node.inputs[0][0]]
            if node.op == "LogicalAnd":
                found.add(node.index)
    return frozenset(found)
