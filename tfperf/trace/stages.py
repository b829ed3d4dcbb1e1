"""Stages of tf.data pipelines, by what each does itself."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tfperf.arrays import BoolMask, Int64Array, Times
from tfperf.trace.host_events import is_dataset_thread, merge_events
from tfperf.trace.intervals import NOTHING, Intervals, merge_intervals
from tfperf.trace.operations import GRAPH
from tfperf.trace.planes import Events

STAGE = "Iterator::"
STRATEGY = "Prefetch::Generator"  # in which a strategy asks for its devices' batches; a program's is in a FlatMap
FUNCTION = "ExecutorState::Process"  # on a dataset's threads: a function that a stage calls
NUMBER = re.compile(r"\[\d+\]")
# stages whose functions run in threads that do not name them
CALLERS = frozenset(["ParallelMapV2", "MapAndBatch", "ParallelFilter"])
# stages that work ahead in threads of their own: who asks them for an element waits, and does nothing
AHEAD = frozenset([
    "Prefetch", "ParallelMapV2", "ParallelInterleaveV4", "ParallelInterleaveV3", "ParallelInterleaveV2",
    "ParallelBatch", "MapAndBatch", "ParallelFilter", "Root", "MaxIntraOpParallelism", "PrivateThreadPool", "ModelV2",
    "Model",
])  # fmt: skip


@dataclass(frozen=True)
class DatasetStage:
    """A stage, with those around it, and the ms a step that it takes itself, not what it waits for other stages."""

    name: str
    ms: float


def sum_stages(events: Events, steps: int) -> tuple[DatasetStage, ...]:
    """The stages that ran, the longest first; waits of what asks another thread are left out.

    What functions take that run in threads of their own counts for the stages that call such, together where there are
    several.
    """
    times: dict[str, int] = {}
    for name, begin, end in list_stage_times(events):
        plain = NUMBER.sub("", name)
        times[plain] = times.get(plain, 0) + int((end - begin).sum())
    callers = dict.fromkeys(
        NUMBER.sub("", name.partition("#")[0]).removeprefix(f"{STAGE}Root::") for name in events.names
        if name.startswith(STAGE) and NUMBER.sub("", name.partition("#")[0]).rpartition("::")[2] in CALLERS
    )  # fmt: skip
    if callers and (alone := _sum_functions(events)):
        name = " or ".join(callers)
        times[name] = times.get(name, 0) + alone
    found = (DatasetStage(name, ns / 1e6 / steps) for name, ns in times.items())
    return tuple(sorted(found, key=lambda one: -one.ms))


def _sum_functions(events: Events) -> int:
    """ns in which functions run on datasets' threads, beside what stages do themselves, summed over the threads."""
    ahead = np.array([is_dataset_thread(lane.line) for lane in events.lanes] or [False])[events.lane]
    called = np.array([name == FUNCTION for name in events.names] or [False])[events.name]
    stage, total = _match_stages(events), 0
    for lane in np.unique(events.lane[ahead & called]).tolist():
        here = events.lane == lane
        total += merge_events(events, here & called).subtract(merge_events(events, here & stage)).length
    return total


def find_busy(events: Events) -> Intervals:
    """When threads of datasets do something: a stage itself, or a function that one calls."""
    busy = merge_events(events, _match_functions(events))
    for _, begin, end in list_stage_times(events):
        busy = busy.add(merge_intervals(begin, end))
    return busy


def count_busy_threads(events: Events) -> float:
    """Threads of datasets that do something at once, while any does: on average."""
    called, stage = _match_functions(events), _match_stages(events)
    every, total = NOTHING, 0
    for number, lane in enumerate(events.lanes):
        if is_dataset_thread(lane.line):
            here = events.lane == number
            mine = merge_events(events, called & here)
            for _, begin, end in _list_working(events, np.flatnonzero(stage & here)):
                mine = mine.add(merge_intervals(begin, end))
            every, total = every.add(mine), total + mine.length
    return total / max(every.length, 1)


def _match_functions(events: Events) -> BoolMask:
    """Functions that stages call, on datasets' threads (n)."""
    ahead = np.array([is_dataset_thread(lane.line) for lane in events.lanes] or [False])[events.lane]
    called = np.array([name == FUNCTION or bool(GRAPH.fullmatch(name)) for name in events.names] or [False])
    found: BoolMask = ahead & called[events.name]
    return found


def _match_stages(events: Events) -> BoolMask:
    found: BoolMask = np.array([name.startswith(STAGE) for name in events.names] or [False])[events.name]
    return found


def list_stage_times(events: Events) -> Iterator[tuple[str, Times, Times]]:
    """When each stage does something itself, on whatever thread: name, begins and ends in ns, by thread."""
    stage = _match_stages(events)
    times: dict[str, list[tuple[Times, Times]]] = {}
    for lane in np.unique(events.lane[stage]).tolist():
        for name, begin, end in _list_working(events, np.flatnonzero(stage & (events.lane == lane))):
            times.setdefault(name, []).append((begin, end))
    for name, mine in times.items():
        begins, ends = (np.concatenate(ones) for ones in zip(*mine, strict=True))
        yield name.removeprefix(f"{STAGE}Root::"), begins, ends


def _list_working(events: Events, rows: Int64Array) -> Iterator[tuple[str, Times, Times]]:
    """Of one thread's events what each stage does itself: name, begins and ends; who asks another thread waits."""
    times: dict[str, list[tuple[int, int]]] = {}
    for number, begin, end in _list_own_times(events, rows):
        times.setdefault(events.names[number].partition("#")[0], []).append((begin, end))
    for name, mine in times.items():
        if name.rpartition("::")[2].partition("[")[0] not in AHEAD and not name.endswith(STRATEGY):
            begins, ends = np.array(mine, np.int64).T
            yield name, begins, ends


def _list_own_times(events: Events, rows: Int64Array) -> Iterator[tuple[int, int, int]]:
    """Of events of one thread: name, begin and end of what of each lies in none of those inside of it, ns."""
    rows = rows[np.lexsort((-events.end[rows], events.begin[rows]))]
    open_rows: list[tuple[int, int]] = []  # name, end
    columns = (events.name[rows].tolist(), events.begin[rows].tolist(), events.end[rows].tolist())
    at = 0
    for name, begin, end in [*zip(*columns, strict=True), (-1, np.iinfo(np.int64).max, 0)]:
        while open_rows and open_rows[-1][1] <= begin:
            number, stop = open_rows.pop()
            if stop > at:
                yield number, at, stop
            at = max(at, stop)
        if open_rows and begin > at:
            yield open_rows[-1][0], at, begin
        at = max(at, begin)
        open_rows.append((name, end))
