"""Which events of a profile are operations, and from where in the program each of them comes.

In graphs an operation's event is called `scope/name:Type`. Under XLA it bears the name of an HLO instruction, whose
origin stands in the module that the profile carries; a fusion comes from what it fuses. Where XLA made an instruction
of its own, its origin is inferred from the neighbours that it feeds, or is fed by. A GPU's kernels say in their stats
which operation or instruction launched them.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tfperf.arrays import BoolMask, Indices
from tfperf.trace.hlo_names import METADATA_PLANE, ComputationOrigins, decode_computations, read_modules
from tfperf.trace.hlo_work import count_module
from tfperf.trace.planes import CALL, DEVICE, MODULE, Events
from tfperf.trace.work import OperationWork

GRAPH = re.compile(r"(?P<name>[^:\s#]+):(?P<kind>_?[A-Z]\w*)")
# outside of any function; what makes a tensor of Python's data is none
EAGER = re.compile(r"EagerLocalExecute: (?P<kind>(?!__inference|_EagerConst$)_?[A-Z]\w*)")
# they only wait for, or call, others
CONTAINERS = frozenset([
    "While", "StatelessWhile", "If", "StatelessIf", "Case", "PartitionedCall", "StatefulPartitionedCall", "XlaLaunch",
    "XlaRun", "RemoteCall", "SymbolicGradient", "NoOp", "Enter", "Exit", "NextIteration", "Merge", "Switch", "LoopCond",
])  # fmt: skip
HLO_CONTAINERS = frozenset(["while", "call", "conditional", "async-start", "async-done"])
NOTHING = frozenset(["parameter", "constant", "get-tuple-element", "tuple", "bitcast"])
DEEPEST = 8  # neighbours of neighbours that are asked
# of XLA's runtime, whose events' stats only link them to others: the end of an instruction, its threads' work
END, THREADS = "end: ", ("ThreadpoolListener::", "ThunkExecutor::")
KERNEL = "kernel"  # kind of what an accelerator runs for nobody knows whom
KNOWN_KERNEL = re.compile("Memcpy|Memset|[Nn]ccl")

Instructions = dict[str, dict[str, "Operation"]]  # by name, then by module


@dataclass(frozen=True)
class Operation:
    """`scopes`: where it comes from, with how much of it (sums to 1), empty where nobody knows."""

    name: str
    kind: str  # operation type, or HLO opcode
    scopes: Mapping[str, float]
    inferred: bool = False
    instruction: bool = False  # of XLA, whose names are unique in a program: one that repeats is in a loop
    work: OperationWork | None = None  # of one execution, of an instruction; None: not known


@dataclass(frozen=True)
class Operations:
    """`index` (n): of each event its operation in `every`, -1 for events that are none."""

    every: tuple[Operation, ...]
    index: Indices

    @property
    def some(self) -> BoolMask:
        """Which events are operations (n)."""
        return self.index >= 0


def parse_operation(event: str) -> Operation | None:
    """The operation of a graph, or of an eager program, that an event's name tells of; None for other events."""
    if eager := EAGER.fullmatch(event):
        return Operation(event, eager["kind"], {"": 1.0})
    found = GRAPH.fullmatch(event)
    if found is None or found["kind"].removeprefix("_") in CONTAINERS or found["name"].startswith("__inference"):
        return None
    return Operation(event, found["kind"], {found["name"]: 1.0})


def list_instructions(spaces: Iterable[Any]) -> Instructions:
    """Operations by instruction and module, of the modules that ran.

    A profile carries all modules of the process. Of those that ran its events' stats hold the names.
    """
    out: Instructions = {}
    for space in spaces:
        ran = {m.name for plane in space.planes for m in plane.stat_metadata.values()}
        names = _list_names(space)
        for module in (module for module in read_modules(space) if module.name in ran):
            computations, works = decode_computations(module), count_module(module, names)
            for computation in computations.values():
                for number, name in computation.names.items():
                    if computation.instructions[number].opcode not in HLO_CONTAINERS | NOTHING:
                        found = replace(_find_origin(computation, number, computations), work=works.get(name))
                        out.setdefault(name, {}).setdefault(module.name, found)
    return out


def _list_names(space: Any) -> set[str] | None:
    """Names of events, which those of instructions are among; None where an accelerator's stats hold them."""
    if any(plane.name.startswith(DEVICE) for plane in space.planes):
        return None
    return {m.name for plane in space.planes if plane.name != METADATA_PLANE for m in plane.event_metadata.values()}


def find_ambiguous(known: Instructions) -> frozenset[str]:
    """Names that different instructions of several modules share."""
    return frozenset(
        name
        for name, mine in known.items()
        if len({(o.kind, o.work, *sorted(o.scopes.items())) for o in mine.values()}) > 1
    )


def has_work(space: Any) -> bool:
    """Whether a profile holds any operation, by the names of its events, or calls of functions, whose operations may be
    too short to be recorded."""
    known = list_instructions([space])
    return any(
        any(m.name == CALL for m in plane.stat_metadata.values())
        or (plane.name.startswith(DEVICE) and any(line.events for line in plane.lines))
        or any(m.name in known or parse_operation(m.name) for m in plane.event_metadata.values())
        for plane in space.planes
        if plane.name != METADATA_PLANE
    )


