"""Operations of the devices that share a step: whose they are, and whether they are work or communication.

A strategy names what it does on its second device replica_1/..., on the third replica_2/..., and on the first like the
program itself. What has the name of another's operation is the first one's own; the rest of what bears no replica's
name is what merges them.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tfperf.arrays import BoolMask, Float64Array, Indices, TextArray, Times
from tfperf.trace.operations import Operation, Operations
from tfperf.trace.phases import COLLECTIVE, PHASES, PhaseRules
from tfperf.trace.planes import Events
from tfperf.trace.steps import Steps

TOWER = re.compile(r"(?P<host>.*) (?P<kind>tower|replica)_(?P<number>\d+)")
NUMBERED = re.compile(r"(?P<host>.*):(?P<number>\d+)")
UPDATE = re.compile(r"(?:^|/)update_(\d+)(?:_\d+)*/")  # how a strategy names what it updates on each device
OWN_LEVEL = re.compile(r"(tower|replica)_\d+(_\d+)*|_?\d+(_\d+)*|")
NUMBERS = re.compile(r"(_\d+)+$")
WORK, UPDATES, EXCHANGE, OTHER = range(4)  # roles; what merges devices is EXCHANGE, copies from the host are OTHER
SHARED = -1  # of no device alone
EDGE = 0.02  # share of a device's own part of a step at its begin and end that may lie apart from the rest
MERGE, TRANSFER, UPDATE_PHASE = (PHASES.index(name) for name in ("merge", "transfer", "update"))
BOTH = PHASES.index("forward"), PHASES.index("backward")


@dataclass(frozen=True)
class DeviceSet:
    """Devices that take a step together, in order; `base`: whose operations bear no device's name, "" for none."""

    members: tuple[str, ...]
    base: str = ""


@dataclass(frozen=True)
class DeviceRows:
    """Operations of a set of R devices in steps (k): times in ns, step, device (SHARED: of none alone), role.

    own: which are of a device's own part of a step, before anything is merged. key, keys: the operation, by a name that
    is the same on all devices. collective: which of several that devices enter together, -1 for none; lane: thread.
    size: FLOP of an operation, or bytes of one that has none; NaN where they are not known.
    """

    devices: DeviceSet
    begin: Times
    end: Times
    step: Indices
    device: Indices
    role: Indices
    own: BoolMask
    key: Indices
    keys: tuple[str, ...]
    collective: Indices
    lane: Indices
    size: Float64Array

    def find_spans(self, steps: int) -> tuple[Float64Array, Float64Array]:
        """When each device begins and ends its own part of each step, ns: two of (S, R); NaN where it has none.

        Its first and its last operations are left out where they take EDGE of that part at most: a variable that is
        read ahead, a sum of what is merged already.
        """
        begins = np.full((steps, len(self.devices.members)), np.nan)
        ends = begins.copy()
        rows = np.flatnonzero(self.own)
        group = self.step[rows] * begins.shape[1] + self.device[rows]
        order = np.lexsort((self.begin[rows], group))
        rows, group = rows[order], group[order]
        for one in np.unique(group).tolist():
            mine = rows[slice(*np.searchsorted(group, (one, one + 1)))]
            done = np.cumsum(self.end[mine] - self.begin[mine])
            first, last = np.searchsorted(done, (EDGE * done[-1], (1 - EDGE) * done[-1]))
            at = divmod(one, begins.shape[1])
            begins[at], ends[at] = self.begin[mine[first]], self.end[mine[: last + 1]].max()
        return begins, ends


def group_devices(names: Iterable[str]) -> Iterator[DeviceSet]:
    """Devices of one step: towers of a processor, or accelerators of a host; the first tower may have no name.

    >>> list(group_devices(["CPU", "CPU replica_1"]))
    [DeviceSet(members=('CPU', 'CPU replica_1'), base='CPU')]
    """
    every = sorted(names)
    groups: dict[tuple[str, str], dict[int, str]] = {}
    for name in every:
        if found := TOWER.fullmatch(name):
            groups.setdefault((found["host"], found["kind"]), {})[int(found["number"])] = name
        elif numbered := NUMBERED.fullmatch(name):
            groups.setdefault((numbered["host"], ""), {})[int(numbered["number"])] = name
    for (host, kind), mine in groups.items():
        base = host if kind and host in every else ""
        if kind == "replica" and 0 not in mine and base:
            mine[0] = base
        if len(mine) > 1:
            yield DeviceSet(tuple(mine[number] for number in sorted(mine)), base)


def collect_rows(
    events: Events, operations: Operations, names: TextArray, phase_index: Indices, working: BoolMask,
    steps: Steps, devices: DeviceSet, rules: PhaseRules,
) -> DeviceRows:  # fmt: skip
    """Operations of a set of devices. names (n): of each event its device; working (n): operations of steps."""
    step = np.searchsorted(steps.begin, events.begin, "right") - 1
    inside = (step >= 0) & (events.begin < steps.end[np.maximum(step, 0)])
    rows = np.flatnonzero(working & inside & np.isin(names, [*devices.members, devices.base]))
    rows = rows[np.argsort(events.begin[rows], kind="stable")]
    used, which = np.unique(operations.index[rows], return_inverse=True)
    some = [operations.every[i] for i in used.tolist()]
    keys, key_of = np.unique([make_key(one.name) for one in some] or [""], return_inverse=True)
    key, phase, mine = (key_of[which] if some else which), phase_index[rows], names[rows]
    device = np.array([devices.members.index(n) if n in devices.members else SHARED for n in mine.tolist()], np.intp)
    collective = _ask_operations(some, which, lambda one: bool(COLLECTIVE.match(one.kind)), 0) > 0
    role = _find_roles(events, rows, phase, collective)
    updated = _ask_operations(some, which, lambda one: _find_updated(one, len(devices.members)), SHARED)
    role[(role == WORK) & (updated >= 0)] = UPDATES
    own = _find_own(devices, mine, device, role, phase, key)
    if devices.base:
        unnamed = (mine == devices.base) & ~own
        device = np.where(unnamed, updated, device)
        role = np.where(unnamed & (role == WORK), EXCHANGE, role)
    instance = _match_collectives(events, rows, step[rows], device, collective, len(devices.members))
    numbers = _ask_operations(some, which, lambda one: _get_number(one.name), 0)
    return DeviceRows(
        devices, events.begin[rows], events.end[rows], step[rows], _number_unnamed(device, instance, numbers), role,
        own, key, tuple(keys.tolist()), instance, events.lane[rows].astype(np.intp),
        np.array([_get_size(one, rules) for one in some], float)[which],
    )  # fmt: skip


