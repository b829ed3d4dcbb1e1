"""Chains of runs: the longest one, and the one by which a moment was reached, with what delayed it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tfperf.arrays import Indices, Times
from tfperf.trace.runs import Dependencies, OperationRuns

NOBODY = -1


@dataclass(frozen=True)
class Chain:
    """Runs one after the other, with the time that each takes in it, in ns; `length`: of all together."""

    runs: Indices
    times: Times
    length: int


class PathSegment(NamedTuple):
    """[begin, end) in ns on the way to a moment.

    run: what ran, where `delay` is empty; else what was to run, and `queue`: its thread or stream ran others first,
    `runtime`: that ran nothing, `start`: nothing in the call came before, `end`: the call was to end after it; or
    `inside`: what had begun, but nothing of it went on.
    """

    begin: int
    end: int
    run: int
    delay: str = ""


def find_longest_chains(runs: OperationRuns, dependencies: Dependencies) -> list[Chain]:
    """The longest chain of each call, by the durations of its runs alone; what two do at the same time counts once."""
    start, before = dependencies.start.tolist(), dependencies.before.tolist()
    begins, ends = runs.begin.tolist(), runs.end.tolist()
    length, back = [0] * len(runs), [NOBODY] * len(runs)
    for i, begin in enumerate(begins):
        most, best = 0, NOBODY
        for other in before[start[i] : start[i + 1]]:
            so_far = length[other] - max(0, ends[other] - begin)
            if so_far > most:
                most, best = so_far, other
        length[i], back[i] = most + ends[i] - begin, best
    reach = np.array(length, np.int64)
    out = []
    for call in np.unique(runs.call):
        mine = np.flatnonzero(runs.call == call)
        at = int(mine[reach[mine].argmax()])
        total, chain = int(reach[at]), []
        while at != NOBODY:
            chain.append(at)
            at = back[at]
        out.append(_make_chain(runs, np.array(chain[::-1], np.intp), total))
    return out


def _make_chain(runs: OperationRuns, rows: Indices, length: int) -> Chain:
    ends = runs.end[rows]
    ends[:-1] = np.minimum(ends[:-1], runs.begin[rows[1:]])
    return Chain(rows, ends - runs.begin[rows], length)


class WaitPaths:
    """How runs were reached: from each back to the one that ended last of those that it waited for."""

    def __init__(self, runs: OperationRuns, dependencies: Dependencies, begins: Times) -> None:
        """begins: of calls, in ns."""
        self.begin, self.end, self.call = runs.begin.tolist(), runs.end.tolist(), runs.call.tolist()
        self.last = find_last_before(runs, dependencies).tolist()
        self.free, self.begins = _compute_free_times(runs).tolist(), begins.tolist()

    def walk_back(self, run: int, since: int) -> Iterator[PathSegment]:
        """Segments of the time from `since` to the begin of a run, the latest first; they leave nothing out."""
        while self.begin[run] > since:
            other = self.last[run]
            if other == NOBODY:
                first = max(since, self.begins[self.call[run]])
                if first < self.begin[run]:
                    yield PathSegment(first, self.begin[run], run, "start")
                return
            ended = min(self.end[other], self.begin[run])
            yield from self._list_delays(run, max(since, ended))
            if ended <= since:
                return
            if self.begin[other] < ended:
                yield PathSegment(max(since, self.begin[other]), ended, other)
            run = other

    def _list_delays(self, run: int, ready: int) -> Iterator[PathSegment]:
        """From when a run could have begun to its begin."""
        begin, free = self.begin[run], min(max(self.free[run], ready), self.begin[run])
        if free < begin:
            yield PathSegment(free, begin, run, "runtime")
        if ready < free:
            yield PathSegment(ready, free, run, "queue")


def find_last_before(runs: OperationRuns, dependencies: Dependencies) -> Indices:
    """Of each run the last to end of those that it waited for (r), -1: there is none."""
    out = np.full(len(runs), NOBODY, np.intp)
    counts = np.diff(dependencies.start)
    some = np.flatnonzero(counts)
    if not len(some):
        return out
    ends = runs.end[dependencies.before]
    most = np.repeat(np.maximum.reduceat(ends, dependencies.start[:-1][some]), counts[some])
    hit = np.flatnonzero(ends == most)
    owner = np.repeat(some, counts[some])[hit]
    out[owner] = dependencies.before[hit]
    return out


def _compute_free_times(runs: OperationRuns) -> Times:
    """When all that began before on the thread or stream of each run had left it (r), 0 for the first."""
    out = np.zeros(len(runs), np.int64)
    for lane in np.unique(runs.lane):
        mine = np.flatnonzero(runs.lane == lane)
        out[mine[1:]] = np.maximum.accumulate(runs.left[mine])[:-1]
    return out
