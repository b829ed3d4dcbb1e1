"""Rules of a placement: which operations belong on which devices, and what of a program no rule speaks of."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tfperf.place.graphs import PlacedOperation
from tfperf.place.nodes import SMALL, XLA_TEXT
from tfperf.place.transfers import Needs, format_bytes, format_device, format_names

# kinds that carry values to where they are needed, and follow them: what they carry elsewhere is seen as transfers
PLUMBING = frozenset(
    ["Const", "_EagerConst", "Identity", "IdentityN", "NoOp", "Switch", "_SwitchN", "Merge", "Enter", "Exit",
     "NextIteration", "LoopCond", "_Send", "_Recv", "_HostSend", "_HostRecv", "_Arg", "_Retval", "_DeviceArg",
     "_DeviceRetval", "ReadVariableOp", "VarHandleOp"]
)  # fmt: skip


@dataclass(frozen=True)
class PlacementRule:
    """Operations whose scopes match belong on one of the devices; `kinds`: of these kinds alone, none: of any."""

    what: str
    pattern: str
    devices: frozenset[str]
    kinds: str = ""
    needed: bool = True  # that there is one

    def covers(self, scope: str, kind: str) -> bool:
        """Whether this rule speaks of operations of a kind in a scope, which ends with a slash."""
        return bool(re.search(self.pattern, scope) and re.match(self.kinds, kind))


def make_rule(what: str, pattern: str, device: str, kinds: str = "", needed: bool = True) -> PlacementRule:
    """The rule that something is on one device."""
    return PlacementRule(what, pattern, frozenset([device]), kinds, needed)


class OperationReport(NamedTuple):
    """What was found: by rule how many operations on each device; faults; small operations of no rule."""

    devices: Mapping[str, Mapping[str, int]]
    faults: list[str]
    elsewhere: tuple[str, ...]


def check_operations(
    operations: Iterable[PlacedOperation], rules: Sequence[PlacementRule], needs: Needs | None = None
) -> OperationReport:  # fmt: skip
    """Where operations ran, by the first rule that covers each; needs: bytes that those of a rule give."""
    needs = needs or Needs()
    found: dict[str, list[PlacedOperation]] = {rule.what: [] for rule in rules}
    uncovered: dict[tuple[str, str], list[PlacedOperation]] = defaultdict(list)
    small: Counter[tuple[str, str]] = Counter()
    faults: dict[str, None] = {}
    known: dict[tuple[str, str], PlacementRule | None] = {}
    for operation in operations:
        if operation.hidden_work not in ("", XLA_TEXT):
            faults[_describe_hidden_work(operation)] = None
        if operation.kind in PLUMBING:
            continue
        key = operation.name.rpartition("/")[0] + "/", operation.kind
        if key not in known:
            known[key] = next((rule for rule in rules if rule.covers(*key)), None)
        rule = known[key]
        if rule is not None:
            found[rule.what].append(operation)
            if operation.device not in rule.devices and not _is_for_host(operation, rule.devices):
                faults[_describe_misplaced(operation, rule)] = None
        elif operation.touched_bytes is None or operation.touched_bytes > SMALL:
            uncovered[operation.kind, operation.device].append(operation)
        else:
            small[operation.kind, operation.device] += 1
    faults |= dict.fromkeys(_describe_uncovered(some) for some in uncovered.values())
    for rule in rules:
        if rule.what not in needs.spared:
            faults |= dict.fromkeys(_check_least(rule, found[rule.what], needs.least.get(rule.what, 0)))
        faults |= dict.fromkeys(_check_most(rule, found[rule.what], needs.most.get(rule.what)))
    return OperationReport(
        {what: Counter(format_device(one.device) for one in some) for what, some in found.items()}, list(faults),
        tuple(f"{kind} on {format_device(device)}: {n}" for (kind, device), n in sorted(small.items())),
    )  # fmt: skip


def check_compiled(operations: Iterable[PlacedOperation], passes: Collection[str]) -> Iterator[str]:
    """Faults of what XLA compiled, which no graph shows; passes: devices on which it does one a step."""
    found: dict[str, list[PlacedOperation]] = defaultdict(list)
    for operation in operations:
        if operation.hidden_work == XLA_TEXT:
            found[operation.device].append(operation)
    for device in sorted({*found, *passes}):
        runs, wanted = sum(one.runs for one in found[device]), int(device in passes)
        if runs != wanted:
            names = f": {format_names([one.name for one in found[device]])}" if found[device] else ""
            yield f"{XLA_TEXT} on {format_device(device)}: runs {runs} times a step; must be {wanted}{names}"


def _describe_hidden_work(one: PlacedOperation) -> str:
    return f"{one.kind} on {format_device(one.device)} runs {one.hidden_work} that no graph shows: {one.name}"


def _describe_misplaced(operation: PlacedOperation, rule: PlacementRule) -> str:
    wanted = " or ".join(sorted(map(format_device, rule.devices)))
    return f"{rule.what}: {operation.kind} ran on {format_device(operation.device)}; must be {wanted}"


def _is_for_host(one: PlacedOperation, devices: Iterable[str]) -> bool:
    """Whether GPUs leave it to the host, as they do with shapes: what is small, and has no kernel for them."""
    small = one.touched_bytes is not None and one.touched_bytes <= SMALL
    return small and "CPU" in format_device(one.device) and not any("CPU" in format_device(each) for each in devices)


def _describe_uncovered(some: Sequence[PlacedOperation]) -> str:
    largest = max(some, key=lambda one: one.touched_bytes or 0)
    unknown = [one.name for one in some if one.touched_bytes is None]
    what = f"{largest.kind} on {format_device(largest.device)}: no rule covers it"
    if unknown and len(unknown) == len(some):
        return f"{what}, and its size is not known: {format_names(unknown)}"
    names = [largest.name, *(one.name for one in some if one is not largest)]
    return f"{what}, and it touches {format_bytes(largest.touched_bytes or 0)}: {format_names(names)}"


def _check_least(rule: PlacementRule, some: Sequence[PlacedOperation], least: int) -> Iterator[str]:
    """What is missing of a rule."""
    if rule.needed and not some:
        yield f"{rule.what}: nothing of it was found in the graphs that ran"
    right = [one for one in some if one.device in rule.devices]
    if right and least > SMALL:
        largest = max(right, key=lambda one: one.output_bytes)
        if largest.output_bytes < least:
            why = f"its largest operation gives {format_bytes(largest.output_bytes)} of {format_bytes(least)}"
            yield f"{rule.what}: {why}: {largest.name}"


def _check_most(rule: PlacementRule, some: Sequence[PlacedOperation], most: float | None) -> Iterator[str]:
    """What is done of a rule beside what has to be."""
    what, given = rule.what, sum(one.output_bytes * one.runs for one in some)
    if most is not None and given > most + SMALL:
        names = format_names([one.name for one in sorted(some, key=lambda one: -one.output_bytes)])
        yield f"{what}: its operations give {format_bytes(given)} a step; must be {format_bytes(most)} at most: {names}"
