"""When the operations of a graph ran, and which run waited for which.

A profile says when an operation ran, not in which turn of its loops. Of two operations that ran equally often the runs
are paired in order, one turn later where a NextIteration lies between; of others, and where that contradicts the
clock, a run waited for the last run of the other that had ended before it began.
"""

from collections.abc import Container
from dataclasses import dataclass, fields

import numpy as np

from tfperf.arrays import BoolMask, Indices, Times
from tfperf.trace.graphs import ENTERS, NEXT, RECEIVES, SENDS, Graph
from tfperf.trace.operations import GRAPH, Operations
from tfperf.trace.planes import Events

DONE = "ExecutorState::ProcessAsync::Done"  # where an operation ends that goes on after its kernel returned


@dataclass(frozen=True)
class OperationRuns:
    """r runs in the order in which they began; `node`: number in the graph; times in ns; `lane`: thread or stream.

    `left`: when a run left its lane, before its `end` where it went on without. `given`: from when on others can have
    what it gives: its end, of a send its begin. `call`: the one that it is in.
    """

    node: Indices
    begin: Times
    left: Times
    end: Times
    given: Times
    lane: Indices
    call: Indices

    def __len__(self) -> int:
        return len(self.node)

    def drop(self, which: BoolMask) -> "OperationRuns":
        """All but these (r)."""
        left = {field.name: getattr(self, field.name)[~which] for field in fields(self)}
        return OperationRuns(**left)


@dataclass(frozen=True)
class Dependencies:
    """`before[start[i] : start[i + 1]]`: the runs that run i waited for; all had given what it needed when it began."""

    start: Indices
    before: Indices


def find_runs(events: Events, operations: Operations, graph: Graph, begins: Times, ends: Times) -> OperationRuns:
    """Runs of a graph's operations in the calls [begins, ends). On an accelerator its kernels count, not their launch.

    A receive has none: it waits for its send.
    """
    device = np.array([lane.accelerator for lane in events.lanes], bool)[events.lane]
    host = np.array([_find_node(name, graph) for name in events.names] or [-1], np.intp)[events.name]
    kernel = np.array([*(_find_node(o.name, graph) for o in operations.every), -1], np.intp)[operations.index]
    node = np.where(device, kernel, host)
    launched = np.isin(node, np.unique(node[device & (node >= 0)])) & ~device
    call = np.searchsorted(begins, events.begin, "right") - 1
    inside = (call >= 0) & (events.begin < ends[np.maximum(call, 0)])
    rows = np.flatnonzero((node >= 0) & ~launched & inside)
    rows = rows[np.lexsort((events.end[rows], events.begin[rows]))]
    begin, left = events.begin[rows], events.end[rows]
    done = _find_ends(events, graph, node[rows], begin, left)
    found = make_runs(graph, node[rows], begin, left, done, events.lane[rows].astype(np.intp), call[rows])
    return found.drop(find_idle_sends(found, graph))


def find_idle_sends(runs: OperationRuns, graph: Graph) -> BoolMask:
    """Which runs (r) are of sends that have nothing to send: a loop that ends runs them once more.

    What they send has not run again since the send before.
    """
    out = np.zeros(len(runs), bool)
    sends = [i for i, one in enumerate(graph.nodes) if one.kind in SENDS]
    for number in np.intersect1d(sends, runs.node).tolist():
        source = np.isin(runs.node, graph.before[number])
        mine = np.flatnonzero(runs.node == number)
        if source.any():
            last = np.searchsorted(np.sort(runs.given[source]), runs.begin[mine], "right")
            out[mine[1:]] = last[1:] == last[:-1]
    return out


def make_runs(
    graph: Graph, node: Indices, begin: Times, left: Times, end: Times, lane: Indices, call: Indices
) -> OperationRuns:
    """Runs in the order in which they began. What a send gives is received before its own run has ended."""
    sends = np.array([one.kind in SENDS for one in graph.nodes] or [False])[node]
    return OperationRuns(node, begin, left, end, np.where(sends, begin, end), lane, call)


