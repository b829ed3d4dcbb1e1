"""What events of the host tell of a program: what it says itself, and what TensorFlow does for it."""

import re
from collections.abc import Iterator

import numpy as np

from tfperf.arrays import BoolMask, Indices, Int64Array, Times
from tfperf.scopes import PREFIX
from tfperf.trace.intervals import NOTHING, Intervals, merge_intervals
from tfperf.trace.phases import PHASES
from tfperf.trace.planes import CALL, Events

COMPILER = re.compile(r"\w+Compiler::\w+|HLO passes.*|tf\.function-graph_building")
INPUT_WAIT = re.compile(
    r"Iterator::|(EagerLocalExecute: )?IteratorGetNext|IteratorResource|next_batch|get_next|"
    r"EagerLocalExecute: \w*MultiDeviceIterator\w*GetNext\w*|EagerLocalExecute: OptionalFromIterator"
)
# a dataset and its iterator are made, mostly since an epoch begins
SET_UP = re.compile(r"EagerLocalExecute: (MakeIterator|AnonymousIterator\w*|\w*Dataset(V\d)?)")
MADE, FREED = re.compile(r"EagerLocalExecute: MakeIterator"), re.compile("TFE_DeleteTensorHandle")
ENDING_NS, FEW_CALLS = 100_000, 2  # what an iterator takes at least to be ended; calls that one is asked for
FIRST_BATCH = "first batch of an epoch"  # that steps wait for
SOON_NS = 2_000_000  # from the end of what used an iterator to its own
DATASETS, ASKED = "tf_data_", "tf_data_iterator_get_next"  # threads of datasets; of these, those that a step waits for


def is_dataset_thread(line: str) -> bool:
    """Whether a thread is a dataset's own, which prepares what is asked for later."""
    return line.startswith(DATASETS) and not line.startswith(ASKED)


def find_made(events: Events, lane: int) -> Int64Array:
    """Rows in which a thread makes an iterator of a dataset, in order of time."""
    rows = find_rows(events, MADE)
    rows = rows[events.lane[rows] == lane]
    found: Int64Array = rows[np.argsort(events.begin[rows], kind="stable")]
    return found


def find_endings(events: Events, lane: int) -> Intervals:
    """When a thread ends iterators: of what it frees meanwhile the longest.

    That is after each call or two for which it makes one, or between the last call and the next that it makes.
    """
    made = events.begin[find_made(events, lane)]
    if CALL not in events.stats:
        return NOTHING
    freed, calls = find_rows(events, FREED), np.sort(events.begin[events.stats.get(CALL, (np.zeros(0, np.int64),))[0]])
    freed = freed[(events.lane[freed] == lane) & (events.end[freed] - events.begin[freed] >= ENDING_NS)]
    which = np.searchsorted(made, events.begin[freed], "right")  # how many were made before
    asked = np.diff(np.searchsorted(calls, made), prepend=0, append=len(calls))  # calls before each, and after the last
    few = (which > 0) & (which < len(made)) & (asked[which] <= FEW_CALLS)
    left = np.append(np.searchsorted(calls, made), -1)[which] - np.searchsorted(calls, events.begin[freed])
    mine = few | (left == 0)
    freed, which = freed[mine], which[mine]
    order = np.lexsort((events.begin[freed] - events.end[freed], which))
    first = np.unique(which[order], return_index=True)[1]
    return merge_events(events, freed[order][first])


def find_freed_after(events: Events, lane: int, times: Times) -> Int64Array:
    """Rows in which a thread frees what had an iterator of a dataset, soon after one of some times."""
    rows = find_rows(events, FREED)
    rows = rows[(events.lane[rows] == lane) & (events.end[rows] - events.begin[rows] >= ENDING_NS)]
    before = np.append(np.iinfo(np.int64).min // 2, np.sort(times))
    last = before[np.searchsorted(before, events.begin[rows], "right") - 1]
    soon: Int64Array = rows[events.begin[rows] - last <= SOON_NS]
    return soon


def clip_at_calls(events: Events, rows: Int64Array, begins: Times) -> Intervals:
    """When events run, each up to the next begin of a call: what still ends a call says nothing of the next."""
    later = np.append(np.sort(begins), np.iinfo(np.int64).max)
    last = later[np.searchsorted(later[:-1], events.begin[rows], "right")]
    return merge_intervals(events.begin[rows], np.minimum(events.end[rows], last))


def find_traces(events: Events) -> Int64Array:
    """Rows of the calls in which a function was traced."""
    rows, values = events.stats.get(CALL, (np.zeros(0, np.int64), ()))
    found: Int64Array = rows[np.array([str(value).startswith("traced") for value in values], bool)]
    return found


def find_compilations(events: Events) -> Int64Array:
    """Rows of a compiler's work."""
    return find_rows(events, COMPILER)


def list_ranges(events: Events) -> Iterator[tuple[str, Int64Array]]:
    """Trace ranges by which the program names what it does: name, rows. Of a name with details, all but those."""
    for number, name in enumerate(events.names):
        if name.startswith(PREFIX):
            yield name.removeprefix(PREFIX).partition(":")[0], np.flatnonzero(events.name == number)


def list_details(events: Events, prefix: str) -> Iterator[tuple[str, Int64Array]]:
    """The details of ranges whose names begin like that, with their rows."""
    for number, name in enumerate(events.names):
        if name.startswith(prefix):
            yield name.removeprefix(prefix), np.flatnonzero(events.name == number)


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


def find_rows(events: Events, *patterns: re.Pattern[str]) -> Int64Array:
    """Rows of the host's events whose names match; what a dataset prepares ahead is left out."""
    which = np.array([any(p.match(name) for p in patterns) for name in events.names] or [False], bool)
    lanes = np.array([not (lane.accelerator or is_dataset_thread(lane.line)) for lane in events.lanes], bool)
    return np.flatnonzero(which[events.name] & lanes[events.lane])


def merge_events(events: Events, which: Int64Array | BoolMask) -> Intervals:
    """When at least one of these events runs; which: their rows, or whether it is one of them (n)."""
    return merge_intervals(events.begin[which], events.end[which])


def find_first_calls(events: Events, calls: Int64Array, epochs: Int64Array) -> Int64Array:
    """Of these calls' rows the first after each range of an epoch's end, which may hold calls of its own."""
    ordered = calls[np.argsort(events.begin[calls], kind="stable")]
    first = np.searchsorted(events.begin[ordered], events.end[epochs])
    found: Int64Array = np.unique(ordered[first[first < len(ordered)]])
    return found
