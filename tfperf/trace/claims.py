"""What is going on at a moment of a profile, cause by cause."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Literal, get_args

import numpy as np

from tfperf.arrays import BoolMask, Indices, Int64Array, Times
from tfperf.scopes import CALLBACK, GARBAGE, IN_TENSORFLOW, METHOD, SAMPLE, WRITING
from tfperf.trace.host_events import (
    COMPILER,
    FIRST_BATCH,
    INPUT_WAIT,
    SET_UP,
    clip_at_calls,
    find_compilations,
    find_endings,
    find_first_calls,
    find_freed_after,
    find_rows,
    find_traces,
    is_dataset_thread,
    list_details,
    list_ranges,
    merge_events,
)
from tfperf.trace.intervals import NOTHING, Intervals, merge_intervals
from tfperf.trace.ledger import BUILDING, name_compilations
from tfperf.trace.occupancy import split_by_phases
from tfperf.trace.operations import GRAPH
from tfperf.trace.phases import CALLBACK as PYTHON_KIND
from tfperf.trace.phases import PHASES
from tfperf.trace.planes import CALL, Events
from tfperf.trace.stages import find_busy
from tfperf.trace.steps import Steps

# in the order in which a moment is given to them
Cause = Literal[
    "garbage", "compilation", "callback", "validation", "work", "eager_work", "method", "py_function", "conversion",
    "input", "epoch", "dispatch", "between", "eager", "python", "unexplained",
]  # fmt: skip
CAUSES: tuple[Cause, ...] = get_args(Cause)
EAGER = re.compile(r"EagerLocalExecute: (?!__inference)\w+|EagerExecute|TFE_\w+|convert_to_tensor|tf\.constant")
EAGER_OPERATION = re.compile(r"EagerLocalExecute: (?!__inference)\w+")
SHORT_KERNEL_NS = 200_000
EXECUTOR = re.compile(r"ExecutorState::Process(Async::Done)?|ExecutorDoneCallback")
FEW_CALLS = 8  # compiled calls in a method up to which it is its dataset that costs
COMPILING = 0.1  # share of a call from which on it is one that compiles
KERNEL = re.compile(r"KernelAndDeviceFunc::Run")
CONVERSION = re.compile(r"tf\.constant|convert_to_tensor")
LONG_CONVERSION_NS = 200_000  # from which on it is data that becomes a tensor, and no number in an expression
BETWEEN_CONVERSIONS_NS = 50_000  # that Python takes at most from one argument to the next
Split = Iterator[tuple[Cause, str, float, float]]  # cause, name, ns, how often


class Claims:
    """When each cause is at work, and what has part in it, by name.

    operations: which events are operations of steps, those of a dataset's own threads not counted (n); phase_index:
    their phases (n).
    """

    def __init__(self, events: Events, steps: Steps, operations: BoolMask, phase_index: Indices) -> None:
        self.events, self.steps, self.phases = events, steps, phase_index
        device = np.array([lane.accelerator for lane in events.lanes], bool)[events.lane]
        self.main = events.lane == steps.lane
        self.ahead = np.array([is_dataset_thread(lane.line) for lane in events.lanes], bool)[events.lane] & ~device
        self.waited = ~device & ~self.ahead
        eager = operations & self._match(EAGER_OPERATION) & ~device
        fetching = operations & (phase_index == PHASES.index("input")) & ~device
        calls_python = self._match(GRAPH, lambda found: bool(PYTHON_KIND.match(found["kind"])))
        self.python = operations & calls_python & ~device
        self.calls_python_ahead = bool((self.ahead & calls_python).any())
        self.busy_ahead = find_busy(events)
        self.rows = operations & ~eager & ~fetching & ~self.python
        self.call_begin, self.call_end = self._find_calls()
        self.calls = merge_intervals(self.call_begin, self.call_end)
        # the event of an eager operation holds what it takes to start it; its kernel has one of its own
        kernels = merge_events(events, self._match(KERNEL)).subtract(self.calls)
        self.eager_work = merge_events(events, eager & ~fetching).intersect(kernels)
        self.kernels = self.eager_work.end - self.eager_work.begin
        self.work = merge_events(events, self.rows)
        waits = np.union1d(find_rows(events, INPUT_WAIT), np.flatnonzero(fetching & ~self._match(SET_UP)))
        callbacks, validation = self._merge_ranges("callback"), self._find_ranges("validation")
        ended = find_freed_after(events, steps.lane, events.end[validation])
        self.known: dict[Cause, Intervals] = {
            "garbage": self._find_garbage(), "compilation": self._find_compilations(waits),
            "callback": callbacks.subtract(self._find_inner(validation, callbacks)),
            "validation": merge_events(events, np.append(validation, ended)),
            "work": self.work, "eager_work": self.eager_work, "method": self._find_methods(),
            "py_function": merge_events(events, self.python), "conversion": self._find_conversions(),
            "input": merge_events(events, waits).add(self._merge_ranges("input")), "epoch": self._find_epochs(),
            "dispatch": self._find_dispatch(), "between": self.calls,
            "eager": merge_events(events, self._match(EAGER) & self.main),
        }  # fmt: skip
        samples = [(name, events.begin[rows]) for name, rows in list_details(events, SAMPLE)]
        self.sample_times = np.concatenate([np.zeros(0, np.int64), *(times for _, times in samples)])
        self.sample_names = [name for name, times in samples for _ in times]
        self.known["python"] = self._find_watched()

    def find(self, cause: Cause) -> Intervals:
        """When a cause is at work, whatever else is."""
        return self.known.get(cause, NOTHING)

    def split(self, cause: Cause, times: Intervals) -> Split:
        """What has part in the time `times` of a cause; of Python's some is TensorFlow's, which starts operations."""
        if cause in ("python", "eager", "eager_work"):
            yield from self._split_samples(cause, times)
        elif cause == "work":
            yield from self._split_work(times)
        else:
            left = times
            for name, rows in self._list_parts(cause):
                every = merge_events(self.events, rows)
                mine = left.intersect(every) if len(left) else NOTHING
                if len(mine):
                    left = left.subtract(mine)
                    often = mine.count_long() if cause == "callback" else len(mine)
                    yield cause, name, mine.length, min(often, len(every))  # others may have parts of each
            if len(left):
                yield cause, "", left.length, len(left)

    def count_epochs(self, window: Intervals) -> int:
        """How many epochs end in a time, of those that the program tells of."""
        return int(window.contains(self.events.begin[self._find_ranges("epoch")]).sum())

    def count_samples(self, window: Intervals) -> int:
        """How often the training's thread was looked at."""
        return int(window.contains(self.sample_times).sum())

    def count_events(self, times: Intervals, ahead: bool) -> int:
        """How many events begin in a time on the host's threads that steps wait for: each takes time to be recorded.

        ahead: those of datasets' own threads too.
        """
        mine = self.waited | self.ahead if ahead else self.waited
        return int(times.contains(self.events.begin[mine]).sum())

    @property
    def short_kernels_ns(self) -> float:
        """What eager kernels take that is no work: of each as much as half of them take, and no more than 0.2 ms."""
        if not len(self.kernels):
            return 0.0
        return float(np.minimum(self.kernels, min(float(np.median(self.kernels)), SHORT_KERNEL_NS)).sum())

    def _match(
        self, pattern: re.Pattern[str], fits: Callable[[re.Match[str]], bool] = lambda found: True
    ) -> BoolMask:  # fmt: skip
        """Which events have a name that a pattern matches whole (n)."""
        found = [(one := pattern.fullmatch(name)) is not None and fits(one) for name in self.events.names]
        out: BoolMask = np.array(found or [False])[self.events.name]
        return out

    def _find_ranges(self, name: str) -> Int64Array:
        return np.concatenate([np.zeros(0, np.int64), *(r for one, r in list_ranges(self.events) if one == name)])

    def _merge_ranges(self, name: str) -> Intervals:
        return merge_events(self.events, self._find_ranges(name))

    def _find_inner(self, rows: Int64Array, outer: Intervals) -> Intervals:
        """Ranges of rows that lie in others."""
        begin, end = self.events.begin[rows], self.events.end[rows]
        inside = outer.contains(begin) & outer.contains(end - 1)
        return merge_intervals(begin[inside], end[inside])

    def _find_garbage(self) -> Intervals:
        """Collections: another thread's keep Python from going on, but no operations."""
        rows = np.concatenate([np.zeros(0, np.int64), *(rows for _, rows in list_details(self.events, GARBAGE))])
        mine, others = rows[self.main[rows]], rows[~self.main[rows]]
        return merge_events(self.events, mine).add(merge_events(self.events, others).subtract(self.work))

    def _find_methods(self) -> Intervals:
        """Methods that the training's thread calls for few batches; of longer ones the causes inside count."""
        rows = np.concatenate([np.zeros(0, np.int64), *(rows for _, rows in list_details(self.events, METHOD))])
        rows = rows[self.main[rows]]
        calls = np.sort(self.events.begin[self._list_function_calls()])
        begin, end = self.events.begin[rows], self.events.end[rows]
        return merge_events(self.events, rows[np.searchsorted(calls, end) - np.searchsorted(calls, begin) <= FEW_CALLS])

    def _find_calls(self) -> tuple[Times, Times]:
        """Calls of compiled functions; in a profile that tells of none, of steps."""
        mine = self._list_function_calls()
        if len(mine) or (self.main & self._match(EAGER)).any():
            return self.events.begin[mine], self.events.end[mine]
        return self.steps.call_begin, self.steps.call_end

    def _find_compilations(self, waits: Int64Array) -> Intervals:
        """A compiler's work, and what a call that traces or compiles does before and after that without operations."""
        calls = merge_events(self.events, find_traces(self.events)).add(self._find_compiling_calls())
        built = self._match(re.compile(BUILDING))
        # what a method traces beside its steps are its dataset's functions
        datasets = merge_events(self.events, built).intersect(self._find_methods()).subtract(calls)
        compiling = merge_events(self.events, find_compilations(self.events))
        others = self.work.add(merge_events(self.events, self.python)).add(merge_events(self.events, waits))
        return compiling.subtract(datasets).add(calls.subtract(others))

    def _find_compiling_calls(self) -> Intervals:
        """Calls of which a compiler takes a good part: the rest of that is spent for it, too."""
        mine = self._match(COMPILER) & ~self._match(re.compile(BUILDING))
        compiling, calls = merge_events(self.events, mine), self._list_function_calls()
        every = merge_events(self.events, calls)
        if not len(compiling) or not len(every):
            return NOTHING
        cuts = np.stack([every.begin, every.end], axis=1).reshape(-1)  # they do not touch
        some = compiling.sum_lengths(cuts)[::2] >= COMPILING * (every.end - every.begin)
        return Intervals(every.begin[some], every.end[some])

    def _list_function_calls(self) -> Int64Array:
        """Rows of the training thread's calls of compiled functions."""
        rows = self.events.stats.get(CALL, (np.zeros(0, np.int64), ()))[0]
        return np.asarray(rows[self.main[rows]], np.int64)

    def _find_conversions(self) -> Intervals:
        """What makes tensors of arguments in calls, and of much data before them."""
        rows = np.flatnonzero(self._match(CONVERSION) & self.main)
        long = self.events.end[rows] - self.events.begin[rows] >= LONG_CONVERSION_NS
        in_calls = merge_events(self.events, rows).intersect(self.calls).join(BETWEEN_CONVERSIONS_NS)
        return in_calls.add(merge_events(self.events, rows[long]))

    def _find_epochs(self) -> Intervals:
        """From the last call of an epoch to the first of the next, and where a dataset's iterator is made.

        Where a call holds the end of an epoch, from the range that tells of it.
        """
        rows = self._find_ranges("epoch")
        begin, end = self.events.begin[rows], self.events.end[rows]
        before = np.searchsorted(self.steps.call_end, begin, "right") - 1
        between = (before >= 0) & (np.searchsorted(self.steps.call_begin, begin, "right") - 1 == before)
        begin = np.where(between, self.steps.call_end[np.maximum(before, 0)], begin)
        every = merge_intervals(begin, end).add(merge_events(self.events, self._match(SET_UP) & self.main))
        return every.add(find_endings(self.events, self.steps.lane)).add(self._merge_ranges("epoch_start"))

    def _find_dispatch(self) -> Intervals:
        """In calls of functions: up to the first operation, and after the last.

        Where the executor runs, operations do, some too short to be recorded.
        """
        begin, end = self.call_begin, self.call_end
        executor = np.flatnonzero(self._match(EXECUTOR) & self.waited)
        working = self.work.add(clip_at_calls(self.events, executor, begin))
        if not len(working):
            return self.calls
        first = np.searchsorted(working.end, begin, "right")
        started = np.append(working.begin, np.iinfo(np.int64).max)[first]
        last = np.searchsorted(working.begin, end, "left") - 1
        ended = np.where(last >= 0, working.end[np.maximum(last, 0)], begin)
        some = ended > begin  # some operation runs in the call
        return merge_intervals(
            np.concatenate([begin, ended]), np.concatenate([np.minimum(started, end), np.where(some, end, ended)])
        )

    def _find_watched(self) -> Intervals:
        """The time in which the training's thread was looked at; of it, what nothing else explains is Python's."""
        if not len(self.sample_times):
            return NOTHING
        return merge_intervals(self.events.begin.min(keepdims=True), self.events.end.max(keepdims=True))

    def _split_samples(self, cause: Cause, times: Intervals) -> Split:
        """By the lines at which the thread was found: as much to each as its share of the looks."""
        inside = times.contains(self.sample_times)
        names = Counter(name for name, some in zip(self.sample_names, inside.tolist(), strict=True) if some)
        for name, count in names.most_common():
            length = times.length * count / names.total()
            if name.endswith(WRITING):
                yield "python", name.removesuffix(WRITING), length, count
            else:
                starts = cause == "python" and name.endswith(IN_TENSORFLOW)
                yield "eager" if starts else cause, name.removesuffix(IN_TENSORFLOW), length, count
        if not names and len(times):
            yield cause, "", times.length, len(times)

    def _split_work(self, times: Intervals) -> Split:
        events, rows = self.events, self.rows
        sets = split_by_phases(events.begin[rows], events.end[rows], self.phases[rows], times, len(PHASES))
        for phases, ns in sets.items():
            if ns:
                yield "work", " and ".join(PHASES[p] for p in phases), ns, 0

    def _list_parts(self, cause: Cause) -> Iterator[tuple[str, Int64Array | BoolMask]]:
        events = self.events
        if cause in ("callback", "garbage"):
            yield from list_details(events, CALLBACK if cause == "callback" else GARBAGE)
        elif cause == "input":
            yield FIRST_BATCH, find_first_calls(events, self._list_function_calls(), self._find_ranges("epoch"))
        elif cause == "method":
            yield from ((name, rows[self.main[rows]]) for name, rows in list_details(events, METHOD))
        elif cause == "compilation":
            traced = find_traces(events)
            for name in dict.fromkeys(events.name[traced].tolist()):
                yield events.names[name], traced[events.name[traced] == name]
            yield from name_compilations(events)
        elif cause == "py_function":
            for name in np.unique(events.name[self.python]).tolist():
                yield events.names[name], self.python & (events.name == name)
        elif cause in ("dispatch", "between", "conversion"):
            calls = self.events.stats.get(CALL, (np.zeros(0, np.int64), ()))[0]
            for name in dict.fromkeys(events.name[calls].tolist()):
                yield events.names[name], calls[events.name[calls] == name]
