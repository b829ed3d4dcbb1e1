"""What ran in a step: operations with their bytes, transfers between devices, matrix products.

TensorFlow tells it by the graphs into which it cut the call, one for each device, and by a profile of another call.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from tfperf.place.function_graphs import record_graphs
from tfperf.place.merge_finder import FoundMerge, MergeFinder
from tfperf.place.nodes import (
    ARGUMENTS,
    ASKS,
    CARRIERS,
    COLLECTIVE,
    ITERATOR,
    PRODUCTS,
    READS,
    RECEIVES,
    RESOURCE,
    SENDS,
    SMALL,
    UNSIZED,
    count_constant_bytes,
    count_flops,
    count_tensor_bytes,
    digest_constant,
    find_hidden_work,
    get_rendezvous_key,
    list_input_values,
    make_tensor_type,
)
from tfperf.place.shapes import OperationInputs, TensorType, trace_inputs

MOST_CARRIERS = 20  # one after the other


class PlacedOperation(NamedTuple):
    """One node of the graphs that ran.

    touched_bytes: that it was given or gave, or of its variable, whichever is most; None: not known.
    output_bytes: of its results; of what it was given where it has none. hidden_work: what it runs that no graph shows.
    runs: how often in a step.
    """

    name: str
    kind: str
    device: str
    touched_bytes: int | None = None
    output_bytes: int = 0
    hidden_work: str = ""
    runs: int = 1


class DeviceTransfer(NamedTuple):
    """Bytes that an operation's result takes from a device to another in a step; None: not known."""

    name: str
    begin: str
    end: str
    size: int | None


class OperationFlops(NamedTuple):
    """FLOPs of an operation's matrix products in a step."""

    name: str
    device: str
    flops: float


class ProgramTensor(NamedTuple):
    """A tensor that is part of the program: a variable it was given, a constant, a captured tensor; with its bytes.

    reads, writes: how often a step does so with a variable; digest: of a constant.
    """

    what: str
    name: str
    device: str
    size: int | None
    reads: int = 0
    writes: int = 0
    digest: str = ""


@dataclass(frozen=True)
class StepRecord:
    """What ran in a step; collectives: what they sent to all; batch: what the iterator gave; merged: values."""

    operations: Sequence[PlacedOperation]
    transfers: Sequence[DeviceTransfer] = ()
    collectives: Sequence[DeviceTransfer] = ()
    products: Sequence[OperationFlops] = ()
    tensors: Sequence[ProgramTensor] = ()
    batch: Sequence[TensorType | None] = ()
    merged: Sequence[FoundMerge] = ()


def record_step(call: Callable[[], Any]) -> StepRecord:
    """What ran in a call of one step, which has run before; it is made twice. Raises: UserError while profiled."""
    return make_step_record(record_graphs(call), trace_inputs(call))


def make_step_record(functions: Iterable[Iterable[Any]], given: OperationInputs) -> StepRecord:
    """The same of the graphs of functions, and what operations were given."""
    graphs = [_FunctionGraph([node for graph in graphs for node in graph.node], given) for graphs in functions]
    return StepRecord(
        [operation for graph in graphs for operation in graph.list_operations()],
        [transfer for graph in graphs for transfer in graph.list_transfers()],
        [transfer for graph in graphs for transfer in graph.list_collectives()],
        [product for graph in graphs for product in graph.list_products()],
        [tensor for graph in graphs for tensor in graph.list_tensors()],
        [value for graph in graphs for value in graph.list_batch()],
        [merged for graph in graphs for merged in MergeFinder(graph.nodes, graph.inputs).find_merges()],
    )


class _Flow(NamedTuple):
    """Of an output: its largest value, and the bytes of all of them in a step."""

    value: TensorType | None = None
    largest: int | None = None
    total: int | None = None


