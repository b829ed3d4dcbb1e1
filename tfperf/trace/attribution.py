"""Time of a profile by step, device and phase."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from tfperf.arrays import BoolMask, Float64Array, Indices, Int64Array, TextArray
from tfperf.trace.account import Account, make_account
from tfperf.trace.claims import Claims
from tfperf.trace.costs import NS_PER_MS, OperationCost, average_by_call, find_costs
from tfperf.trace.device_use import DeviceUse, measure_device_use
from tfperf.trace.device_waits import DeviceWaits, measure_device_waits
from tfperf.trace.freed_time import estimate_freed_time
from tfperf.trace.host_events import find_outer_phases, is_dataset_thread, merge_events
from tfperf.trace.host_rows import list_host_rows
from tfperf.trace.launches import NO_LAUNCHES, Launches, Transfer, compute_launches, sum_transfers
from tfperf.trace.ledger import Entry, make_ledger
from tfperf.trace.memory_peaks import MemoryPeak, find_memory_peaks
from tfperf.trace.notes import Notes, ProgramKind, read_notes
from tfperf.trace.operations import Operation, Operations, find_operations, list_instructions, make_stats_filter
from tfperf.trace.phases import PHASES, Phase, PhaseRules
from tfperf.trace.planes import DEVICE, Events, Lane, decode_events, read_spaces
from tfperf.trace.stages import DatasetStage, sum_stages
from tfperf.trace.steps import EventKinds, Steps, find_steps
from tfperf.trace.timeline import Timeline, make_timeline
from tfperf.trace.work import DeviceLimits, read_limits

TOWER = re.compile(r"(?:^|/)((?:tower|replica)_\d+)(?:/|$)")  # how programs for several devices name their parts
LOOP = re.compile(r"(?:^|/)while(?:_\d+)?/")
LOOP_EVENT = re.compile(r"(?:^|/)while(?:_\d+)?/\S*:[A-Z]|:(?:Stateless)?While$")
PROCESSOR = "CPU"
EVERY_STEP = 0.9  # times a step from which an operation counts as one of every step


@dataclass(frozen=True, kw_only=True)
class Attribution:
    """Times in ms; S steps. A phase's is the union of the intervals in which some operation of it runs.

    busy: by device, (S, phases in the order of PHASES); any: by device, (S) with any operation at all, so that what the
    phases have more than it ran at the same time. call (S): the call of a step. gaps (calls - 1): from the last
    operation of a call to the first of the next. account: what all of the time goes to. short_kernels_ms: what kernels
    of eager operations take a step that is no work. constant_ms, tables_ms, half_ms: ms a step that would be free
    without the operations that depend on nothing that changes, go over all rows of a table, or compute in half
    precision.
    problems: what is not as it should be.
    """

    steps: Float64Array
    call: Indices
    busy: dict[str, Float64Array]
    any: dict[str, Float64Array]
    gaps: Float64Array
    account: Account
    short_kernels_ms: float
    constant_ms: float
    tables_ms: float
    half_ms: float
    calls: int
    marks: str
    costs: tuple[OperationCost, ...]
    launches: dict[str, Launches]
    transfers: tuple[Transfer, ...]
    device_use: tuple[DeviceUse, ...]
    device_waits: tuple[DeviceWaits, ...]
    memory_peaks: tuple[MemoryPeak, ...]
    ledger: tuple[Entry, ...]
    stages: tuple[DatasetStage, ...]
    problems: tuple[str, ...]
    notes: Notes
    timeline: Timeline
    limits: Mapping[str, DeviceLimits] = field(default_factory=dict)

    @property
    def periods(self) -> Float64Array:
        """Time from step to step in each call, with the gap behind it; the last call, which has none, is left out."""
        if not len(self.gaps):
            return self.steps
        counts = np.unique(self.call, return_counts=True)[1]
        out: Float64Array = average_by_call(self.steps, self.call)[:-1] + self.gaps / counts[:-1]
        return out

    @property
    def period_ms(self) -> float:
        """Time from step to step, with what lies between calls: the median of calls."""
        return float(np.median(self.periods))

    @property
    def mean_ms(self) -> float:
        """Time from step to step, all of it shared out: what parts of it are shares of. As `periods` of calls."""
        if not len(self.gaps):
            return float(self.steps.mean())
        followed = self.steps[self.call != self.call[-1]]
        return float((followed.sum() + self.gaps.sum()) / len(followed))

    def compute_share(self, unknown: bool) -> float:
        """Share of the operations' time in steps that no rule covers (`unknown`), or whose phase is inferred."""
        total = sum(cost.inside for cost in self.costs)
        mine = sum(cost.inside for cost in self.costs if (cost.phase == "other" if unknown else cost.inferred))
        return mine / total if total else 0.0

    @property
    def compiled(self) -> bool:
        """Whether most of the time of steps is spent in programs compiled by XLA."""
        mine = [cost for cost in self.costs if cost.phase != "input"]
        return 2 * sum(cost.ms for cost in mine if cost.instruction) > sum(cost.ms for cost in mine)

    @property
    def program(self) -> ProgramKind:
        """What kind of program it is of; of one that left no notes JAX's by the names of its operations."""
        traced = (scope for cost in self.costs for scope in cost.scopes)
        return "jax" if not self.notes.own and any(scope.startswith("jit(") for scope in traced) else self.notes.program

    @property
    def constant(self) -> list[OperationCost]:
        """Operations that depend on nothing that changes, and run in every step."""
        return [cost for cost in self.costs if cost.constant and cost.count >= EVERY_STEP]


