"""What a device does all the time of some calls: what runs on it, at once or alone, and what it waits for."""

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from tfperf.arrays import Indices, Times
from tfperf.trace.chains import NOBODY, PathSegment, WaitPaths
from tfperf.trace.intervals import Intervals, merge_intervals, sort_distinct
from tfperf.trace.runs import Dependencies, OperationRuns

PhaseSet = tuple[int, ...]  # phases that run at once, by number
Labeller = Callable[[PathSegment], str]  # of what a segment is
Totals = dict[str, int]  # ns by name


def split_by_phases(begin: Times, end: Times, phase: Indices, calls: Intervals, phases: int) -> dict[PhaseSet, int]:
    """ns in which just these of the phases run, of operations [begin, end) (n) in calls; () stands for none."""
    each = [merge_intervals(begin[phase == p], end[phase == p]) for p in range(phases)]
    cuts = sort_distinct(calls.begin, calls.end, *(t for one in each for t in (one.begin, one.end)))
    low, inside = cuts[:-1], calls.contains(cuts[:-1])
    mask = np.zeros(len(low), np.int64)
    for p, one in enumerate(each):
        mask |= one.contains(low).astype(np.int64) << p
    lengths = np.bincount(mask[inside], np.diff(cuts)[inside].astype(np.float64), minlength=1)
    codes = np.flatnonzero(lengths).tolist()
    return {tuple(p for p in range(phases) if code >> p & 1): int(lengths[code]) for code in codes}


class Waits:
    """What is waited for, by devices that have nothing running and by calls that are to end."""

    def __init__(self, runs: OperationRuns, dependencies: Dependencies, calls: Intervals) -> None:
        self.runs, self.calls, self.paths = runs, calls, WaitPaths(runs, dependencies, calls.begin)
        self.lasts = [_find_last(runs, call) for call in range(len(calls))]

    def sum_waits(self, label: Labeller) -> Totals:
        """What the ends of all calls waited for: each from its end back to its begin."""
        found: Totals = {}
        for call, (begin, end) in enumerate(zip(self.calls.begin.tolist(), self.calls.end.tolist(), strict=True)):
            for key, time in sum_by_name(_clip_segments(self._walk_from_end(call, begin), end), label).items():
                found[key] = found.get(key, 0) + time
        return found

    def list_waits(self, rows: Indices, busy: Intervals) -> Iterator[PathSegment]:
        """What a device waits for with the runs `rows`, on which something goes on while it is `busy`.

        It waits for what the next of its runs waits for; inside of one of its runs for that one; after the last of a
        call for the end of the call.
        """
        begins = self.runs.begin[rows]
        spans = merge_intervals(begins, self.runs.end[rows])
        yield from self._list_inside(rows, spans.subtract(busy).intersect(self.calls))
        both = merge_intervals(np.concatenate([busy.begin, spans.begin]), np.concatenate([busy.end, spans.end]))
        idle = self.calls.subtract(both)
        following = np.searchsorted(begins, idle.end).tolist()
        for since, until, at in zip(idle.begin.tolist(), idle.end.tolist(), following, strict=True):
            call = int(np.searchsorted(self.calls.begin, since, "right")) - 1
            some = at < len(rows) and self.runs.call[rows[at]] == call
            segments = self.paths.walk_back(int(rows[at]), since) if some else self._walk_from_end(call, since)
            yield from _clip_segments(segments, until)

    def _list_inside(self, mine: Indices, idle: Intervals) -> list[PathSegment]:
        """Idle time in runs that go on by themselves: XLA's programs, and operations that wait for others."""
        if not len(idle):
            return []
        ends = self.runs.end[mine]
        latest = np.maximum.accumulate(np.where(ends == np.maximum.accumulate(ends), np.arange(len(mine)), 0))
        at = latest[np.searchsorted(self.runs.begin[mine], idle.begin, "right") - 1]
        rows = zip(idle.begin.tolist(), idle.end.tolist(), mine[at].tolist(), strict=True)
        return [PathSegment(begin, end, run, "inside") for begin, end, run in rows]

    def _walk_from_end(self, call: int, since: int) -> Iterator[PathSegment]:
        """What the end of a call waits for, from `since` on."""
        last, until = self.lasts[call], int(self.calls.end[call])
        if last == NOBODY:
            yield PathSegment(since, until, NOBODY, "end")
            return
        ended = max(int(self.runs.end[last]), since)
        if ended < until:
            yield PathSegment(ended, until, last, "end")
        if ended > since:
            yield PathSegment(max(int(self.runs.begin[last]), since), ended, last)
            yield from self.paths.walk_back(last, since)


def _clip_segments(segments: Iterable[PathSegment], until: int) -> Iterator[PathSegment]:
    """What of them lies before a moment."""
    for segment in segments:
        if segment.begin < until:
            yield segment._replace(end=min(segment.end, until))


def _find_last(runs: OperationRuns, call: int) -> int:
    mine = np.flatnonzero(runs.call == call)
    return int(mine[runs.end[mine].argmax()]) if len(mine) else NOBODY


def sum_by_name(segments: Iterable[PathSegment], label: Labeller) -> Totals:
    """The time of segments by name."""
    found: Totals = {}
    for segment in segments:
        key = label(segment)
        found[key] = found.get(key, 0) + segment.end - segment.begin
    return found
