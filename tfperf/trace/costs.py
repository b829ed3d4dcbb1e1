"""Operations with what they cost a step, and how sure that is."""

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from tfperf.arrays import BoolMask, Float64Array, Indices, Times
from tfperf.trace.intervals import NOTHING, Intervals, merge_intervals
from tfperf.trace.operations import EAGER, Operations
from tfperf.trace.phases import PHASES, Phase, PhaseRules
from tfperf.trace.planes import CALL, Events
from tfperf.trace.steps import Steps
from tfperf.trace.work import OperationWork

NS_PER_MS = 1e6


@dataclass(frozen=True, kw_only=True)
class OperationCost:
    """An operation: its events' time in ms a step, how many there are a step, and what it belongs to."""

    name: str
    kind: str
    device: str
    phase: Phase
    inferred: bool
    ms: float
    count: float
    layer: str = ""
    inside: float = 0.0  # what of `ms` lies in steps, not between calls
    constant: bool = False  # it depends on nothing that changes
    instruction: bool = False  # of a program compiled by XLA
    scopes: tuple[str, ...] = ()  # where it comes from
    function: str = ""  # of the program's, whose call it is in
    work: OperationWork | None = None  # of one execution; None: not known
    executions: float = 0.0  # a step; of an accelerator's operation, several kernels may be one
    moments: Intervals = field(default=NOTHING, repr=False, compare=False)  # when at least one of its events runs
    busy_ms: float = 0.0  # how long that is, a step

    @property
    def eager(self) -> bool:
        """Whether Python starts it by itself, outside of any function."""
        return EAGER.fullmatch(self.name) is not None


def find_costs(
    events: Events, operations: Operations, phase_index: Indices, mask: BoolMask, device: str,
    steps: Steps, rules: PhaseRules,
) -> list[OperationCost]:  # fmt: skip
    """Costs of the events in the mask, whose phases have the numbers `phase_index`; of each function that is called."""
    functions = find_functions(events)[mask] + 1  # 0: of none
    what = operations.index[mask] * len(PHASES) + phase_index[mask]
    every = what * (len(events.names) + 1) + functions
    keys, where, counts = np.unique(every, return_inverse=True, return_counts=True)
    lengths = (events.end - events.begin)[mask] / NS_PER_MS
    covered = merge_intervals(steps.begin, steps.end).contains(events.begin[mask])
    inside = np.bincount(where, lengths * covered, len(keys))
    executions = counts / _count_kernels(events, mask, where, len(keys))
    moments = _find_moments(events.begin[mask], events.end[mask], where, len(keys))
    out = list[OperationCost]()
    columns = (keys, counts, np.bincount(where, lengths, len(keys)), inside, executions)
    for key, count, ms, inside_ms, runs in zip(*(c.tolist() for c in columns), strict=True):
        key, function = divmod(key, len(events.names) + 1)
        operation, phase = operations.every[key // len(PHASES)], PHASES[key % len(PHASES)]
        scope = max(operation.scopes, key=lambda s: operation.scopes[s], default="")
        mine = moments[len(out)]
        out.append(OperationCost(
            name=operation.name, kind=operation.kind, device=device, phase=phase,
            inferred=operation.inferred and phase != "other", ms=ms / len(steps),
            count=count / len(steps), layer=rules.find_layer(scope), inside=inside_ms / len(steps),
            constant=rules.is_constant(operation.scopes) and not operation.inferred,
            instruction=operation.instruction, scopes=tuple(operation.scopes),
            function=events.names[function - 1] if function else "",
            work=operation.work or rules.find_work(operation.scopes, operation.kind), executions=runs / len(steps),
            moments=mine, busy_ms=mine.length / NS_PER_MS / len(steps),
        ))  # fmt: skip
    return out


def _count_kernels(events: Events, mask: BoolMask, where: Indices, count: int) -> Indices:
    """How many events make up one execution of each operation (count); `where` (m): the operation of each event.

    On an accelerator, as many as it has kernels of different names; else 1.
    """
    device = np.array([lane.accelerator for lane in events.lanes], bool)[events.lane[mask]]
    pairs = np.unique(where[device] * len(events.names) + events.name[mask][device])
    return np.maximum(np.bincount(pairs // max(1, len(events.names)), minlength=count), 1)


def _find_moments(begin: Times, end: Times, where: Indices, count: int) -> list[Intervals]:
    """The union of the intervals (m) of each of `count` operations, whose numbers are `where` (m)."""
    if not len(begin):
        return [NOTHING] * count
    zero, span = begin.min(), end.max() - begin.min() + 1  # each has a range of its own, so that one pass does for all
    shift = where * span - zero
    merged = merge_intervals(begin + shift, end + shift)
    cuts = np.searchsorted(merged.begin, np.arange(count + 1) * span)
    return [
        Intervals(merged.begin[a:b] - i * span + zero, merged.end[a:b] - i * span + zero)
        for i, (a, b) in enumerate(pairwise(cuts.tolist()))
    ]


def find_functions(events: Events) -> Indices:
    """The function in whose call an event begins (n): an index into the names of events, -1 where it is in none.

    Of calls inside of others the outer one counts; a program that goes on before its devices are done has none there.
    """
    rows = events.stats.get(CALL, (np.zeros(0, np.int64), ()))[0]
    rows = rows[np.lexsort((-events.end[rows], events.begin[rows]))]
    reach = np.maximum.accumulate(events.end[rows])
    outer = rows[np.append(True, events.begin[rows][1:] >= reach[:-1])[: len(rows)]]
    at = np.searchsorted(events.begin[outer], events.begin, "right") - 1
    if not len(outer):
        return np.full(len(events), -1, np.intp)
    inside = (at >= 0) & (events.begin < events.end[outer][np.maximum(at, 0)])
    return np.where(inside, events.name[outer][np.maximum(at, 0)], -1)


def average_by_call(values: Float64Array, call: Indices) -> Float64Array:
    """Means over the steps of each call, of values (steps, ...); of a single call the steps themselves."""
    if call[0] == call[-1]:
        return values
    _, first, counts = np.unique(call, return_index=True, return_counts=True)
    sums = np.add.reduceat(values, first, axis=0)
    out: Float64Array = sums / counts.reshape(-1, *[1] * (values.ndim - 1))
    return out