def get_device(lane: Lane) -> str:
    """The device of a lane: an accelerator by its plane, else the host's processor."""
    return lane.plane.removeprefix(DEVICE) if lane.accelerator else PROCESSOR


def read_attribution(path: Path, notes: Notes | None = None) -> Attribution:
    """Attribution of the profile at a path; `notes`: by default what its capture left beside it. Raises: TraceError."""
    notes = read_notes(path) if notes is None else notes
    spaces = read_spaces(path)
    known = list_instructions(spaces.values())
    events = decode_events(spaces, make_stats_filter(known))
    lost = [message for space in spaces.values() for message in (*space.errors, *space.warnings)]
    found = compute_attribution(events, find_operations(events, known), notes, lost)
    several = len({lane.host for lane in events.lanes}) > 1  # names of devices begin with their host's then
    limits = {
        f"{host} {name}" if several else name: one
        for host, space in spaces.items() for name, one in read_limits(space).items()
    }  # fmt: skip
    return replace(found, limits=limits)


def compute_attribution(
    events: Events, operations: Operations, notes: Notes, lost: Sequence[str] = ()
) -> Attribution:  # fmt: skip
    """Attribution of events; `lost`: what the profiler says of events that it dropped. Raises: TraceError."""
    rules = notes.rules
    mine, phases = operations.some, _find_phases(events, operations, rules)
    # what a dataset's own threads do is input, whatever it is called, and lies beside the steps
    ahead = np.array([is_dataset_thread(lane.line) for lane in events.lanes], bool)[events.lane]
    phases[ahead] = PHASES.index("input")
    updates = mine & (phases == PHASES.index("update"))
    kind = _encode_kinds(events, operations, ahead)
    kinds = EventKinds(kind, _find_looped(events, operations), updates, _compute_typical_durations(events, kind))
    steps = find_steps(events, kinds, rules.loops, rules.turns, late=not notes.own)
    devices = _find_devices(events, operations)
    mine = mine & (events.end > steps.begin[0]) & (events.begin < max(steps.end.max(), steps.begin.max() + 1))
    busy, every = {}, {}
    costs: list[OperationCost] = []
    names = np.unique(devices[mine]).tolist() or [PROCESSOR]  # of one whose operations are all too short to be recorded
    for device in names:
        here = mine & (devices == device)
        each = [_compute_busy(events, here & (phases == p), steps) for p in range(len(PHASES))]
        busy[device] = np.stack(each, axis=1)
        every[device] = _compute_busy(events, here, steps)
        costs += find_costs(events, operations, phases, here, device, steps, rules)
    firsts, lasts = steps.spans
    gaps = np.maximum(firsts[1:] - lasts[:-1], 0) / NS_PER_MS
    host = np.array([not lane.accelerator for lane in events.lanes], bool)[events.lane]
    at_work = mine & ~ahead & ~(host & (phases == PHASES.index("input")))
    claims = Claims(events, steps, mine & ~ahead, phases)

    def free(is_one: Callable[[Operation], bool]) -> float:
        """ms a step that are free without the operations that are ones."""
        ones = np.array([*map(is_one, operations.every), False])[operations.index]
        ns = estimate_freed_time(events, mine & ~ahead & ones, mine & ~ahead & ~ones, notes.cores)
        return ns / NS_PER_MS / len(steps)

    return Attribution(
        steps=(steps.end - steps.begin) / NS_PER_MS, call=steps.call, busy=busy, any=every, gaps=gaps,
        account=make_account(claims, steps, notes), short_kernels_ms=claims.short_kernels_ns / NS_PER_MS / len(steps),
        constant_ms=free(lambda one: rules.is_constant(one.scopes)),
        tables_ms=free(lambda one: bool(rules.find_tables(one.scopes))),
        half_ms=free(lambda one: rules.find_half(one.scopes) is not None),
        calls=len(steps.call_begin), marks=steps.marks,
        costs=tuple(sorted(costs, key=lambda c: -c.ms)),
        launches=dict.fromkeys(names, NO_LAUNCHES)
        | compute_launches(events, operations, devices, mine & ~ahead, len(steps)),
        transfers=sum_transfers(events, devices, mine, len(steps)),
        device_use=measure_device_use(events, devices, at_work, *_find_period(steps)),
        device_waits=measure_device_waits(events, operations, devices, phases, at_work, steps, notes.cores, rules),
        memory_peaks=find_memory_peaks(events, operations, phases, steps, rules),
        ledger=make_ledger(events, notes.traces, notes.own), stages=sum_stages(events, len(steps)),
        problems=tuple(_list_problems(steps, notes, lost)),
        notes=notes,
        timeline=make_timeline(
            events, operations, devices, mine, phases, steps, list_host_rows(events, claims, steps)
        ),
    )  # fmt: skip


