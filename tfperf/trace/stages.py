"""Stages of tf.data pipelines, by what each does itself."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tfperf.arrays import Int64Array
from tfperf.trace.planes import Events

STAGE = "Iterator::"
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
    """The stages that ran, the longest first; waits of what asks another thread are left out."""
    stage = np.array([name.startswith(STAGE) for name in events.names] or [False])[events.name]
    sums: dict[str, int] = {}
    for lane in np.unique(events.lane[stage]).tolist():
        for name, ns in _list_own_times(events, np.flatnonzero(stage & (events.lane == lane))):
            last = name.rpartition("::")[2].partition("[")[0].partition("#")[0]
            if last not in AHEAD:
                sums[name] = sums.get(name, 0) + ns
    found = [DatasetStage(name.removeprefix(f"{STAGE}Root::"), ns / 1e6 / steps) for name, ns in sums.items()]
    return tuple(sorted(found, key=lambda one: -one.ms))


def _list_own_times(events: Events, rows: Int64Array) -> Iterator[tuple[str, int]]:
    """Of events of one thread: what of each is in none of those inside of it, ns."""
    rows = rows[np.lexsort((-events.end[rows], events.begin[rows]))]
    open_rows: list[list[int]] = []  # name, end, own ns
    columns = (events.name[rows].tolist(), events.begin[rows].tolist(), events.end[rows].tolist())
    for name, begin, end in zip(*columns, strict=True):
        while open_rows and open_rows[-1][1] <= begin:
            done = open_rows.pop()
            yield events.names[done[0]].partition("#")[0], done[2]
        if open_rows:
            open_rows[-1][2] -= end - begin
        open_rows.append([name, end, end - begin])
    for done in open_rows:
        yield events.names[done[0]].partition("#")[0], done[2]
