"""Functions traced and programs compiled while a profile was recorded."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tfperf.arrays import Int64Array, Times
from tfperf.trace.host_events import find_compilations, find_traces
from tfperf.trace.intervals import merge_intervals
from tfperf.trace.notes import FIRST_CALL, MADE_ANEW, FunctionTrace
from tfperf.trace.planes import CALL, Events

# what XLA calls the program of a function's graph, which has a number that no other graph of the process has
CLUSTER = re.compile(r"(?:a_|cluster_)?_*inference_(?P<name>.+?)_(?P<graph>\d+)(?:__.*|\.\d+)?")
NO_STATS: tuple[Int64Array, tuple[Any, ...]] = (np.zeros(0, np.int64), ())
BUILDING = "tf.function-graph_building"
NOT_SAID = "not recorded"
OLD_GRAPH = "its graph is older: its arguments' shapes are new, or this is its first call"
SAME_GRAPH = "the same graph for other shapes of its arguments, or other values that shapes come from"


@dataclass(frozen=True)
class Entry:
    """One trace of a function or compilation of a program, with seconds, and its cause where that was recorded."""

    kind: Literal["trace", "compilation"]
    function: str
    seconds: float
    cause: str


def make_ledger(events: Events, causes: Sequence[FunctionTrace], watched: bool = False) -> tuple[Entry, ...]:
    """The ledger of a profile; `causes`: what the capture saw of functions, in order.

    It may have seen earlier traces of a function, too: the last ones are those of the profile. watched: whether it
    looked: traces of which it saw nothing are of functions that were gone by then, and, where they repeat, made anew;
    so are those of functions that were never called a second time.
    """
    left = list(causes)
    out = []
    rows = find_traces(events)
    counts = Counter(events.names[number] for number in events.name[rows].tolist())
    known = Counter(one.function for one in causes)
    calls = Counter(events.names[number] for number in events.name[events.stats.get(CALL, NO_STATS)[0]].tolist())
    again = {one.function for one in causes if one.cause not in (FIRST_CALL, MADE_ANEW)}  # called before
    once = {name for name, count in counts.items() if watched and count > 1 and count == calls[name]} - again
    anew = once | {name for name, count in counts.items() if watched and count > max(known[name], 1)}
    for name, count in counts.items():
        told = [one for one in left if one.function == name]
        for one in told[: max(len(told) - count, 0)]:
            left.remove(one)
    for row in rows[np.argsort(events.begin[rows], kind="stable")].tolist():
        name = events.names[events.name[row]]
        mine = next((one for one in left if one.function == name), None)
        if mine is not None:
            left.remove(mine)
        cause = mine.cause if mine else NOT_SAID
        cause = MADE_ANEW if name in anew and cause in (FIRST_CALL, NOT_SAID) else cause
        out.append(Entry("trace", name, _sum_build_seconds(events, row), cause))
    return (*out, *_list_compilations(events, out))


def _sum_build_seconds(events: Events, row: int) -> float:
    """Seconds in which graphs were built inside a call, which runs the function, too."""
    building = np.array([name == BUILDING for name in events.names] or [False])[events.name]
    inside = building & (events.begin >= events.begin[row]) & (events.end <= events.end[row])
    return merge_intervals(events.begin[inside], events.end[inside]).length / 1e9


def _list_compilations(events: Events, traces: Sequence[Entry]) -> list[Entry]:
    """Programs in the order in which they were compiled; the cause is that of the trace that each comes from.

    A graph is compiled again for other shapes alone, or other values that XLA has to know.
    """
    calls = _list_outer_calls(events)
    each = [
        (module, rows[which == number])
        for module, rows in name_compilations(events)
        for which in [np.searchsorted(calls, events.begin[rows], "right")]  # the call that each is in, or after
        for number in np.unique(which).tolist()
    ]
    causes = {entry.function: [e.cause for e in traces if e.function == entry.function] for entry in traces}
    out = []
    times = Counter(found["graph"] for module, _ in each if (found := CLUSTER.fullmatch(module)))
    for module, rows in sorted(each, key=lambda item: int(events.begin[item[1]].min())):
        function, graph = get_function(module), CLUSTER.fullmatch(module)
        length = merge_intervals(events.begin[rows], events.end[rows]).length
        left = causes.get(function)
        plain = OLD_GRAPH if graph and not traces else NOT_SAID
        plain = SAME_GRAPH if graph and times[graph["graph"]] > 1 else plain
        out.append(Entry("compilation", function, length / 1e9, left.pop(0) if left else plain))
    return out


def _list_outer_calls(events: Events) -> Times:
    """When functions are called by the thread that is longest in such calls; those inside of others are left out."""
    rows = events.stats.get(CALL, NO_STATS)[0]
    if not len(rows):
        return np.zeros(0, np.int64)
    longest = np.bincount(events.lane[rows], (events.end - events.begin)[rows]).argmax()
    mine = rows[events.lane[rows] == longest]
    return merge_intervals(events.begin[mine], events.end[mine]).begin


def name_compilations(events: Events) -> Iterator[tuple[str, Int64Array]]:
    """The compiler's work by the program that it is for: its name, rows."""
    said = dict(zip(*_get_module_names(events), strict=True))
    by_module: dict[str, list[int]] = {}
    for row in find_compilations(events).tolist():
        if row in said:
            by_module.setdefault(said[row], []).append(row)
    yield from ((module, np.array(rows)) for module, rows in by_module.items())


def get_function(module: str) -> str:
    """The function that a compiled program comes from, by the program's name; where it says none, that name."""
    found = CLUSTER.fullmatch(module)
    return found["name"] if found else module


def _get_module_names(events: Events) -> tuple[list[int], tuple[Any, ...]]:
    rows, values = events.stats.get("name", NO_STATS)
    return rows.tolist(), values