def _find_period(steps: Steps) -> tuple[int, int]:
    """From the first call's begin to the end of the last, or of what it began, ns."""
    first, last = min(steps.call_begin[0], steps.begin[0]), max(steps.call_end[-1], steps.end.max())
    return int(first), int(last)


def _encode_kinds(events: Events, operations: Operations, ahead: BoolMask) -> Indices:
    """A number for each operation on each device (n): what runs on several runs as often on each; -1 for none."""
    planes = np.unique([f"{lane.host} {lane.plane}" for lane in events.lanes], return_inverse=True)[1]
    kinds = operations.index * len(events.lanes) + planes[events.lane]
    return np.where(operations.some & ~ahead, kinds, -1)


def _compute_typical_durations(events: Events, kind: Indices) -> Int64Array:
    """Of each event the median duration of its kind, the lower of two in the middle, ns (n); 0 where it has none."""
    durations, out = events.end - events.begin, np.zeros(len(events), np.int64)
    rows = np.flatnonzero(kind >= 0)
    rows = rows[np.lexsort((durations[rows], kind[rows]))]
    _, first, which, counts = np.unique(kind[rows], return_index=True, return_inverse=True, return_counts=True)
    out[rows] = durations[rows][first + (counts - 1) // 2][which]
    return out


def _find_looped(events: Events, operations: Operations) -> BoolMask:
    """Which events belong to a loop, where they repeat (n): by their scope, or since they run inside what is one."""
    scoped = [o.instruction or any(map(LOOP.search, o.scopes)) for o in operations.every]
    outer = np.array([LOOP_EVENT.search(name) is not None for name in events.names] or [False])[events.name]
    spans = merge_events(events, outer & ~operations.some)
    inside: BoolMask = np.array([*scoped, False])[operations.index] | spans.contains(events.begin)
    return inside


def _find_phases(events: Events, operations: Operations, rules: PhaseRules) -> Indices:
    """Index of the phase of each event (n); of what is no operation, that of `other`."""
    said = find_outer_phases(events)
    other = PHASES.index("other")
    out = np.full(len(events), other, np.intp)
    for outer in np.unique(said[operations.some]).tolist():
        name = PHASES[outer] if outer >= 0 else ""
        table = np.array([PHASES.index(_find_phase(o, rules, name)) for o in operations.every] or [other])
        which = operations.some & (said == outer)
        out[which] = table[operations.index[which]]
    return out


def _find_phase(operation: Operation, rules: PhaseRules, outer: str) -> Phase:
    """The phase that most of an operation belongs to."""
    sums: dict[Phase, float] = {}
    for scope, share in (operation.scopes or {"": 1.0}).items():
        phase = rules.find_phase(scope, operation.kind, outer)
        sums[phase] = sums.get(phase, 0.0) + share
    return max(sums, key=lambda phase: sums[phase])


def _find_devices(events: Events, operations: Operations) -> TextArray:
    """The device of each event (n); a processor's logical devices by the scopes of their operations."""
    several = len({lane.host for lane in events.lanes}) > 1
    own = [f"{lane.host} {get_device(lane)}" if several else get_device(lane) for lane in events.lanes]
    lanes = np.array(own or [""])[events.lane]
    # the innermost scope: strategies have scopes of their own around a program's
    towers = [next((f" {m[-1]}" for s in o.scopes if (m := TOWER.findall(s))), "") for o in operations.every]
    names = np.array([*towers, ""])[operations.index]  # -1: what is no operation
    host = np.array([not lane.accelerator for lane in events.lanes], bool)[events.lane]
    out: TextArray = np.char.add(lanes, np.where(host, names, ""))
    return out


def _compute_busy(events: Events, which: BoolMask, steps: Steps) -> Float64Array:
    """Time (S) of each step during which one of the events runs."""
    covered = merge_events(events, which)
    cuts = np.stack([steps.begin, steps.end], axis=1).reshape(-1)  # steps do not overlap
    return covered.sum_lengths(cuts)[::2] / NS_PER_MS


def _list_problems(steps: Steps, notes: Notes, lost: Sequence[str]) -> Iterator[str]:
    yield from lost
    yield from notes.missing
    if notes.calls is not None and notes.wanted is not None and notes.calls < notes.wanted:
        yield f"the training ended after {notes.calls} of {notes.wanted} calls that were to be recorded"
    missing = (notes.calls or 0) - len(steps.call_begin)
    if missing > 0:
        yield f"events were dropped: {missing} of {notes.calls} marks of calls are missing"
    empty = len(steps.call_begin) - len(np.unique(steps.call))
    if empty:
        yield f"{empty} of {len(steps.call_begin)} calls have no operation: the program does not wait for its devices"