def make_stats_filter(known: Instructions) -> Callable[[str], bool]:
    """Of which host events the stats have to be read, by name; those of operations say nothing that is needed,
    but for collectives, which have a key, and those of XLA's runtime say which events belong together alone."""
    unclear = find_ambiguous(known)

    def is_needed(name: str) -> bool:
        if name in unclear or ":Collective" in name:
            return True
        return not (name.removeprefix(END) in known or name.startswith(THREADS) or GRAPH.fullmatch(name))

    return is_needed


def find_operations(events: Events, known: Instructions) -> Operations:
    """The operation of each event: by its name, and where that does not say enough by its stats."""
    found = _OperationTable()
    index = np.array([*(found.add_by_name(name, known) for name in events.names), -1], np.intp)[events.name]
    device = np.array([lane.accelerator for lane in events.lanes], bool)[events.lane]
    module, graph, instruction = (_get_stat(events, name) for name in (MODULE, "tf_op", "hlo_op"))
    for at in (row for row in module if not device[row]):
        index[at] = found.add_by_module(module[at], events.names[events.name[at]], known, index[at])
    for at in np.flatnonzero(device).tolist():
        name = events.names[events.name[at]]
        plain = found.add_graph(graph.get(at, "")) if at in graph else found.add_graph(name)
        plain = found.add(name, _make_kernel(name)) if plain < 0 else plain
        index[at] = found.add_by_module(module.get(at, ""), instruction.get(at, ""), known, plain)
    return Operations(tuple(found.every), index)


class _OperationTable:
    """Operations with their numbers, each once."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[str, str], int] = {}
        self.every: list[Operation] = []

    def add(self, name: str, operation: Operation, module: str = "") -> int:
        number = self.numbers.setdefault((module, name), len(self.every))
        if number == len(self.every):
            self.every.append(operation)
        return number

    def add_graph(self, name: str) -> int:
        operation = parse_operation(name)
        return -1 if operation is None else self.add(name, operation)

    def add_by_name(self, name: str, known: Instructions) -> int:
        return self.add(name, next(iter(known[name].values()))) if name in known else self.add_graph(name)

    def add_by_module(self, module: str, name: str, known: Instructions, otherwise: int) -> int:
        """The instruction of a module, or where that is not known another number."""
        mine = known.get(name, {}).get(module)
        return otherwise if mine is None else self.add(name, mine, module)


def _make_kernel(name: str) -> Operation:
    """What an accelerator runs without saying for whom; copies and collectives are known by their names."""
    return Operation(name, name if KNOWN_KERNEL.match(name) else KERNEL, {})


def _get_stat(events: Events, name: str) -> dict[int, Any]:
    rows, values = events.stats.get(name, (np.zeros(0, np.int64), ()))
    return dict(zip(rows.tolist(), values, strict=True))


def _find_origin(
    computation: ComputationOrigins, number: int, computations: Mapping[int, ComputationOrigins]
) -> Operation:
    instruction, name = computation.instructions[number], computation.names[number]
    scopes = _list_scopes(computation, number, computations)
    if scopes:
        return Operation(name, instruction.opcode, _compute_shares(scopes), instruction=True)
    for neighbours in (_list_users(computation, number), _list_operands(computation, number)):
        for other in neighbours:
            if scopes := _list_scopes(computation, other, computations):
                return Operation(name, instruction.opcode, _compute_shares(scopes), inferred=True, instruction=True)
    return Operation(name, instruction.opcode, {}, instruction=True)


def _list_scopes(
    computation: ComputationOrigins, number: int, computations: Mapping[int, ComputationOrigins]
) -> list[str]:
    """Origins of an instruction, of a fusion those of all that it fuses."""
    instruction = computation.instructions[number]
    if instruction.opcode == "fusion":
        inside = [i for c in instruction.called if c in computations for i in computations[c].instructions.values()]
        return [i.op_name for i in inside if i.op_name and i.opcode not in NOTHING]
    return [instruction.op_name] if instruction.op_name and instruction.opcode not in HLO_CONTAINERS else []


def _compute_shares(scopes: Iterable[str]) -> dict[str, float]:
    counts = Counter(scopes)
    return {scope: count / counts.total() for scope, count in counts.items()}


def _list_operands(computation: ComputationOrigins, number: int) -> Iterable[int]:
    """What feeds an instruction, nearest first."""
    return _walk_edges(number, {n: i.operands for n, i in computation.instructions.items()})


def _list_users(computation: ComputationOrigins, number: int) -> Iterable[int]:
    """What an instruction feeds, nearest first."""
    users: dict[int, list[int]] = {}
    for user, instruction in computation.instructions.items():
        for operand in instruction.operands:
            users.setdefault(operand, []).append(user)
    return _walk_edges(number, users)


def _walk_edges(start: int, edges: Mapping[int, Iterable[int]]) -> Iterable[int]:
    seen, front = {start}, [start]
    for _ in range(DEEPEST):
        front = [n for number in front for n in edges.get(number, ()) if n not in seen]
        seen.update(front)
        yield from dict.fromkeys(front)
