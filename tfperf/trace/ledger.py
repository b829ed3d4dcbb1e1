"""Functions traced and programs compiled while a profile was recorded."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tfperf.trace.idle import compiled, traced
from tfperf.trace.intervals import union
from tfperf.trace.notes import Traced
from tfperf.trace.planes import Events

CLUSTER = re.compile(r"(?:a_|cluster_)?_*inference_(?P<name>.+?)_\d+(?:__Xla.*)?")
BUILDING = "tf.function-graph_building"
NOT_SAID = "not recorded"


@dataclass(frozen=True)
class Entry:
    """One trace of a function or compilation of a program, with seconds, and its cause where that was recorded."""

    kind: Literal["trace", "compilation"]
    function: str
    seconds: float
    cause: str


def read_ledger(events: Events, causes: Sequence[Traced]) -> tuple[Entry, ...]:
    """The ledger of a profile; `causes`: what the capture saw of functions, in order."""
    left = list(causes)
    out = []
    rows = traced(events)
    for row in rows[np.argsort(events.begin[rows], kind="stable")].tolist():
        name = events.names[events.name[row]]
        mine = next((one for one in left if one.function == name), None)
        if mine is not None:
            left.remove(mine)
        out.append(Entry("trace", name, _building(events, row), mine.cause if mine else NOT_SAID))
    return (*out, *_compilations(events, out))


def _building(events: Events, row: int) -> float:
    """Seconds in which graphs were built inside a call, which runs the function, too."""
    building = np.array([name == BUILDING for name in events.names] or [False])[events.name]
    inside = building & (events.begin >= events.begin[row]) & (events.end <= events.end[row])
    return union(events.begin[inside], events.end[inside]).length / 1e9


def _compilations(events: Events, traces: Sequence[Entry]) -> list[Entry]:
    """Programs in the order in which they were compiled; the cause is that of the trace that each comes from."""
    said = dict(zip(*_names(events), strict=True))
    by_module: dict[str, list[int]] = {}
    for row in compiled(events).tolist():
        if row in said:
            by_module.setdefault(said[row], []).append(row)
    causes = {entry.function: [e.cause for e in traces if e.function == entry.function] for entry in traces}
    out = []
    for module, rows in sorted(by_module.items(), key=lambda item: int(events.begin[item[1]].min())):
        found = CLUSTER.match(module)
        function = found["name"] if found else module
        length = union(events.begin[rows], events.end[rows]).length
        left = causes.get(function)
        out.append(Entry("compilation", function, length / 1e9, left.pop(0) if left else NOT_SAID))
    return out


def _names(events: Events) -> tuple[list[int], tuple[Any, ...]]:
    rows, values = events.stats.get("name", (np.zeros(0, np.int64), ()))
    return rows.tolist(), values
