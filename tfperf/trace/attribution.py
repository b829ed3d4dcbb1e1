"""Time of a profile by step, device and phase."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tfperf.trace.intervals import union
from tfperf.trace.operations import Operation, graph_operation, hlo_operations
from tfperf.trace.phases import PHASES, Phase, Rules
from tfperf.trace.planes import Events, Lane, read_events, read_spaces
from tfperf.trace.steps import MARK, Steps, find_steps

NS_PER_MS = 1e6
INPUT_THREADS = "tf_data_"
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
    spaces = read_spaces(path)
    events = read_events(spaces, frozenset({MARK}))
    known: dict[str, Operation] = {}
    for space in spaces.values():
        known |= hlo_operations(space)
    return attribute(events, [known.get(name) or graph_operation(name) for name in events.names], rules)


def attribute(events: Events, operations: Sequence[Operation | None], rules: Rules) -> Attribution:
    """Attribution of events, of which `operations` says by name what they are. Raises: TraceError."""
    mine = np.array([o is not None for o in operations], bool)[events.name]
    number = np.array([PHASES.index("other" if o is None else _phase(o, rules)) for o in operations])[events.name]
    # what a dataset's own threads do is input, whatever it is called, and lies beside the steps
    feeds = np.array([lane.line.startswith(INPUT_THREADS) for lane in events.lanes], bool)[events.lane]
    number[feeds] = PHASES.index("input")
    steps = find_steps(events, mine & ~feeds, rules.loops)
    devices = np.array([device_of(lane) for lane in events.lanes])[events.lane]
    mine &= (events.begin >= steps.begin[0]) & (events.begin < steps.end.max())
    busy, every = {}, {}
    costs: list[Cost] = []
    for device in np.unique(devices[mine]).tolist():
        here = mine & (devices == device)
        busy[device] = np.stack([_covered(events, here & (number == p), steps) for p in range(len(PHASES))], axis=1)
        every[device] = _covered(events, here, steps)
        costs += _costs(events, operations, number, here, device, len(steps))
    firsts, lasts = _ends_of_calls(steps)
    gaps = np.maximum(firsts[1:] - lasts[:-1], 0) / NS_PER_MS
    lengths = (steps.end - steps.begin) / NS_PER_MS
    return Attribution(lengths, busy, every, gaps, len(steps.call_begin), tuple(sorted(costs, key=lambda c: -c.ms)))


def _phase(operation: Operation, rules: Rules) -> Phase:
    """The phase that most of an operation belongs to."""
    sums: dict[Phase, float] = {}
    for scope, share in operation.scopes.items():
        phase = rules.phase(scope, operation.kind)
        sums[phase] = sums.get(phase, 0.0) + share
    return max(sums, key=lambda phase: sums[phase]) if sums else "other"


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
    events: Events, operations: Sequence[Operation | None], number: NDArray[np.intp], here: NDArray[np.bool_],
    device: str, steps: int,
) -> list[Cost]:  # fmt: skip
    """Costs of the events `here`, whose phases have the numbers `number`."""
    keys, where, counts = np.unique(
        events.name[here].astype(np.intp) * len(PHASES) + number[here], return_inverse=True, return_counts=True
    )
    times = np.bincount(where, (events.end - events.begin)[here], len(keys)) / NS_PER_MS
    out = []
    for key, count, ms in zip(keys.tolist(), counts.tolist(), times.tolist(), strict=True):
        name, phase = divmod(key, len(PHASES))
        if (operation := operations[name]) is not None:
            inferred = operation.inferred and PHASES[phase] != "other"
            out.append(Cost(
                events.names[name], operation.kind, device, PHASES[phase], inferred, ms / steps, count / steps
            ))  # fmt: skip
    return out
