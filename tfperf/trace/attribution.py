"""Time of a profile by step, device and phase."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tfperf.trace.intervals import union
from tfperf.trace.operations import Operation, graph_operation, hlo_operations
from tfperf.trace.phases import PHASES, Phase, Rules
from tfperf.trace.planes import Events, Lane, profile_files, read_events, read_space
from tfperf.trace.steps import MARK, Steps, find_steps

NS_PER_MS = 1e6
DEVICE = "/device:"  # how planes of accelerators begin


@dataclass(frozen=True)
class Cost:
    """An operation: its events' time in ms a step, how many there are a step, and what it belongs to."""

    name: str
    kind: str
    device: str
    phase: Phase
    inferred: bool
    ms: float
    count: float


@dataclass(frozen=True)
class Attribution:
    """Times in ms; S steps. A phase's is the union of the intervals in which some operation of it runs.

    busy: by device, (S, phases in the order of PHASES); any: by device, (S) with any operation at all, so that what the
    phases have more than it ran at the same time. gaps (calls - 1): from the last operation of a call to the first of
    the next.
    """

    steps: NDArray[np.float64]
    busy: dict[str, NDArray[np.float64]]
    any: dict[str, NDArray[np.float64]]
    gaps: NDArray[np.float64]
    calls: int
    costs: tuple[Cost, ...]

    def share(self, unknown: bool) -> float:
        """Share of the operations' time that no rule covers (`unknown`), or whose phase is inferred."""
        total = sum(cost.ms for cost in self.costs)
        mine = sum(cost.ms for cost in self.costs if (cost.phase == "other" if unknown else cost.inferred))
        return mine / total if total else 0.0


def device_of(lane: Lane) -> str:
    """The device of a lane: an accelerator by its plane, else the host's processor."""
    return lane.plane.removeprefix(DEVICE) if lane.plane.startswith(DEVICE) else "CPU"


def attribute_path(path: Path, rules: Rules) -> Attribution:
    """Attribution of the profile at a path. Raises: TraceError."""
    files = profile_files(path)
    events = read_events(files, frozenset({MARK}))
    known: dict[str, Operation] = {}
    for file in files:
        known |= hlo_operations(read_space(file))
    return attribute(events, [known.get(name) or graph_operation(name) for name in events.names], rules)


def attribute(events: Events, operations: Sequence[Operation | None], rules: Rules) -> Attribution:
    """Attribution of events, of which `operations` says by name what they are. Raises: TraceError."""
    steps = find_steps(events, np.array([o is not None for o in operations], bool)[events.name])
    nowhere: tuple[Phase, float] = ("other", 0.0)
    phases = [nowhere if o is None else _phase(o, rules) for o in operations]
    number = np.array([PHASES.index(phase) for phase, _ in phases])[events.name]
    devices = np.array([device_of(lane) for lane in events.lanes])[events.lane]
    mine = np.array([o is not None for o in operations], bool)[events.name]
    mine &= (events.begin >= steps.begin[0]) & (events.begin < steps.end.max())
    busy, every = {}, {}
    for device in np.unique(devices[mine]).tolist():
        here = mine & (devices == device)
        busy[device] = np.stack([_covered(events, here & (number == p), steps) for p in range(len(PHASES))], axis=1)
        every[device] = _covered(events, here, steps)
    firsts, lasts = _ends_of_calls(steps)
    return Attribution(
        (steps.end - steps.begin) / NS_PER_MS, busy, every, np.maximum(firsts[1:] - lasts[:-1], 0) / NS_PER_MS,
        len(steps.call_begin), _costs(events, operations, phases, devices, mine, len(steps)),
    )  # fmt: skip


def _phase(operation: Operation, rules: Rules) -> tuple[Phase, float]:
    """The phase that most of an operation belongs to, and how much of it."""
    sums: dict[Phase, float] = {}
    for scope, share in operation.scopes.items():
        phase = rules.phase(scope, operation.kind)
        sums[phase] = sums.get(phase, 0.0) + share
    return max(sums.items(), key=lambda item: item[1]) if sums else ("other", 1.0)


def _covered(events: Events, which: NDArray[np.bool_], steps: Steps) -> NDArray[np.float64]:
    """Time (S) of each step during which one of the events runs."""
    covered = union(events.begin[which], events.end[which])
    cuts = np.stack([steps.begin, steps.end], axis=1).reshape(-1)  # steps do not overlap
    return covered.covered(cuts)[::2] / NS_PER_MS


def _ends_of_calls(steps: Steps) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First operation's begin and last one's end of each call that has steps."""
    _, first = np.unique(steps.call, return_index=True)
    last = np.append(first[1:], len(steps)) - 1
    return steps.begin[first], steps.end[last]


def _costs(
    events: Events, operations: Sequence[Operation | None], phases: Sequence[tuple[Phase, float]],
    devices: NDArray[np.str_], mine: NDArray[np.bool_], count: int,
) -> tuple[Cost, ...]:  # fmt: skip
    out = []
    for device in np.unique(devices[mine]).tolist():
        here = mine & (devices == device)
        times = np.bincount(events.name[here], (events.end - events.begin)[here], len(operations))
        counts = np.bincount(events.name[here], minlength=len(operations))
        for i in np.flatnonzero(counts).tolist():
            if (operation := operations[i]) is not None:
                ms = float(times[i]) / NS_PER_MS / count
                out.append(Cost(
                    events.names[i], operation.kind, device, phases[i][0], operation.inferred, ms,
                    float(counts[i]) / count,
                ))  # fmt: skip
    return tuple(sorted(out, key=lambda cost: -cost.ms))
