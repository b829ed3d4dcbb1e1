"""What the host did while steps were recorded, as rows of a timeline: its training thread, and its data pipeline."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from tfperf.arrays import BoolMask, Indices, Int64Array, Times
from tfperf.scopes import CALLBACK, GARBAGE, METHOD
from tfperf.trace.claims import EAGER_OPERATION, Claims
from tfperf.trace.host_events import (
    INPUT_WAIT,
    find_compilations,
    find_rows,
    find_traces,
    is_dataset_thread,
    list_details,
    merge_events,
)
from tfperf.trace.intervals import Intervals
from tfperf.trace.ledger import BUILDING, get_function, name_compilations
from tfperf.trace.planes import CALL, Events
from tfperf.trace.stages import FUNCTION, NUMBER, list_stage_times
from tfperf.trace.steps import Steps

TRAINING, PIPELINE = "training thread", "data pipeline"  # who does what a row shows
SAVE = re.compile(r"(?:EagerLocalExecute: |[^:\s]+:)(SaveV2|MergeV2Checkpoints|SaveSlices)")
MOST_STAGES = 8
Piece = tuple[str, Times, Times]  # name, begins, ends


@dataclass(frozen=True)
class HostRow:
    """What the host did of one sort: disjoint times [begin, end) in order (k) in ns.

    `name` (k): an index into `names`. group: who did it, TRAINING or PIPELINE.
    """

    group: str
    title: str
    begin: Times
    end: Times
    name: Indices
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.begin)


def list_host_rows(events: Events, claims: Claims, steps: Steps) -> tuple[HostRow, ...]:
    """The rows in which anything happens from the first step's begin to the last call's end, ns."""
    span = int(steps.begin[0]), int(max(steps.call_end[-1], steps.end.max()))
    sorts = (
        ("functions called", _list_calls(events, claims)), ("traced and compiled", _list_compilations(events)),
        ("Python lines", _list_lines(claims)), ("operations that Python starts", _list_eager(events, claims)),
        ("Python functions in steps", _list_named(events, claims.python)),
        ("waits for input", _list_named(events, find_rows(events, INPUT_WAIT))),
        ("callbacks", _list_details(events, CALLBACK)), ("methods of Keras", _list_details(events, METHOD)),
        ("validation", _list_known(claims.find("validation"), "validation")),
        ("ends of epochs", _list_known(claims.find("epoch"), "a pass over the data ends, another begins")),
        ("checkpoints", _list_saves(events)), ("garbage collection", _list_details(events, GARBAGE)),
    )  # fmt: skip
    rows = [_make_row(TRAINING, title, pieces, span) for title, pieces in sorts]
    rows.append(_make_row(PIPELINE, "functions of stages", _list_stage_functions(events), span))
    stages = (_make_row(PIPELINE, title, pieces, span) for title, pieces in _list_stages(events))
    longest = sorted(stages, key=lambda row: -int((row.end - row.begin).sum()))[:MOST_STAGES]
    return tuple(row for row in (*rows, *longest) if len(row))


def _make_row(group: str, title: str, pieces: Iterable[Piece], span: tuple[int, int]) -> HostRow:
    """A row of pieces, which may overlap: what lies inside of others is left out."""
    names: dict[str, int] = {}
    columns = [(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64))]
    for one, first, last in pieces:
        columns.append((first, last, np.full(len(first), names.setdefault(one, len(names)))))
    begin, end, name = (np.concatenate(column) for column in zip(*columns, strict=True))
    begin, end = np.clip(begin, *span), np.clip(end, *span)
    order = np.lexsort((-end, begin))
    begin, end, name = begin[order], end[order], name[order]
    begin[1:] = np.maximum(begin[1:], np.maximum.accumulate(end)[:-1])
    some = end > begin
    return HostRow(group, title, begin[some], end[some], name[some], tuple(names))


def _list_named(events: Events, which: Int64Array | BoolMask) -> Iterator[Piece]:
    """Events by their own names."""
    for number in np.unique(events.name[which]).tolist():
        rows = np.flatnonzero(_to_mask(events, which) & (events.name == number))
        yield events.names[number], events.begin[rows], events.end[rows]


def _to_mask(events: Events, which: Int64Array | BoolMask) -> BoolMask:
    mask = np.zeros(len(events), bool)
    mask[which] = True
    return mask


def _list_known(times: Intervals, name: str) -> Iterator[Piece]:
    yield name, times.begin, times.end


def _list_details(events: Events, prefix: str) -> Iterator[Piece]:
    for name, rows in list_details(events, prefix):
        yield name, events.begin[rows], events.end[rows]


def _list_calls(events: Events, claims: Claims) -> Iterator[Piece]:
    """Calls of compiled functions by the training's thread; those that traced say so."""
    rows = events.stats.get(CALL, (np.zeros(0, np.int64), ()))[0]
    calls, traced = _to_mask(events, rows) & claims.main, _to_mask(events, find_traces(events))
    yield from _list_named(events, calls & ~traced)
    yield from ((f"{name} (traced)", begin, end) for name, begin, end in _list_named(events, calls & traced))


