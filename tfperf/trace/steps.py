"""A profile split into calls, by their marks, and into the steps of a compiled call: repeats of a loop's body."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tfperf.trace.intervals import Times
from tfperf.trace.planes import CALL, MARK, Events, TraceError

SHARE = 0.5  # of the time of a call's operations that has to be in a loop


@dataclass(frozen=True)
class Steps:
    """m calls [begin, end) and n steps [begin, end) in ns; `call` (n): the call that a step belongs to.

    A step begins with its first operation and ends where the next begins, the last of a call with its last operation.
    What a call does before and after its loop lies between the steps.
    `marks`: what tells where a call begins.
    """

    call_begin: Times
    call_end: Times
    begin: Times
    end: Times
    call: NDArray[np.intp]
    marks: str

    def __len__(self) -> int:
        return len(self.begin)

    @property
    def spans(self) -> tuple[Times, Times]:
        """First operation's begin and last one's end of each call that has steps."""
        _, first = np.unique(self.call, return_index=True)
        last = np.append(first[1:], len(self)) - 1
        return self.begin[first], self.end[last]


def find_steps(
    events: Events, operations: NDArray[np.intp], looped: NDArray[np.bool_], loops: int = 1, late: bool = False
) -> Steps:
    """The calls and steps of a profile; `operations` (n): which one each event is, -1: none; `looped`: those of loops.

    A call without loop is one step. `loops`: how many of them run side by side in a call; their turns with the same
    number are one step. late: a program may go on before its accelerators are done; what they begin before the next
    call then belongs to the call. TraceError where nothing tells calls apart, or no operation lies in one.
    """
    calls, marks = _calls(events)
    begins, ends = events.begin[calls], events.end[calls]
    until = np.maximum(ends, np.append(begins[1:], np.iinfo(np.int64).max)) if late else ends
    mine = np.flatnonzero(operations >= 0)
    mine = mine[np.argsort(events.begin[mine], kind="stable")]
    device = np.array([lane.accelerator for lane in events.lanes], bool)[events.lane]
    starts, stops, owners = [], [], []
    for call, (begin, end, last) in enumerate(zip(begins, ends, until, strict=True)):
        inside = mine[slice(*np.searchsorted(events.begin[mine], (begin, last)))]
        inside = inside[device[inside] | (events.begin[inside] < end)]
        if not len(inside):
            continue
        turns, last = _turns(operations[inside], events.begin[inside], events.end[inside], looped[inside])
        turns = turns[::loops]
        starts.append(turns)
        stops.append(np.append(turns[1:], last))
        owners.append(np.full(len(turns), call))
    if not starts:
        raise TraceError("no operation lies in a step of the profile: did it end too early, or record marks alone?")
    return Steps(begins, ends, np.concatenate(starts), np.concatenate(stops), np.concatenate(owners), marks)


def _calls(events: Events) -> tuple[NDArray[np.int64], str]:
    """Rows of the calls in order: marked ones, else those of the compiled function that takes most of the time."""
    rows, _ = events.stats.get(MARK, (np.zeros(0, np.int64), ()))
    marks = "marks of steps"
    if not len(rows):
        rows, _ = events.stats.get(CALL, (np.zeros(0, np.int64), ()))
        if not len(rows):
            raise TraceError(f"nothing tells where a step begins: no event has {MARK}, and no compiled function runs")
        names, where = np.unique(events.name[rows], return_inverse=True)
        most = np.bincount(where, (events.end - events.begin)[rows]).argmax()
        rows, marks = rows[where == most], f"calls of {events.names[names[most]]}, for no step is marked"
    rows = rows[np.argsort(events.begin[rows], kind="stable")]
    inner = np.append(False, events.begin[rows][1:] < np.maximum.accumulate(events.end[rows])[:-1])
    return rows[~inner], marks


def _turns(names: NDArray[np.intp], begins: Times, ends: Times, looped: NDArray[np.bool_]) -> tuple[Times, int]:
    """When the turns of a call's loop begin and the last ends, by its operations (k) in order.

    Most operations of a loop run once a turn: the number of events of a name in which most time is spent is that of the
    turns. A turn begins with the name that comes first. A call without loop is one turn, with all that it runs.
    """
    whole = begins[:1], int(ends.max())
    if not looped.any():
        return whole
    unique, first, where, counts = np.unique(names[looped], return_index=True, return_inverse=True, return_counts=True)
    time = np.bincount(where, (ends - begins)[looped])
    turns = int(np.bincount(counts, time).argmax())
    regular = counts == turns
    if turns < 2 or time[regular].sum() < SHARE * (ends - begins).sum():
        return whole
    anchor = unique[regular][first[regular].argmin()]
    return begins[names == anchor], int(ends[looped & np.isin(names, unique[regular])].max())
