"""Which events of a profile are operations, and from where in the program each of them comes.

In graphs an operation's event is called `scope/name:Type`. Under XLA it bears the name of an HLO instruction, whose
origin stands in the module that the profile carries; a fusion comes from what it fuses. Where XLA made an instruction
of its own, its origin is inferred from the neighbours that it feeds, or is fed by.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tfperf.trace.hlo_names import Computation, modules

GRAPH = re.compile(r"(?P<name>[^:\s#]+):(?P<kind>_?[A-Z]\w*)")
# they only wait for, or call, others
CONTAINERS = frozenset([
    "While", "StatelessWhile", "If", "StatelessIf", "Case", "PartitionedCall", "StatefulPartitionedCall", "XlaLaunch",
    "XlaRun", "RemoteCall", "SymbolicGradient", "NoOp", "Enter", "Exit", "NextIteration", "Merge", "Switch", "LoopCond",
])  # fmt: skip
HLO_CONTAINERS = frozenset(["while", "call", "conditional", "async-start", "async-done"])
NOTHING = frozenset(["parameter", "constant", "get-tuple-element", "tuple", "bitcast"])
DEEPEST = 8  # neighbours of neighbours that are asked


@dataclass(frozen=True)
class Operation:
    """`scopes`: where it comes from, with how much of it (sums to 1), empty where nobody knows."""

    kind: str  # operation type, or HLO opcode
    scopes: Mapping[str, float]
    inferred: bool = False


def graph_operation(event: str) -> Operation | None:
    """The operation of a graph that an event's name tells of; None for other events."""
    found = GRAPH.fullmatch(event)
    if found is None or found["kind"].removeprefix("_") in CONTAINERS or found["name"].startswith("__inference"):
        return None
    return Operation(found["kind"], {found["name"]: 1.0})


def hlo_operations(space: Any) -> dict[str, Operation]:
    """Operations by instruction name, of the modules that ran; the first counts where several share a name.

    A profile carries all modules of the process. Of those that ran its events' stats hold the names.
    """
    ran = {m.name for plane in space.planes for m in plane.stat_metadata.values()}
    out: dict[str, Operation] = {}
    for module, computations in modules(space):
        if module not in ran:
            continue
        for computation in computations.values():
            for number, name in computation.names.items():
                opcode = computation.instructions[number].opcode
                if opcode not in HLO_CONTAINERS | NOTHING:
                    out.setdefault(name, _origin(computation, number, computations))
    return out


def _origin(computation: Computation, number: int, computations: Mapping[int, Computation]) -> Operation:
    instruction = computation.instructions[number]
    scopes = _own(computation, number, computations)
    if scopes:
        return Operation(instruction.opcode, _shares(scopes))
    for neighbours in (_users(computation, number), _operands(computation, number)):
        for other in neighbours:
            if scopes := _own(computation, other, computations):
                return Operation(instruction.opcode, _shares(scopes), inferred=True)
    return Operation(instruction.opcode, {})


def _own(computation: Computation, number: int, computations: Mapping[int, Computation]) -> list[str]:
    """Origins of an instruction, of a fusion those of all that it fuses."""
    instruction = computation.instructions[number]
    if instruction.opcode == "fusion":
        inside = [i for c in instruction.called if c in computations for i in computations[c].instructions.values()]
        return [i.op_name for i in inside if i.op_name and i.opcode not in NOTHING]
    return [instruction.op_name] if instruction.op_name and instruction.opcode not in HLO_CONTAINERS else []


def _shares(scopes: Iterable[str]) -> dict[str, float]:
    counts = Counter(scopes)
    return {scope: count / counts.total() for scope, count in counts.items()}


def _operands(computation: Computation, number: int) -> Iterable[int]:
    """What feeds an instruction, nearest first."""
    return _reached(number, {n: i.operands for n, i in computation.instructions.items()})


def _users(computation: Computation, number: int) -> Iterable[int]:
    """What an instruction feeds, nearest first."""
    users: dict[int, list[int]] = {}
    for user, instruction in computation.instructions.items():
        for operand in instruction.operands:
            users.setdefault(operand, []).append(user)
    return _reached(number, users)


def _reached(start: int, edges: Mapping[int, Iterable[int]]) -> Iterable[int]:
    seen, front = {start}, [start]
    for _ in range(DEEPEST):
        front = [n for number in front for n in edges.get(number, ()) if n not in seen]
        seen.update(front)
        yield from dict.fromkeys(front)