def _get_size(operation: Operation, rules: PhaseRules) -> float:
    work = operation.work or rules.find_work(operation.scopes, operation.kind)
    return float(work.flops or work.bytes or np.nan) if work else np.nan


def make_key(name: str) -> str:
    """The name of an operation without what tells devices apart, and numbers that make it unique.

    >>> make_key("replica_1/while/body/_36/replica_1/while/matmul_2:MatMul")
    'while/body/while/matmul:MatMul'
    """
    scope, colon, kind = name.partition(":")
    levels = [level for level in scope.split("/") if not OWN_LEVEL.fullmatch(level)]
    return "/".join([*levels[:-1], NUMBERS.sub("", levels[-1])]) + colon + kind if levels else name


def _find_roles(events: Events, rows: Indices, phase: Indices, collective: BoolMask) -> Indices:
    """Copies between devices are communication, those from and to the host are not; nor are waits for data."""
    host = np.array([not lane.accelerator for lane in events.lanes] or [False], bool)[events.lane[rows]]
    between = np.array(["P2P" in name for name in events.names] or [False])[events.name[rows]]
    out = np.full(len(rows), WORK)
    out[phase == UPDATE_PHASE] = UPDATES
    out[(phase == PHASES.index("input")) | (phase == PHASES.index("validation")) | (phase == TRANSFER)] = OTHER
    out[(phase == MERGE) | collective | ((phase == TRANSFER) & (host | between))] = EXCHANGE
    return out


def _find_own(
    devices: DeviceSet, names: TextArray, device: Indices, role: Indices, phase: Indices, key: Indices
) -> BoolMask:  # fmt: skip
    """What belongs to one device: what bears its name or others do, too; on accelerators also all of the model."""
    work = (role == WORK) & (device >= 0)
    pairs = np.unique(np.stack([key[work], device[work]]), axis=1)
    shared, counts = np.unique(pairs[0], return_counts=True)
    named = np.isin(names, [one for one in devices.members if TOWER.fullmatch(one)])
    model = np.isin(phase, BOTH) & (not devices.base)
    out: BoolMask = work & (named | model | np.isin(key, shared[counts > 1]))
    return out


def _ask_operations(
    some: Sequence[Operation], which: Indices, answer: Callable[[Operation], int], nothing: int
) -> Indices:
    """An answer for each row (k), asked once for each operation."""
    out: Indices = np.array([answer(one) for one in some] or [nothing])[which] if some else np.zeros(0, np.intp)
    return out


def _find_updated(operation: Operation, members: int) -> int:
    """The device whose variables an operation of a strategy updates, SHARED for none."""
    found = UPDATE.search(operation.name)
    return int(found[1]) if found and int(found[1]) < members else SHARED


def _match_collectives(
    events: Events, rows: Indices, step: Indices, device: Indices, collective: BoolMask, members: int
) -> Indices:  # fmt: skip
    """Which rows are parts of one collective that all devices enter (k), -1: of none.

    On a processor they have its key, on accelerators the same name and the same place among those of a step.
    """
    found, values = events.stats.get("instance_key", (np.zeros(0, np.int64), ()))
    keys = dict(zip(found.tolist(), values, strict=True))
    accelerator = np.array([lane.accelerator for lane in events.lanes] or [False], bool)[events.lane[rows]]
    parts: dict[tuple[object, ...], list[int]] = {}
    counts: Counter[tuple[int, ...]] = Counter()
    for at in np.flatnonzero(collective).tolist():
        if accelerator[at]:
            one = int(step[at]), int(events.name[rows[at]]), int(device[at])
            counts[one] += 1
            parts.setdefault((*one[:2], counts[one]), []).append(at)
        elif int(rows[at]) in keys:
            parts.setdefault((int(step[at]), keys[int(rows[at])]), []).append(at)
    out = np.full(len(rows), -1, np.intp)
    for number, mine in enumerate(mine for mine in parts.values() if len(mine) == members):
        out[mine] = number
    return out


def _number_unnamed(device: Indices, instance: Indices, numbers: Indices) -> Indices:
    """Devices (k); parts of a collective that bear no device's name are numbered in the order of devices."""
    out = device.copy()
    for one in np.unique(instance[(instance >= 0)]).tolist():
        mine = np.flatnonzero(instance == one)
        if len(np.unique(device[mine])) < len(mine):
            out[mine[np.argsort(numbers[mine], kind="stable")]] = np.arange(len(mine))
    return out


def _get_number(name: str) -> int:
    found = re.search(r"_(\d+):", name)
    return int(found[1]) if found else 0