class _FunctionGraph:
    """One function, cut into graphs whose nodes have names of their own."""

    def __init__(self, nodes: Sequence[Any], given: OperationInputs) -> None:
        self.nodes, self.given = {node.name: node for node in nodes}, given
        self.inputs = {node.name: list(list_input_values(node)) for node in nodes}
        self.consumers: dict[tuple[str, int], list[tuple[str, int]]] = defaultdict(list)
        for name, given_by in self.inputs.items():
            for index, source in enumerate(given_by):
                self.consumers[source].append((name, index))
        self.receivers = {get_rendezvous_key(node): node.name for node in nodes if node.op in RECEIVES}

    def list_operations(self) -> Iterator[PlacedOperation]:
        for node in self.nodes.values():
            runs = sum(self.given.get(node.name, {}).values())
            yield PlacedOperation(
                node.name, node.op, node.device, *self._count_bytes(node), find_hidden_work(node), runs
            )

    def list_transfers(self) -> Iterator[DeviceTransfer]:
        for node in self.nodes.values():
            if node.op in SENDS:
                begin, end = (node.attr[f"{side}_device"].s.decode() for side in ("send", "recv"))
                yield DeviceTransfer(node.name, begin, end, self._count_sent_bytes(node))

    def list_collectives(self) -> Iterator[DeviceTransfer]:
        for node in self.nodes.values():
            if node.op.startswith(COLLECTIVE):
                runs = self.given.get(node.name, {})
                sizes = [_sum_bytes(inputs[:1]) for inputs, count in runs.items() for _ in range(count)]
                known = [size for size in sizes if size is not None]
                # none where it is in a branch that was not taken
                yield DeviceTransfer(node.name, node.device, "all", sum(known) if len(known) == len(sizes) else None)

    def list_products(self) -> Iterator[OperationFlops]:
        for node in self.nodes.values():
            if PRODUCTS.fullmatch(node.op):
                runs, gives = self.given.get(node.name, {}), self._find_flow(node.name, 0).value
                flops = sum(count * count_flops(node, run, gives) for run, count in runs.items())
                yield OperationFlops(node.name, node.device, flops)

    def list_tensors(self) -> Iterator[ProgramTensor]:
        for name, node in self.nodes.items():
            if node.op == "VarHandleOp" or (node.op in ARGUMENTS and node.attr["T"].type == RESOURCE):
                if (uses := self._uses.get(name)) is not None:  # else it is but handed on to nobody
                    variable = self._count_variable_bytes(name)
                    yield ProgramTensor("variable", name, node.device, variable, uses["r"], uses["w"])
            elif node.op in ARGUMENTS:
                yield ProgramTensor("captured tensor", name, node.device, self._find_flow(name, 0).largest)
            elif node.op == "Const" and (size := count_constant_bytes(node)):
                digest = digest_constant(node) if size > SMALL else ""
                yield ProgramTensor("constant", name, node.device, size, digest=digest)

    def list_batch(self) -> Iterator[TensorType | None]:
        for node in self.nodes.values():
            if node.op == ITERATOR:
                fixed = zip(node.attr["output_types"].list.type, node.attr["output_shapes"].list.shape, strict=True)
                for port, (kind, shape) in enumerate(fixed):
                    yield self._find_flow(node.name, port).value or make_tensor_type(kind, shape)

    def _count_bytes(self, node: Any) -> tuple[int | None, int]:
        """Bytes of the inputs of its largest run, or of its outputs, whichever are more; and what it gives."""
        inputs_of, runs = self.inputs[node.name], self.given.get(node.name, {})
        variable = self._count_variable_bytes(inputs_of[0][0]) if inputs_of else 0
        read = max((_sum_bytes(inputs) or 0 for inputs in runs), default=0)
        given = [self._find_flow(node.name, port).largest for port in self._ports[node.name]]
        known = [size for size in given if size is not None]  # which may be empty, as rows of no look-ups
        made = sum(known)
        if inputs_of and not runs and not made:
            return None, 0
        return max(read, made, variable or 0), made if known else read

    @cached_property
    def _ports(self) -> Mapping[str, Sequence[int]]:
        found: dict[str, list[int]] = defaultdict(list)
        for name, port in self.consumers:
            found[name].append(port)
        return found

    def _find_flow(self, name: str, port: int) -> _Flow:
        """What those were given who take an output, here and, by way of sends, on other devices."""
        found = _Flow()
        for consumer, index in list(self.consumers.get((name, port), ())):
            node = self.nodes[consumer]
            if node.op in SENDS:
                receiver = self.receivers.get(get_rendezvous_key(node))
                other = self._find_flow(receiver, 0) if receiver else _Flow()
            else:
                runs = self.given.get(consumer, {})
                other = _make_flow([(run[index], count) for run, count in runs.items() if index < len(run)])
            found = max(found, other, key=lambda flow: -1 if flow.total is None else flow.total)
        return found

    def _count_sent_bytes(self, node: Any) -> int | None:
        """Bytes of a send: what those took who receive it; none of a branch not taken, where it is small."""
        receiver = self.receivers.get(get_rendezvous_key(node))
        if receiver is None or node.attr["T"].type in UNSIZED:
            return None
        total = self._find_flow(receiver, 0).total
        return 0 if total is None and self._is_small(node.name) else total

    def _is_small(self, name: str) -> bool:
        """Whether what a node carries is small, by what those were given that carry it to a branch."""
        for _ in range(MOST_CARRIERS):
            if not self.inputs[name]:
                return False
            name = self.inputs[name][0][0]
            node = self.nodes.get(name)
            if node is not None and node.op == "Const":
                size = count_tensor_bytes(node.attr["dtype"].type, node.attr["value"].tensor.tensor_shape)
                return size is not None and size <= SMALL
            sizes = [inputs[0].size for inputs in self.given.get(name, {}) if inputs[0] is not None]
            if node is None or node.op not in CARRIERS or sizes:
                return bool(sizes) and all(size is not None and size <= SMALL for size in sizes)
        return False

    @cached_property
    def _uses(self) -> Mapping[str, Counter[str]]:
        """By the node that a variable comes from, how often operations read (r) and write (w) it."""
        found: dict[str, Counter[str]] = defaultdict(Counter)
        for name, given_by in self.inputs.items():
            kind = self.nodes[name].op
            if kind in CARRIERS or kind in ASKS:
                continue
            for handle in filter(None, (self._find_handle(source) for source, _ in given_by)):
                found[handle.name]["r" if kind in READS else "w"] += sum(self.given.get(name, {}).values())
        return found

    def _find_handle(self, name: str) -> Any:
        """The node that a resource comes from, through what carries it."""
        seen = set()
        while name in self.nodes and name not in seen:
            seen.add(name)
            node = self.nodes[name]
            if node.op in ARGUMENTS or node.op == "VarHandleOp":
                return node if node.op == "VarHandleOp" or node.attr["T"].type == RESOURCE else None
            if node.attr["T"].type != RESOURCE or not self.inputs[name]:
                return None
            name = self.inputs[name][0][0]
        return None

    def _count_variable_bytes(self, name: str) -> int | None:
        """Bytes of the variable whose handle a node gives; 0: it is none."""
        node = self._find_handle(name)
        if node is None:
            return 0
        if node.op == "VarHandleOp":
            return count_tensor_bytes(node.attr["dtype"].type, node.attr["shape"].shape)
        shapes, kinds = node.attr["_handle_shapes"].list.shape, node.attr["_handle_dtypes"].list.type
        return count_tensor_bytes(kinds[0], shapes[0]) if shapes and kinds else None


def _sum_bytes(inputs: Sequence[TensorType | None]) -> int | None:
    """Bytes of those values whose bytes are known; None: of none."""
    sizes = [value.size for value in inputs if value is not None and value.size is not None]
    return sum(sizes) if sizes else None


def _make_flow(runs: Sequence[tuple[TensorType | None, int]]) -> _Flow:
    known = [(value, value.size, count) for value, count in runs if value is not None]
    sized = [(size, count) for _, size, count in known if size is not None]
    if not known:
        return _Flow()
    value = max(known, key=lambda one: one[1] or 0)[0]
    if len(sized) < len(known):
        return _Flow(value)
    return _Flow(value, max(size for size, _ in sized), sum(size * count for size, count in sized))
