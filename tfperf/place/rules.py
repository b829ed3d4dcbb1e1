"""Rules of a placement: which operations belong on which devices, and what of a program no rule speaks of."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tfperf.place.copies import Needs, listed, short, text
from tfperf.place.graphs import Operation
from tfperf.place.nodes import SMALL, XLA_TEXT

# kinds that carry values to where they are needed, and follow them: what they carry elsewhere is seen as copies
PLUMBING = frozenset(
    ["Const", "_EagerConst", "Identity", "IdentityN", "NoOp", "Switch", "_SwitchN", "Merge", "Enter", "Exit",
     "NextIteration", "LoopCond", "_Send", "_Recv", "_HostSend", "_HostRecv", "_Arg", "_Retval", "_DeviceArg",
     "_DeviceRetval", "ReadVariableOp", "VarHandleOp"]
)  # fmt: skip


@dataclass(frozen=True)
class Rule:
    """Operations whose scopes match belong on one of the devices; `kinds`: of these kinds alone, none: of any."""

    what: str
    pattern: str
    devices: frozenset[str]
    kinds: str = ""
    needed: bool = True  # that there is one

    def covers(self, scope: str, kind: str) -> bool:
        """Whether this rule speaks of operations of a kind in a scope, which ends with a slash."""
        return bool(re.search(self.pattern, scope) and re.match(self.kinds, kind))


def one(what: str, pattern: str, device: str, kinds: str = "", needed: bool = True) -> Rule:
    """The rule that something is on one device."""
    return Rule(what, pattern, frozenset([device]), kinds, needed)


class Places(NamedTuple):
    """What was found: by rule how many operations on each device; faults; small operations of no rule."""

    devices: Mapping[str, Mapping[str, int]]
    faults: list[str]
    elsewhere: tuple[str, ...]


def judge_operations(
    operations: Iterable[Operation], rules: Sequence[Rule], needs: Needs | None = None
) -> Places:  # fmt: skip
    """Where operations ran, by the first rule that covers each; needs: bytes that those of a rule give."""
    needs = needs or Needs()
    found: dict[str, list[Operation]] = {rule.what: [] for rule in rules}
    uncovered: dict[tuple[str, str], list[Operation]] = defaultdict(list)
    small: Counter[tuple[str, str]] = Counter()
    faults: dict[str, None] = {}
    known: dict[tuple[str, str], Rule | None] = {}
    for operation in operations:
        if operation.hides not in ("", XLA_TEXT):
            faults[_hiding(operation)] = None
        if operation.kind in PLUMBING:
            continue
        key = operation.name.rpartition("/")[0] + "/", operation.kind
        if key not in known:
            known[key] = next((rule for rule in rules if rule.covers(*key)), None)
        rule = known[key]
        if rule is not None:
            found[rule.what].append(operation)
            if operation.device not in rule.devices and not _for_the_host(operation, rule.devices):
                faults[_astray(operation, rule)] = None
        elif operation.touched is None or operation.touched > SMALL:
            uncovered[operation.kind, operation.device].append(operation)
        else:
            small[operation.kind, operation.device] += 1
    faults |= dict.fromkeys(_uncovered(some) for some in uncovered.values())
    for rule in rules:
        if rule.what not in needs.spared:
            faults |= dict.fromkeys(_too_little(rule, found[rule.what], needs.least.get(rule.what, 0)))
        faults |= dict.fromkeys(_too_much(rule, found[rule.what], needs.most.get(rule.what)))
    return Places(
        {what: Counter(short(one.device) for one in some) for what, some in found.items()}, list(faults),
        tuple(f"{kind} on {short(device)}: {n}" for (kind, device), n in sorted(small.items())),
    )  # fmt: skip


def judge_compiled(operations: Iterable[Operation], passes: Collection[str]) -> Iterator[str]:
    """Faults of what XLA compiled, which no graph shows; passes: devices on which it does one a step."""
    found: dict[str, list[Operation]] = defaultdict(list)
    for operation in operations:
        if operation.hides == XLA_TEXT:
            found[operation.device].append(operation)
    for device in sorted({*found, *passes}):
        runs, wanted = sum(one.runs for one in found[device]), int(device in passes)
        if runs != wanted:
            names = f": {listed([one.name for one in found[device]])}" if found[device] else ""
            yield f"{XLA_TEXT} on {short(device)}: runs {runs} times a step; must be {wanted}{names}"


def _hiding(operation: Operation) -> str:
    return f"{operation.kind} on {short(operation.device)} runs {operation.hides} that no graph shows: {operation.name}"


def _astray(operation: Operation, rule: Rule) -> str:
    wanted = " or ".join(sorted(map(short, rule.devices)))
    return f"{rule.what}: {operation.kind} ran on {short(operation.device)}; must be {wanted}"


def _for_the_host(operation: Operation, devices: Iterable[str]) -> bool:
    """Whether GPUs leave it to the host, as they do with shapes: what is small, and has no kernel for them."""
    small = operation.touched is not None and operation.touched <= SMALL
    return small and "CPU" in short(operation.device) and not any("CPU" in short(device) for device in devices)


def _uncovered(some: Sequence[Operation]) -> str:
    largest = max(some, key=lambda one: one.touched or 0)
    unknown = [one.name for one in some if one.touched is None]
    where = f"{largest.kind} on {short(largest.device)}"
    if unknown and len(unknown) == len(some):
        return f"{where}: no rule covers it, and its size is not known: {listed(unknown)}"
    names = [largest.name, *(one.name for one in some if one is not largest)]
    return f"{where}: no rule covers it, and it touches {text(largest.touched or 0)}: {listed(names)}"


def _too_little(rule: Rule, some: Sequence[Operation], least: int) -> Iterator[str]:
    """What is missing of a rule."""
    if rule.needed and not some:
        yield f"{rule.what}: nothing of it was found in the graphs that ran"
    right = [one for one in some if one.device in rule.devices]
    if right and least > SMALL:
        largest = max(right, key=lambda one: one.gives)
        if largest.gives < least:
            why = f"its largest operation gives {text(largest.gives)} of {text(least)}"
            yield f"{rule.what}: {why}: {largest.name}"


def _too_much(rule: Rule, some: Sequence[Operation], most: float | None) -> Iterator[str]:
    """What is done of a rule beside what has to be."""
    given = sum(one.gives * one.runs for one in some)
    if most is not None and given > most + SMALL:
        names = listed([one.name for one in sorted(some, key=lambda one: -one.gives)])
        yield f"{rule.what}: its operations give {text(given)} a step; must be {text(most)} at most: {names}"
