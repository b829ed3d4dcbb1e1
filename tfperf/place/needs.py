"""What a placement has to send from device to device in a step, and to multiply on each."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tfperf.place.demand import Demand, record_pass
from tfperf.place.look_ups import LookUp, trace_look_ups
from tfperf.place.method import Method
from tfperf.place.policy import VariableDevices
from tfperf.place.trainable import Trainable
from tfperf.place.transfers import BatchShapes, Flops, LocalBatchShapes, NeededTransfer, Products, count_examples


@dataclass(frozen=True)
class SizedVariable:
    """A variable by its devices and bytes; number: among those that have gradients, tables first; None: it has none.

    table: its number among the embedding tables, None for all others.
    """

    devices: VariableDevices
    size: int
    number: int | None = None
    table: int | None = None


@dataclass(frozen=True)
class Pass:
    """One device's pass over its local batch.

    look_ups: in each table; flops: None where they are not known; demand: what it reads, and finds.
    """

    method: Method
    number: int
    device: str
    host: str
    local_batch: LocalBatchShapes
    look_ups: Sequence[LookUp]
    flops: Flops | None
    demand: Demand

    @property
    def examples(self) -> int:
        """Of its local batch."""
        return count_examples(self.local_batch)

    def has_gradient(self, variable: SizedVariable) -> bool:
        """Whether it has a gradient of it; what has no number is merged as if it had."""
        return variable.number is None or self.demand.gradients[variable.number]

    def needs_variable(self, variable: SizedVariable) -> bool:
        """Whether it reads it, or rows of it."""
        return variable.number is None or self.demand.variables[variable.number]

    def count_gradient_bytes(self, variable: SizedVariable) -> int:
        """Bytes of the gradient that it gives."""
        if not self.has_gradient(variable):
            return 0
        if variable.table is None or self.method.embedding_gradients == "dense":
            return variable.size
        one = self.look_ups[variable.table]
        return one.rows + one.ids

    def list_batch_transfers(self) -> list[NeededTransfer]:
        """What it reads of its local batch, from the host; what only finds ids may stay there.

        A GPU may get integers in its memory and in the host's.
        """
        twice = 1 if "CPU:" in self.device else 2
        sizes = [(value.size or 0) * (twice if "int" in value.kind else 1) for value in self.local_batch]
        read, asked = (
            sum(size for size, wanted in zip(sizes, some, strict=True) if wanted)
            for some in (self.demand.sides, self.demand.look_ups)
        )
        ids = NeededTransfer("ids", self.host, self.device, asked, optional=True)
        return [NeededTransfer("batch", self.host, self.device, read), ids]

    def list_input_transfers(self) -> list[NeededTransfer]:
        """All that it is sent beside what is placed: its local batch, and tensors made outside, once a call."""
        outside = (NeededTransfer("captured", one.device, self.device, one.size) for one in self.demand.captured)
        return [*self.list_batch_transfers(), *outside]

    def sum_batch_bytes(self) -> float:
        """Bytes of its local batch that it is sent at most."""
        return sum(one.size for one in self.list_batch_transfers())

    def count_look_up_bytes(self, variable: SizedVariable) -> int:
        """Bytes of the rows that it reads of a table."""
        return self.look_ups[variable.table].rows if variable.table is not None and self.needs_variable(variable) else 0

    def list_read_transfers(self, variable: SizedVariable, sends_ids: bool = False) -> Iterator[NeededTransfer]:
        """What it gets of a variable: all of it, or rows of a table, for which it sends the ids.

        sends_ids: whether it sends all ids, also those that it does not find itself; else the host sends these.
        """
        if not self.needs_variable(variable):
            return
        copies = variable.devices.copies
        near = copies[self.number if len(copies) > 1 else 0]
        if variable.table is None:
            yield NeededTransfer("weights", near, self.device, variable.size)
            return
        rows = self.look_ups[variable.table]
        finder = self.device if sends_ids or rows.own_ids else self.host
        if near != self.device:
            yield NeededTransfer("ids to look up", finder, near, rows.ids)
        yield NeededTransfer("rows of tables", near, self.device, rows.rows)


class FirstDevices(NamedTuple):
    """Numbers of the devices of which statistics, and metrics, are taken that merge as `first`."""

    statistics: Collection[int]
    metrics: Collection[int]


def record_passes(
    trainable: Trainable, method: Method, devices: Sequence[tuple[int, str]], host: str, local_batches: BatchShapes,
    firsts: FirstDevices,
) -> list[Pass]:  # fmt: skip
    """Of devices with their numbers; local_batches: of them all, by number."""
    recorded = {local_batch: record_pass(trainable, method, local_batch) for local_batch in set(local_batches.values())}
    look_ups = {local_batch: trace_look_ups(trainable, local_batch) for local_batch in recorded}
    demands: dict[Any, Demand] = {}  # which take TensorFlow some time
    found = []
    for k, device in devices:
        local_batch = local_batches[k]
        kind = local_batch, k in firsts.statistics, k in firsts.metrics
        if kind not in demands:
            demands[kind] = recorded[local_batch].find_demand(*kind[1:], method.xla)
        demand = demands[kind]
        flops = None if method.xla else trainable.count_flops(local_batch) or demand.flops
        found.append(Pass(method, k, device, host, local_batch, look_ups[local_batch], flops, demand))
    return found


def list_merge_transfers(every: Iterable[Pass], variable: SizedVariable) -> Iterator[NeededTransfer]:
    """Gradients on their way to where they are summed, and their sum on its way to updates."""
    some = list(every)
    for one in some:
        yield NeededTransfer("gradients", one.device, variable.devices.merge, one.count_gradient_bytes(variable))
    if any(one.has_gradient(variable) for one in some):
        zero = not any(one.count_gradient_bytes(variable) for one in some)  # which each device can make itself
        for device in variable.devices.updates:
            yield NeededTransfer("summed gradients", variable.devices.merge, device, variable.size, zero)


def count_sum_bytes(every: Sequence[Pass], variable: SizedVariable) -> int:
    """Bytes of the sum of a variable's gradients, and of slices that are put together for it."""
    sizes = [one.count_gradient_bytes(variable) for one in every if one.has_gradient(variable)]
    return (variable.size if sizes else 0) + (0 if variable.size in sizes else sum(sizes))


def list_spared(every: Sequence[Pass], variable: SizedVariable, merging: list[str], updating: list[str]) -> list[str]:
    """Of a variable's rules those of which nothing need be found: without a gradient there is neither.

    The sum of no look-ups at all is zero, which TensorFlow knows before.
    """
    if not any(one.has_gradient(variable) for one in every):
        return [*merging, *updating]
    return [] if any(one.count_gradient_bytes(variable) for one in every) else [*merging]


def make_products(every: Iterable[Pass]) -> Products | None:
    """Products of each device. None: XLA's code does them, or they are not known."""
    found = Products()
    for one in every:
        if one.method.optimizer.name == "Muon":  # which makes updates orthogonal by such products
            found.besides = r"tfperf\.update"
        if one.flops is None:
            return None
        found.passes[one.device], found.recurrent[one.device] = one.flops
    return found


def make_pass_needs(every: Sequence[Pass]) -> dict[str, Any]:
    """Of passes, as `Needs` has them: products, devices on which XLA does the pass, constants, tensors made outside."""
    constants = {one for each in every for one in each.demand.constants}
    compiled = [one.device for one in every if one.method.xla]
    captured = [one.size for one in every[0].demand.captured]
    return {"products": make_products(every), "compiled": compiled, "constants": constants, "captured": captured}
