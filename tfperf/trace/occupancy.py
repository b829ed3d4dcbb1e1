"""What a device does all the time of some calls: what runs on it, at once or alone, and what it waits for."""

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from tfperf.trace.chains import NOBODY, Part, Ways
from tfperf.trace.intervals import Intervals, Times, union
from tfperf.trace.runs import Links, Rows, Runs

Together = tuple[int, ...]  # phases that run at once, by number
Name = Callable[[Part], str]  # of what a part of a way is
Found = dict[str, int]  # ns by name


def shared_out(begin: Times, end: Times, phase: Rows, calls: Intervals, phases: int) -> dict[Together, int]:
    """ns in which just these of the phases run, of operations [begin, end) (n) in calls; () stands for none."""
    each = [union(begin[phase == p], end[phase == p]) for p in range(phases)]
    cuts = np.unique(np.concatenate([calls.begin, calls.end, *(t for one in each for t in (one.begin, one.end))]))
    low, inside = cuts[:-1], calls.covers(cuts[:-1])
    mask = np.zeros(len(low), np.int64)
    for p, one in enumerate(each):
        mask |= one.covers(low).astype(np.int64) << p
    lengths = np.bincount(mask[inside], np.diff(cuts)[inside].astype(np.float64), minlength=1)
    codes = np.flatnonzero(lengths).tolist()
    return {tuple(p for p in range(phases) if code >> p & 1): int(lengths[code]) for code in codes}


class Waits:
    """What is waited for, by devices that have nothing running and by calls that are to end."""

    def __init__(self, runs: Runs, links: Links, calls: Intervals) -> None:
        self.runs, self.calls, self.ways = runs, calls, Ways(runs, links, calls.begin)
        self.lasts = [_last_to_end(runs, call) for call in range(len(calls))]

    def course(self, name: Name) -> Found:
        """What the ends of all calls waited for: each from its end back to its begin."""
        found: Found = {}
        for call, (begin, end) in enumerate(zip(self.calls.begin.tolist(), self.calls.end.tolist(), strict=True)):
            for key, time in added_up(_clipped(self._to_the_end(call, begin), end), name).items():
                found[key] = found.get(key, 0) + time
        return found

    def of(self, mine: Rows, busy: Intervals) -> Iterator[Part]:
        """What a device waits for with the runs `mine`, on which something goes on while it is `busy`.

        It waits for what the next of its runs waits for; inside of one of its runs for that one; after the last of a
        call for the end of the call.
        """
        begins = self.runs.begin[mine]
        spans = union(begins, self.runs.end[mine])
        yield from self._inside(mine, spans.without(busy).common(self.calls))
        both = union(np.concatenate([busy.begin, spans.begin]), np.concatenate([busy.end, spans.end]))
        idle = self.calls.without(both)
        following = np.searchsorted(begins, idle.end).tolist()
        for since, until, at in zip(idle.begin.tolist(), idle.end.tolist(), following, strict=True):
            call = int(np.searchsorted(self.calls.begin, since, "right")) - 1
            some = at < len(mine) and self.runs.call[mine[at]] == call
            parts = self.ways.back(int(mine[at]), since) if some else self._to_the_end(call, since)
            yield from _clipped(parts, until)

    def _inside(self, mine: Rows, idle: Intervals) -> list[Part]:
        """Idle time in runs that go on by themselves: XLA's programs, and operations that wait for others."""
        if not len(idle):
            return []
        ends = self.runs.end[mine]
        latest = np.maximum.accumulate(np.where(ends == np.maximum.accumulate(ends), np.arange(len(mine)), 0))
        at = latest[np.searchsorted(self.runs.begin[mine], idle.begin, "right") - 1]
        rows = zip(idle.begin.tolist(), idle.end.tolist(), mine[at].tolist(), strict=True)
        return [Part(begin, end, run, "inside") for begin, end, run in rows]

    def _to_the_end(self, call: int, since: int) -> Iterator[Part]:
        """What the end of a call waits for, from `since` on."""
        last, until = self.lasts[call], int(self.calls.end[call])
        if last == NOBODY:
            yield Part(since, until, NOBODY, "end")
            return
        ended = max(int(self.runs.end[last]), since)
        if ended < until:
            yield Part(ended, until, last, "end")
        if ended > since:
            yield Part(max(int(self.runs.begin[last]), since), ended, last)
            yield from self.ways.back(last, since)


def _clipped(parts: Iterable[Part], until: int) -> Iterator[Part]:
    """What of them lies before a moment."""
    for part in parts:
        if part.begin < until:
            yield part._replace(end=min(part.end, until))


def _last_to_end(runs: Runs, call: int) -> int:
    mine = np.flatnonzero(runs.call == call)
    return int(mine[runs.end[mine].argmax()]) if len(mine) else NOBODY


def added_up(parts: Iterable[Part], name: Name) -> Found:
    """The time of parts by name."""
    found: Found = {}
    for part in parts:
        key = name(part)
        found[key] = found.get(key, 0) + part.end - part.begin
    return found
