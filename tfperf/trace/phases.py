"""Phases of a training step, and the rules by which an operation belongs to one."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from tfperf.scopes import PREFIX
from tfperf.trace.work import OperationWork

Phase = Literal[
    "forward", "backward", "merge", "transfer", "update", "input", "validation", "callback", "other"
]  # fmt: skip
PHASES: tuple[Phase, ...] = get_args(Phase)
COLLECTIVE = re.compile(r"_?(Collective|[Nn]ccl|CrossReplica)|(all|reduce)-(reduce|gather|scatter)|collective-")
INPUT = re.compile(r"_?\w*(Iterator|Dataset|MultiDeviceIter)\w*$|_?Optional[A-Z]\w*$")
TRANSFER = re.compile(r"_?(Send|Recv|HostSend|HostRecv)$|(send|recv|infeed|outfeed)(-done)?$|Memcpy")
CALLBACK = re.compile(r"_?(PyFunc|EagerPyFunc|PyFuncStateless)$")
KERNELS = re.compile(r"^_(Mkl(Native)?)?")
NUMBERED = re.compile(r"_\d+$")  # TensorFlow makes names unique that way
GRADIENTS = frozenset(["gradient_tape", "gradients"])
TRANSPOSED = "transpose(jvp"  # how JAX begins scopes of a backward pass
# parts of a name that say nothing about what the operation is for
SCAFFOLD = re.compile(r"(while|body|cond|true|false|then|else|branch|\d+)(_\d+)*|_\d+|StatefulPartitionedCall(_\d+)?|")
REPLICA = re.compile(r"replica(_\d+)+")  # the part of a strategy's second device, and of those after it


@dataclass(frozen=True)
class PhaseRules:
    """What a program says about its names: its optimizers'; those of layers, losses and metrics, where it tells."""

    optimizers: frozenset[str] = field(default_factory=frozenset)
    forward: frozenset[str] | None = None
    loops: int = 1  # that run side by side in a call
    turns: int | None = None  # steps in a call; None: as many as its loop takes
    constant: frozenset[str] = field(default_factory=frozenset)  # operations that depend on nothing that changes
    table_updates: Mapping[str, str] = field(default_factory=dict)  # operations on all rows of a table: which table
    works: Mapping[tuple[str, str], OperationWork] = field(default_factory=dict)  # of an operation: name, kind
    half: Mapping[str, float] = field(default_factory=dict)  # operations of half precision: share that float32 takes

    def find_phase(self, scope: str, kind: str, outer: str = "") -> Phase:
        """The phase of an operation `kind` with a name `scope`, of which the last part is its own.

        outer: the phase that the program says it is in, which counts where the name says none.

        >>> rules = PhaseRules(optimizers=frozenset(["adam"]), forward=frozenset(["dense"]))
        >>> rules.find_phase("model/dense_1/MatMul", "MatMul"), rules.find_phase("gradient_tape/dense/MatMul", "MatMul")
        ('forward', 'backward')
        >>> rules.find_phase("adam/mul", "Mul"), rules.find_phase("tfperf.validation/dense/MatMul", "MatMul")
        ('update', 'validation')
        """
        levels = scope.split("/")
        explicit = [level.removeprefix(PREFIX) for level in levels if level.startswith(PREFIX)]
        if COLLECTIVE.match(kind):
            return "merge"
        plain = {name for level in levels for name in _list_spellings(level)}
        # of a forward operation, whose marks its name repeats
        if plain & GRADIENTS or any(level.startswith(TRANSPOSED) for level in levels):
            return "backward"
        if explicit or outer:
            said = explicit[-1] if explicit else outer
            return next((phase for phase in PHASES if phase in _list_spellings(said)), "other")
        for phase, pattern in _KINDS:
            if pattern.match(kind):
                return phase
        if plain & self.optimizers:
            return "update"
        return "forward" if self._is_forward(levels[:-1]) else "other"

    def find_layer(self, scope: str) -> str:
        """The layer, loss, metric or scope of the program's that a name belongs to; empty: none is known."""
        levels = [level for level in scope.split("/") if not (SCAFFOLD.fullmatch(level) or level.startswith(PREFIX))]
        gradient = GRADIENTS & set(levels)
        # behind a gradient's scopes stands the operation that it is the gradient of
        levels = [p for p in levels if p not in GRADIENTS and not REPLICA.fullmatch(p)][: -2 if gradient else -1]
        levels = [p for p in levels if not self.optimizers & {*_list_spellings(p)}]
        if self.forward is not None:
            levels = [p for p in levels if any(name in self.forward for name in _list_spellings(p))]
        return levels[-1] if levels else ""

    def is_constant(self, scopes: Collection[str]) -> bool:
        """Whether names are all of operations that depend on nothing that changes, whatever calls their functions."""
        return bool(scopes) and all(any(one in self.constant for one in list_tails(scope)) for scope in scopes)

    def find_tables(self, scopes: Iterable[str]) -> list[str]:
        """Tables of which operations with these names update all rows, whatever calls their functions."""
        return [self.table_updates[one] for scope in scopes for one in list_tails(scope) if one in self.table_updates]

    def find_half(self, scopes: Collection[str]) -> float | None:
        """Of the time of an operation of half precision the share that float32 takes; None: of others."""
        names = [next((one for one in list_tails(scope) if one in self.half), None) for scope in scopes]
        return None if not names or None in names else sum(self.half[one] for one in names if one) / len(names)

    def find_work(self, scopes: Iterable[str], kind: str) -> OperationWork | None:
        """Work of an operation with these names, whatever calls its function; None: not known."""
        plain = strip_kind(kind)
        tails = (one for scope in scopes for one in list_tails(scope))
        return next((self.works[one, plain] for one in tails if (one, plain) in self.works), None)

    def _is_forward(self, scopes: Iterable[str]) -> bool:
        if self.forward is None:
            return any(not (SCAFFOLD.fullmatch(level) or REPLICA.fullmatch(level)) for level in scopes)
        return any(name in self.forward for level in scopes for name in _list_spellings(level))


_KINDS: tuple[tuple[Phase, re.Pattern[str]], ...] = (("input", INPUT), ("transfer", TRANSFER), ("callback", CALLBACK))


def list_tails(scope: str) -> Iterator[str]:
    """A name, and what is left of it behind each level that a call or a loop adds."""
    levels = scope.split("/")
    begins = (i for i in range(len(levels)) if i == 0 or SCAFFOLD.fullmatch(levels[i - 1]))
    return ("/".join(levels[i:]) for i in begins)


def strip_kind(kind: str) -> str:
    """The type of an operation without what tells which of its kernels TensorFlow took.

    >>> strip_kind("_MklNativeFusedMatMul"), strip_kind("_FusedMatMul"), strip_kind("MatMul")
    ('FusedMatMul', 'FusedMatMul', 'MatMul')
    """
    return KERNELS.sub("", kind)


def _list_spellings(name: str) -> Iterator[str]:
    """The name, and what it may have been before it was made unique: dense_1_2, dense_1, dense."""
    while name:
        yield name
        shorter = NUMBERED.sub("", name)
        name = shorter if shorter != name else ""