def _find_node(event: str, graph: Graph) -> int:
    found = GRAPH.fullmatch(event)
    number = graph.index.get(found["name"], -1) if found else -1
    return -1 if number >= 0 and graph.nodes[number].kind in RECEIVES else number


def _find_ends(events: Events, graph: Graph, node: Indices, begin: Times, end: Times) -> Times:
    """Ends of runs; of those that went on after their kernels returned, where they were done."""
    rows, names = events.stats.get("name", (np.zeros(0, np.int64), ()))
    done = {number for number, name in enumerate(events.names) if name == DONE}
    marks: dict[int, list[int]] = {}
    for row, name in zip(rows.tolist(), names, strict=True):
        if events.name[row] in done and name in graph.index:
            marks.setdefault(graph.index[name], []).append(int(events.begin[row]))
    out = end.copy()
    for number, times in marks.items():
        mine, sure = np.flatnonzero(node == number), np.sort(np.array(times, np.int64))
        at = np.searchsorted(sure, begin[mine])
        some = at < len(sure)
        out[mine[some]] = np.maximum(end[mine[some]], sure[at[some]])
    return out


def find_dependencies(runs: OperationRuns, graph: Graph) -> Dependencies:
    """Which run waited for which, in the same call."""
    order = np.argsort(runs.node, kind="stable")
    numbers, first = np.unique(runs.node[order], return_index=True)
    of = dict(zip(numbers.tolist(), np.split(order, first[1:]), strict=True))
    ended = {number: mine[np.argsort(runs.given[mine], kind="stable")] for number, mine in of.items()}
    later, earlier = [np.zeros(0, np.intp)], [np.zeros(0, np.intp)]
    for number, mine in of.items():
        for other, turn in _find_waits(graph, number, of):
            theirs = _match(runs, mine, of[other], ended[other], turn)
            later.append(mine[theirs >= 0])
            earlier.append(theirs[theirs >= 0])
    after, before = np.concatenate(later), np.concatenate(earlier)
    sure = (before < after) & (runs.call[before] == runs.call[after])
    after, before = after[sure], before[sure]
    sort = np.argsort(after, kind="stable")
    start = np.searchsorted(after[sort], np.arange(len(runs) + 1))
    return Dependencies(start, before[sort])


def _match(runs: OperationRuns, mine: Indices, theirs: Indices, ended: Indices, turn: bool) -> Indices:
    """Of each run `mine` the one that it waited for, -1: none. ended: `theirs` in the order of their ends."""
    last = np.searchsorted(runs.given[ended], runs.begin[mine], "right") - 1
    out = np.where(last >= 0, ended[np.maximum(last, 0)], -1)
    if len(mine) == len(theirs):
        same = np.concatenate([[-1], theirs[:-1]]) if turn else theirs
        fits = (same >= 0) & (runs.given[same] <= runs.begin[mine])
        out = np.where(fits | (same < 0), same, out)
    return out


def _find_waits(graph: Graph, number: int, ran: Container[int]) -> list[tuple[int, bool]]:
    """Operations with runs that one waits for, through those without; and whether a loop's next turn lies between."""
    found: set[tuple[int, bool]] = set()
    seen: set[tuple[int, bool]] = set()
    front = [(other, False) for other in graph.before[number]]
    while front:
        at = front.pop()
        if at in seen:
            continue
        seen.add(at)
        other, turn = at
        turn = turn or graph.nodes[other].kind in NEXT
        if other in ran:
            found.add((other, turn))
        else:
            front += [(further, turn) for further in graph.before[other]]
    if all(graph.nodes[other].kind in ENTERS for other, _ in found):
        # it needs what is the same in all turns: each turn's begin is what it waits for
        found |= {(other, False) for other in graph.list_turn_starts(number) if other in ran and other != number}
    return sorted(found)
