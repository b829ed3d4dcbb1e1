"""The graphs that ran, joined to one: which operation waits for which, and in which loop each is."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

ENTERS, EXITS = ("Enter", "RefEnter"), ("Exit", "RefExit")
NEXT = ("NextIteration", "RefNextIteration")
RECEIVES, SENDS = ("_Recv", "_HostRecv"), ("_Send", "_HostSend")


@dataclass(frozen=True)
class GraphNode:
    """An operation. inputs: names of those that it waits for, for their values or their ends alike.

    pair: what a send and its receive share; frame: the loop that an Enter leads into; both empty for all others.
    compiled: whether it calls a program of XLA's.
    """

    name: str
    kind: str
    device: str
    inputs: tuple[str, ...] = ()
    pair: str = ""
    frame: str = ""
    compiled: bool = False


@dataclass(frozen=True)
class Graph:
    """n operations; `before` (n): numbers of those that each waits for, across devices too.

    frames (n): the loop that each is in, empty outside of any; depths: of a loop by its name, 1 for the outermost.
    """

    nodes: tuple[GraphNode, ...]
    before: tuple[tuple[int, ...], ...]
    frames: tuple[str, ...]
    depths: Mapping[str, int]

    @cached_property
    def index(self) -> dict[str, int]:
        """Number of each operation by its name."""
        return {node.name: i for i, node in enumerate(self.nodes)}

    @cached_property
    def conditions(self) -> dict[str, list[int]]:
        """What decides on each turn of a loop, by its name."""
        out: dict[str, list[int]] = {}
        for i, node in enumerate(self.nodes):
            if node.kind == "LoopCond":
                out.setdefault(self.frames[i], []).append(i)
        return out

    def list_turn_starts(self, number: int) -> list[int]:
        """What begins the turns of the loop that an operation is in; of an Enter none, which runs before them."""
        return [] if self.nodes[number].kind in ENTERS else self.conditions.get(self.frames[number], [])

    def count_loops(self, number: int) -> int:
        """How many loops an operation is in."""
        return self.depths.get(self.frames[number], 0)


def join_nodes(nodes: Iterable[GraphNode]) -> Graph:
    """One graph of those of all devices: a receive waits for its send."""
    every = tuple({node.name: node for node in nodes}.values())
    index = {node.name: i for i, node in enumerate(every)}
    sends = {node.pair: i for i, node in enumerate(every) if node.pair and node.kind not in RECEIVES}
    before = []
    for node in every:
        waits = [index[name] for name in node.inputs if name in index]
        if node.kind in RECEIVES and node.pair in sends:
            waits.append(sends[node.pair])
        before.append(tuple(dict.fromkeys(waits)))
    frames, depths = _find_frames(every, before)
    return Graph(every, tuple(before), frames, depths)


def _find_frames(nodes: Sequence[GraphNode], before: Sequence[Sequence[int]]) -> tuple[tuple[str, ...], dict[str, int]]:
    """The loop of each operation: that of what it waits for, which Enter and Exit change; depth of each loop."""
    after: list[list[int]] = [[] for _ in nodes]
    for i, waits in enumerate(before):
        for other in waits:
            after[other].append(i)
    found: dict[int, str] = {i: "" for i, waits in enumerate(before) if not waits}
    parents: dict[str, str] = {}
    for i in found:
        if nodes[i].kind in ENTERS:
            found[i] = nodes[i].frame
            parents.setdefault(nodes[i].frame, "")
    front = deque(found)
    while front:
        at = front.popleft()
        # what leaves a loop is in the one around it
        outside = parents.get(found[at], "") if nodes[at].kind in EXITS else found[at]
        for other in (other for other in after[at] if other not in found):
            found[other] = outside
            if nodes[other].kind in ENTERS:
                found[other] = nodes[other].frame
                parents.setdefault(nodes[other].frame, outside)
            front.append(other)
    return tuple(found.get(i, "") for i in range(len(nodes))), {name: _count_depth(name, parents) for name in parents}


def _count_depth(frame: str, parents: Mapping[str, str]) -> int:
    """Of a loop, 1 for one that is in no other."""
    count, seen = 0, set[str]()
    while frame and frame not in seen:
        seen.add(frame)
        frame, count = parents.get(frame, ""), count + 1
    return count
