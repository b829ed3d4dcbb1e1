"""Graphs and their runs made by hand, and the same chains found slowly."""

import numpy as np

from tfperf.trace.graphs import GraphNode, join_nodes
from tfperf.trace.planes import Events, Lane
from tfperf.trace.runs import make_runs

CPU = "/job:localhost/replica:0/task:0/device:CPU:{}"


def node(name, *inputs, kind="MatMul", device=0, **more):
    """An operation on a logical CPU."""
    return GraphNode(name, kind, CPU.format(device), inputs, **more)


def send(name, source, begin, end):
    """A send to another device and its receive, which is called `name`."""
    pair = f"{name} {begin} {end}"
    return [
        node(f"{name}/send", source, kind="_Send", device=begin, pair=pair),
        node(name, kind="_Recv", device=end, pair=pair),
    ]


def loop(name, begin, length, device=0):
    """A loop of `length` operations a turn, each waiting for the one before, as TensorFlow lowers them; its value."""
    body = [node(f"{name}/body_{i}", f"{name}/body_{i - 1}" if i else f"{name}/value", device=device)
            for i in range(length)]  # fmt: skip
    return [
        node(f"{name}/enter", begin, kind="Enter", frame=name, device=device),
        node(f"{name}/merge", f"{name}/enter", f"{name}/next", kind="Merge", device=device),
        node(f"{name}/less", f"{name}/merge", kind="Less", device=device),
        node(f"{name}/cond", f"{name}/less", kind="LoopCond", device=device),
        node(f"{name}/switch", f"{name}/merge", f"{name}/cond", kind="Switch", device=device),
        node(f"{name}/value", f"{name}/switch", kind="Identity", device=device),
        *body,
        node(f"{name}/next", f"{name}/body_{length - 1}", kind="NextIteration", device=device),
        node(f"{name}", f"{name}/switch", kind="Exit", device=device),
    ]


def runs(graph, *rows, calls=((0, 10**9),)):
    """Runs from (name, begin, end, lane) in ns."""
    found = sorted(((graph.index[name], begin, end, lane) for name, begin, end, lane in rows), key=lambda row: row[1:3])
    number, begin, end, lane = (np.array(column, np.int64) for column in zip(*found, strict=True))
    call = np.searchsorted([start for start, _ in calls], begin, "right") - 1
    return make_runs(graph, number, begin, end, end, lane, call)


def names(graph, found, which):
    """Of runs by their numbers."""
    return [graph.nodes[found.node[i]].name for i in which]


def slow_longest(found, links):
    """Length of the longest chain of runs, by asking each run again and again."""

    def length(i):
        before = links.before[links.start[i] : links.start[i + 1]]
        return found.end[i] - found.begin[i] + max((length(j) for j in before), default=0)

    return max(map(length, range(len(found))))


def events(graph, *rows, stats=None):
    """Events of a host's threads from (name, begin, end, lane)."""
    kinds = {one.name: f"{one.name}:{one.kind}" for one in graph.nodes}
    labels = tuple(dict.fromkeys(kinds.get(name, name) for name, *_ in rows))
    lane, name, begin, end = zip(*((k, labels.index(kinds.get(n, n)), b, e) for n, b, e, k in rows), strict=True)
    lanes = tuple(Lane("host", "/host:CPU", f"tf_Compute/{k}") for k in range(max(lane) + 1))
    return Events(
        lanes, labels, np.array(lane, np.int32), np.array(name, np.int32), np.array(begin, np.int64),
        np.array(end, np.int64), stats or {},
    )  # fmt: skip


__all__ = ["CPU", "events", "join_nodes", "loop", "names", "node", "runs", "send", "slow_longest"]
