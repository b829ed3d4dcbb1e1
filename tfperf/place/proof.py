"""Proof of a placement: where every operation of a compiled call ran, beside where it should have run.

TensorFlow tells it by the graphs into which it cut the call, one for each device.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

from tfperf.errors import UserError

# kinds that carry values to where they are needed, and follow them
PLUMBING = frozenset(
    ["Const", "Identity", "IdentityN", "NoOp", "Switch", "_SwitchN", "Merge", "Enter", "Exit", "NextIteration",
     "LoopCond", "_Send", "_Recv", "_HostSend", "_HostRecv", "_Arg", "_Retval", "ReadVariableOp", "VarHandleOp"]
)  # fmt: skip
MOST_FAULTS = 5  # that are told
LSTM_KERNELS = {"CudnnRNN": "cudnn", "BlockLSTM": "block"}  # by how their kinds begin
# functions that XLA does not compile are part of the graph that calls them
XLA = frozenset(["XlaLaunch", "_XlaCompile", "_XlaRun", "PartitionedCall", "StatefulPartitionedCall"])


class PlacementError(UserError):
    """A placement did not take place: what ran where it should not have."""


class Operation(NamedTuple):
    """One node of the graphs that ran."""

    name: str
    kind: str
    device: str


@dataclass(frozen=True)
class Rule:
    """Operations whose name matches belong on one of the devices; `kinds`: of these kinds alone, none: of any."""

    what: str
    pattern: str
    devices: frozenset[str]
    kinds: str = ""
    needed: bool = True  # that there is one

    def covers(self, operation: Operation) -> bool:
        """Whether this rule speaks of an operation."""
        return bool(re.search(self.pattern, operation.name) and re.match(self.kinds, operation.kind))


def one(what: str, pattern: str, device: str, kinds: str = "", needed: bool = True) -> Rule:
    """The rule that something is on one device."""
    return Rule(what, pattern, frozenset([device]), kinds, needed)


@dataclass(frozen=True)
class Proof:
    """What ran where: by rule, and by device how many operations; `kernels`: how the layers were computed."""

    devices: Mapping[str, Mapping[str, int]]
    kernels: Mapping[str, Any]
    faults: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = field(default=())  # operations of no rule, by kind and device

    def hold(self) -> "Proof":
        """The proof itself. Raises: PlacementError where something is not where it should be."""
        if self.faults:
            more = len(self.faults) - MOST_FAULTS
            raise PlacementError(*self.faults[:MOST_FAULTS], *([f"and {more} more"] if more > 0 else []))
        return self


def run_operations(call: Callable[[], Any]) -> list[Operation]:
    """The operations of the largest graph that a call runs, which has run before."""
    # not public; graphs are told when kernels are made, so those of before have to go
    from tensorflow.python.eager.context import context

    now = context()
    now.clear_kernel_cache()
    now.enable_run_metadata()
    try:
        call()
        found = now.export_run_metadata().function_graphs
    finally:
        now.disable_run_metadata()
    graphs = [[node for part in one.partition_graphs for node in part.node] for one in found]
    return [Operation(node.name, node.op, node.device) for node in max(graphs, key=len, default=[])]


class Kept(NamedTuple):
    """A copy of a variable, or a slot: what it is, the device it is on, the one it has to be on, its bytes."""

    what: str
    device: str
    wanted: str
    size: int


class Engine(Protocol):
    """What can be proved of."""

    def kept(self) -> list[Kept]:
        """Copies of variables, and slots."""

    def rules(self) -> list[Rule]:
        """Where everything of a step has to run."""


def prove_engine(engine: Engine, operations: Sequence[Operation]) -> Proof:
    """Proof for an engine, of which these operations ran."""
    wrong = [
        f"{one.what}: is on {_short(one.device)}; must be {_short(one.wanted)}"
        for one in engine.kept() if one.device != one.wanted
    ]  # fmt: skip
    proof = prove(operations, engine.rules())
    return replace(proof, faults=(*wrong, *proof.faults))


def prove(operations: Iterable[Operation], rules: Sequence[Rule]) -> Proof:
    """Where operations ran, by the first rule that covers each."""
    places: dict[str, Counter[str]] = {rule.what: Counter() for rule in rules}
    elsewhere: Counter[tuple[str, str]] = Counter()
    faults: dict[str, None] = {}
    every = list(operations)
    for operation in every:
        if operation.kind in PLUMBING:
            continue
        rule = next((rule for rule in rules if rule.covers(operation)), None)
        if rule is None:
            elsewhere[operation.kind, operation.device] += 1
            continue
        places[rule.what][operation.device] += 1
        if operation.device not in rule.devices:
            wanted = " or ".join(sorted(map(_short, rule.devices)))
            faults[f"{rule.what}: {operation.kind} ran on {_short(operation.device)}; must be {wanted}"] = None
    for rule in rules:
        if rule.needed and not places[rule.what]:
            faults[f"{rule.what}: nothing of it was found in the graphs that ran"] = None
    return Proof(
        {what: {_short(device): n for device, n in counts.items()} for what, counts in places.items()},
        kernels(every), tuple(faults),
        tuple(f"{kind} on {_short(device)}: {n}" for (kind, device), n in sorted(elsewhere.items())),
    )  # fmt: skip


def kernels(operations: Iterable[Operation]) -> dict[str, Any]:
    """How LSTM layers and embedding gradients were computed, and whether XLA was used."""
    every = list(operations)
    towers = [operation for operation in every if re.search(r"tower_\d+/", operation.name)]
    dense = any(o.kind == "UnsortedSegmentSum" and "backward" in o.name for o in towers)
    xla = any(o.kind in XLA for o in towers)
    kernel = [name for kind, name in LSTM_KERNELS.items() if any(o.kind.startswith(kind) for o in every)]
    return {
        "lstm": kernel[0] if kernel else "xla" if xla else "plain",
        "embedding_gradients": "inside xla" if xla else "dense" if dense else "sparse", "xla": xla,
    }  # fmt: skip


def _short(device: str) -> str:
    """GPU:0 out of a full name."""
    return device.rpartition("device:")[2]
