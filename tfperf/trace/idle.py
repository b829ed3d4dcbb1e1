"""What happens while no operation runs: between calls, and inside steps."""

import re
from collections.abc import Iterator, Mapping
from typing import Literal, get_args

import numpy as np

from tfperf.arrays import BoolMask, Indices, Int64Array
from tfperf.scopes import PREFIX
from tfperf.trace.intervals import NOTHING, Intervals, merge_intervals
from tfperf.trace.phases import CALLBACK, INPUT, PHASES
from tfperf.trace.planes import CALL, Events
from tfperf.trace.steps import Steps

# in the order in which they are asked: what is being compiled cannot be launched
Cause = Literal["compilation", "validation", "input", "callback", "epoch", "launch", "host"]
CAUSES: tuple[Cause, ...] = get_args(Cause)
COMPILER = re.compile(r"\w+Compiler::\w+|HLO passes.*|tf\.function-graph_building")
INPUT_WAIT = re.compile(r"Iterator::|IteratorGetNext|IteratorResource|next_batch|get_next")
DATASETS, ASKED = "tf_data_", "tf_data_iterator_get_next"  # threads of datasets; of these, those that a step waits for
NAMED = {"validation", "input", "callback", "epoch"}  # trace ranges of the program


def is_dataset_thread(line: str) -> bool:
    """Whether a thread is a dataset's own, which prepares what is asked for later."""
    return line.startswith(DATASETS) and not line.startswith(ASKED)


def find_traces(events: Events) -> Int64Array:
    """Rows of the calls in which a function was traced."""
    rows, values = events.stats.get(CALL, (np.zeros(0, np.int64), ()))
    found: Int64Array = rows[np.array([str(value).startswith("traced") for value in values], bool)]
    return found


def find_compilations(events: Events) -> Int64Array:
    """Rows of a compiler's work."""
    return _find_rows(events, COMPILER)


def list_ranges(events: Events) -> Iterator[tuple[str, Int64Array]]:
    """Trace ranges by which the program names what it does: name, rows."""
    for number, name in enumerate(events.names):
        if name.startswith(PREFIX):
            yield name.removeprefix(PREFIX), np.flatnonzero(events.name == number)


def split_idle_time(events: Events, steps: Steps, free: Intervals) -> dict[Cause, int]:
    """Why time in `free`, during which no operation runs, is lost: ns by cause; what none explains is the host's.

    `launch`: inside a call, in which the runtime gets its operations going.
    """
    inputs = _find_rows(events, INPUT_WAIT, INPUT)
    known: dict[Cause, Intervals] = {
        "compilation": merge_events(events, find_compilations(events)),
        "launch": merge_intervals(steps.call_begin, steps.call_end),
        "input": merge_events(events, inputs), "callback": merge_events(events, _find_rows(events, CALLBACK)),
    }  # fmt: skip
    for name, rows in list_ranges(events):
        cause = next((c for c in CAUSES if c == name and c in NAMED), None)
        if cause is not None:
            known[cause] = merge_events(events, np.concatenate([rows, inputs]) if cause == "input" else rows)
    found: dict[Cause, int] = dict.fromkeys(CAUSES, 0)
    for cause in CAUSES[:-1]:
        hit = free.intersect(known.get(cause, NOTHING))
        found[cause], free = hit.length, free.subtract(hit)
    return found | {"host": free.length}


def find_outer_phases(events: Events) -> Indices:
    """The phase that the program says it is in when an event begins (n): an index into PHASES, -1 where it says none.

    The shortest of the ranges that an event lies in counts.
    """
    found = [(name, row) for name, rows in list_ranges(events) for row in rows.tolist() if name in PHASES]
    inside = np.full(len(events), -1, np.intp)
    if not found:
        return inside
    order = np.argsort(events.begin, kind="stable")
    begins = events.begin[order]
    for name, row in sorted(found, key=lambda pair: events.begin[pair[1]] - events.end[pair[1]]):
        low, high = np.searchsorted(begins, (events.begin[row], events.end[row]))
        inside[order[low:high]] = PHASES.index(name)
    return inside


def _find_rows(events: Events, *patterns: re.Pattern[str]) -> Int64Array:
    which = np.array([any(p.match(name) for p in patterns) for name in events.names], bool)
    lanes = np.array([not (lane.accelerator or is_dataset_thread(lane.line)) for lane in events.lanes], bool)
    return np.flatnonzero(which[events.name] & lanes[events.lane])


def merge_events(events: Events, which: Int64Array | BoolMask) -> Intervals:
    """When at least one of these events runs; which: their rows, or whether it is one of them (n)."""
    return merge_intervals(events.begin[which], events.end[which])


def average_causes(found: Mapping[Cause, int], count: int) -> dict[str, float]:
    """ms of each cause per gap, or per step."""
    return {cause: ns / 1e6 / max(count, 1) for cause, ns in found.items()}