def _list_compilations(events: Events) -> Iterator[Piece]:
    """Graphs that are built, by the function that is traced, and what compilers do, by function where that is said."""
    traces = find_traces(events)
    compiler = _to_mask(events, find_compilations(events))
    building = compiler & np.array([name == BUILDING for name in events.names] or [False])[events.name]
    for number in np.unique(events.name[traces]).tolist():
        calls = traces[events.name[traces] == number]
        inside = merge_events(events, calls).contains(events.begin)
        mine = building & inside
        yield f"trace {events.names[number]}", events.begin[mine], events.end[mine]
        building &= ~inside
        compiler &= ~mine
    for module, rows in name_compilations(events):
        yield f"compile {get_function(module)}", events.begin[rows], events.end[rows]
        compiler[rows] = False
    yield from _list_named(events, compiler)


def _list_lines(claims: Claims) -> Iterator[Piece]:
    """Lines at which the thread was found: each look stands for the time to the next; neighbours of a line are one."""
    times, names = claims.sample_times, np.array(claims.sample_names, object)
    if not len(times):
        return
    order = np.argsort(times, kind="stable")
    times, names = times[order], names[order]
    usual = int(np.median(np.diff(times))) if len(times) > 1 else 1
    until = np.append(times[1:], times[-1] + usual)
    first = np.flatnonzero(np.append(True, names[1:] != names[:-1]))
    last = np.append(first[1:], len(times)) - 1
    begin, end, name = times[first], until[last], names[first]
    for one in dict.fromkeys(name.tolist()):
        yield one, begin[name == one], end[name == one]


def _list_eager(events: Events, claims: Claims) -> Iterator[Piece]:
    which = np.array([EAGER_OPERATION.fullmatch(name) is not None for name in events.names] or [False])[events.name]
    for name, begin, end in _list_named(events, which & claims.main):
        yield name.rpartition(" ")[2], begin, end


def _list_saves(events: Events) -> Iterator[Piece]:
    """Operations that write checkpoints; what Python writes by itself is in its lines and callbacks."""
    which = np.array([SAVE.fullmatch(name) is not None for name in events.names] or [False])[events.name]
    yield from _list_named(events, which)


def _list_stage_functions(events: Events) -> Iterator[Piece]:
    lanes = np.array([is_dataset_thread(lane.line) for lane in events.lanes] or [False])[events.lane]
    called = np.array([name == FUNCTION for name in events.names] or [False])[events.name]
    rows = np.flatnonzero(lanes & called)
    yield "a function of a stage runs", events.begin[rows], events.end[rows]


def _list_stages(events: Events) -> Iterator[tuple[str, list[Piece]]]:
    """Stages by their last name, or where several share it by all of it: title, pieces.

    Numbers of inputs and of repetitions are left out: those of a stage are one row.
    """
    stages: dict[str, list[Piece]] = {}
    for name, begin, end in list_stage_times(events):
        plain = NUMBER.sub("", name)
        stages.setdefault(plain, []).append((plain, begin, end))
    short = [name.rpartition("::")[2] for name in stages]
    for title, (name, pieces) in zip(short, stages.items(), strict=True):
        yield title if short.count(title) == 1 else name, pieces
