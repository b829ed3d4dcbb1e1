"""A profile split into calls, by their marks, and into the steps of a compiled call: repeats of a loop's body."""

from dataclasses import dataclass

import numpy as np

from tfperf.arrays import BoolMask, Indices, Int64Array, Times
from tfperf.errors import TraceError
from tfperf.trace.planes import CALL, MARK, Events

SHARE = 0.5  # of the time of a call's operations that has to be in a training loop
MOST = 0.9  # the same where no operation is known to update weights


@dataclass(frozen=True)
class Steps:
    """m calls [begin, end) and n steps [begin, end) in ns; `call` (n): the call that a step belongs to.

    A step begins with its first operation and ends where the next begins, the last of a call with its last operation.
    What a call does before and after its loop lies between the steps. `marks`: what tells where a call begins.
    `lane`: the thread of the calls.
    """

    call_begin: Times
    call_end: Times
    begin: Times
    end: Times
    call: Indices
    marks: str
    lane: int

    def __len__(self) -> int:
        return len(self.begin)

    @property
    def spans(self) -> tuple[Times, Times]:
        """First step's begin and last step's end of each call that has steps."""
        _, first = np.unique(self.call, return_index=True)
        last = np.append(first[1:], len(self)) - 1
        return self.begin[first], self.end[last]


@dataclass(frozen=True)
class EventKinds:
    """What the n events are: `kind`, a number for each operation on each device, -1: none.

    looped: of a loop, if they repeat; updates: they change weights; typical: the median duration of their kind, ns,
    which says what takes the time of a call even where one event was held up for longer than all others take.
    """

    kind: Indices
    looped: BoolMask
    updates: BoolMask
    typical: Int64Array


def find_steps(events: Events, kinds: EventKinds, loops: int, turns: int | None, late: bool) -> Steps:
    """The calls and steps of a profile.

    loops: how many of them run side by side in a call; their turns with the same number are one step. turns: steps in a
    call; None: a call is split into the turns of its training loop, where it has one. late: a program may go on before
    its accelerators are done; what they begin before the next call then belongs to the call. On a processor a call of
    functions whose operations are all too short to be recorded is a step as a whole.
    Raises: TraceError where nothing tells calls apart, or no operation and no call of a function lies in one.
    """
    calls, marks = _find_calls(events)
    begins, ends = events.begin[calls], events.end[calls]
    until = np.maximum(ends, np.append(begins[1:], np.iinfo(np.int64).max)) if late else ends
    mine = np.flatnonzero(kinds.kind >= 0)
    mine = mine[np.argsort(events.begin[mine], kind="stable")]
    device = np.array([lane.accelerator for lane in events.lanes], bool)[events.lane]
    hidden = _find_called(events, begins, ends) & (not device.any())
    starts, stops, owners = [], [], []
    for call, (begin, end, last) in enumerate(zip(begins, ends, until, strict=True)):
        inside = mine[slice(*np.searchsorted(events.begin[mine], (begin, last)))]
        inside = inside[device[inside] | (events.begin[inside] < end)]
        if not len(inside) and not hidden[call]:
            continue
        if not len(inside):
            cuts = begin + (end - begin) * np.arange((turns or 1) + 1) // (turns or 1)
            starts.append(cuts[:-1])
            stops.append(cuts[1:])
            owners.append(np.full(turns or 1, call))
            continue
        found, stop = _find_turns(events, kinds, inside, loops, turns)
        starts.append(found)
        stops.append(np.append(found[1:], stop))
        owners.append(np.full(len(found), call))
    if not starts:
        raise TraceError("no operation lies in a step of the profile: did it end too early, or record marks alone?")
    first, past = np.concatenate(starts), np.concatenate(stops)
    past[:-1] = np.minimum(past[:-1], first[1:])  # the next step has begun: what still runs overlaps it
    return Steps(begins, ends, first, past, np.concatenate(owners), marks, int(events.lane[calls[0]]))


def _find_calls(events: Events) -> tuple[Int64Array, str]:
    """Rows of the calls in order, those of one name on one host that take most of the time.

    Marked ones, else those of compiled functions.
    """
    for stat, said in ((MARK, "marks of steps"), (CALL, "calls of {}, for no step is marked")):
        rows, _ = events.stats.get(stat, (np.zeros(0, np.int64), ()))
        if not len(rows):
            continue
        hosts = np.unique([lane.host for lane in events.lanes], return_inverse=True)[1][events.lane[rows]]
        # of each host each name
        calls, number = np.unique([hosts, events.name[rows]], axis=1, return_inverse=True)
        longest = np.bincount(number.ravel(), (events.end - events.begin)[rows]).argmax()
        rows = rows[number.ravel() == longest]
        rows = rows[np.argsort(events.begin[rows], kind="stable")]
        inner = np.append(False, events.begin[rows][1:] < np.maximum.accumulate(events.end[rows])[:-1])
        return rows[~inner], said.format(events.names[calls[1, longest]])
    raise TraceError(f"nothing tells where a step begins: no event has {MARK}, and no compiled function runs")


def _find_called(events: Events, begins: Times, ends: Times) -> BoolMask:
    """In which calls, from begin to end, a compiled function is called."""
    times = np.sort(events.begin[events.stats.get(CALL, (np.zeros(0, np.int64), ()))[0]])
    found: BoolMask = np.searchsorted(times, ends) > np.searchsorted(times, begins)
    return found


def _find_turns(
    events: Events, kinds: EventKinds, inside: Int64Array, loops: int, turns: int | None
) -> tuple[Times, int]:  # fmt: skip
    """When the steps of a call begin and the last ends, by its operations `inside` in order.

    Most operations of a training loop run once a turn: the number of events of a kind in which most time is spent is
    that of the turns. A turn begins with the kind that comes first. Other loops, of a layer over time for one, change
    no weights. Of a number of turns that is known but not seen, as where a call goes on with another function, each
    takes the same share.
    """
    begins, ends = events.begin[inside], events.end[inside]
    kind, looped, typical = kinds.kind[inside], kinds.looped[inside], kinds.typical[inside]
    count = turns or 1
    whole = begins[0] + (ends.max() - begins[0]) * np.arange(count) // count, int(ends.max())
    if turns == 1 or not looped.any():
        return whole
    numbers, first, where, counts = np.unique(kind[looped], return_index=True, return_inverse=True, return_counts=True)
    time = np.bincount(where, typical[looped])
    found = turns * loops if turns is not None else int(np.bincount(counts, time).argmax())
    regular = counts == found
    if found < 2 or not regular.any():
        return whole
    share = time[regular].sum() / max(typical.sum(), 1)
    if turns is None and not _is_training_loop(share, numbers[regular], kind[kinds.updates[inside]]):
        return whole
    anchor = numbers[regular][first[regular].argmin()]
    last = int(ends[looped & np.isin(kind, numbers[regular])].max())
    return begins[looped & (kind == anchor)][::loops], last


def _is_training_loop(share: float, repeated: Indices, updates: Indices) -> bool:
    """share: of the time of a call's operations in `repeated` kinds; updates: the call's kinds that change weights."""
    if not len(updates):
        return share >= MOST
    return share >= SHARE and bool(np.isin(updates, repeated).any())
