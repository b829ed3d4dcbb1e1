"""What a placement has to send from device to device in a step, and to multiply on each."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tfperf.place.copies import Flops, Part, Products, Way, examples_of
from tfperf.place.demand import Demand, record_pass
from tfperf.place.look_ups import LookUp, trace_look_ups
from tfperf.place.method import Method
from tfperf.place.policy import Home
from tfperf.place.trainable import Trainable


@dataclass(frozen=True)
class Sized:
    """A variable by its home and bytes; number: among those that have gradients, tables first; None: it has none.

    table: its number among the embedding tables, None for all others.
    """

    home: Home
    size: int
    number: int | None = None
    table: int | None = None


@dataclass(frozen=True)
class Pass:
    """One device's pass over its part of a batch.

    look_ups: in each table; flops: None where they are not known; demand: what it reads, and finds.
    """

    method: Method
    number: int
    device: str
    host: str
    part: Part
    look_ups: Sequence[LookUp]
    flops: Flops | None
    demand: Demand

    @property
    def examples(self) -> int:
        """Of its part."""
        return examples_of(self.part)

    def differentiates(self, variable: Sized) -> bool:
        """Whether it has a gradient of it; what has no number is merged as if it had."""
        return variable.number is None or self.demand.gradients[variable.number]

    def reads(self, variable: Sized) -> bool:
        """Whether it reads it, or rows of it."""
        return variable.number is None or self.demand.variables[variable.number]

    def gradient(self, variable: Sized) -> int:
        """Bytes of the gradient that it gives."""
        if not self.differentiates(variable):
            return 0
        if variable.table is None or self.method.embedding_gradients == "dense":
            return variable.size
        one = self.look_ups[variable.table]
        return one.rows + one.ids

    def batch(self) -> list[Way]:
        """What it reads of its part, from the host; what only finds ids may stay there.

        A GPU may get integers in its memory and in the host's.
        """
        twice = 1 if "CPU:" in self.device else 2
        sizes = [(value.size or 0) * (twice if "int" in value.kind else 1) for value in self.part]
        read, asked = (
            sum(size for size, wanted in zip(sizes, some, strict=True) if wanted)
            for some in (self.demand.sides, self.demand.look_ups)
        )
        ids = Way("ids", self.host, self.device, asked, may_go=True)
        return [Way("batch", self.host, self.device, read), ids]

    def inputs(self) -> list[Way]:
        """All that it is sent beside what is placed: its part, and tensors made outside, once a call."""
        return [*self.batch(), *(Way("captured", one.device, self.device, one.size) for one in self.demand.captured)]

    def most_transferred(self) -> float:
        """Bytes of its part that it is sent at most."""
        return sum(way.size for way in self.batch())

    def looked_up(self, variable: Sized) -> int:
        """Bytes of the rows that it reads of a table."""
        return self.look_ups[variable.table].rows if variable.table is not None and self.reads(variable) else 0


class Firsts(NamedTuple):
    """Numbers of the devices of which statistics, and metrics, are taken that merge as `first`."""

    statistics: Collection[int]
    metrics: Collection[int]


def passes(
    trainable: Trainable, method: Method, devices: Sequence[tuple[int, str]], host: str, parts: Mapping[int, Part],
    firsts: Firsts,
) -> list[Pass]:  # fmt: skip
    """Of devices with their numbers; parts: of them all, by number."""
    recorded = {part: record_pass(trainable, method, part) for part in set(parts.values())}
    look_ups = {part: trace_look_ups(trainable, part) for part in recorded}
    demands: dict[Any, Demand] = {}  # which take TensorFlow some time
    found = []
    for k, device in devices:
        part = parts[k]
        kind = part, k in firsts.statistics, k in firsts.metrics
        if kind not in demands:
            demands[kind] = recorded[part].demand(*kind[1:], method.xla)
        demand = demands[kind]
        flops = None if method.xla else trainable.count_flops(part) or demand.flops
        found.append(Pass(method, k, device, host, part, look_ups[part], flops, demand))
    return found


def read_ways(one: Pass, variable: Sized, found: bool = False) -> Iterator[Way]:
    """What a device gets of a variable: all of it, or rows of a table, for which it sends the ids.

    found: whether the device sends all ids, also those that it does not find itself; else the host sends these.
    """
    if not one.reads(variable):
        return
    copies = variable.home.copies
    near = copies[one.number if len(copies) > 1 else 0]
    if variable.table is None:
        yield Way("weights", near, one.device, variable.size)
        return
    rows = one.look_ups[variable.table]
    if near != one.device:
        yield Way("ids to look up", one.device if found or rows.found else one.host, near, rows.ids)
    yield Way("rows of tables", near, one.device, rows.rows)


def merge_ways(every: Iterable[Pass], variable: Sized) -> Iterator[Way]:
    """Gradients on their way to where they are summed, and their sum on its way to updates."""
    some = list(every)
    for one in some:
        yield Way("gradients", one.device, variable.home.merge, one.gradient(variable))
    if any(one.differentiates(variable) for one in some):
        zero = not any(one.gradient(variable) for one in some)  # which each device can make itself
        for device in variable.home.updates:
            yield Way("summed gradients", variable.home.merge, device, variable.size, zero)


def sum_bytes(every: Sequence[Pass], variable: Sized) -> int:
    """Bytes of the sum of a variable's gradients, and of slices that are put together for it."""
    parts = [one.gradient(variable) for one in every if one.differentiates(variable)]
    return (variable.size if parts else 0) + (0 if variable.size in parts else sum(parts))


def name_spared(every: Sequence[Pass], variable: Sized, merging: Sequence[str], updating: Sequence[str]) -> list[str]:
    """Of a variable's rules those of which nothing need be found: without a gradient there is neither.

    The sum of no look-ups at all is zero, which TensorFlow knows before.
    """
    if not any(one.differentiates(variable) for one in every):
        return [*merging, *updating]
    return [] if any(one.gradient(variable) for one in every) else [*merging]


def compiled(every: Iterable[Pass]) -> list[str]:
    """Devices on which XLA does the pass."""
    return [one.device for one in every if one.method.xla]


def products(every: Iterable[Pass]) -> Products | None:
    """Products of each device. None: XLA's code does them, or they are not known."""
    found = Products()
    for one in every:
        if one.method.optimizer.name == "Muon":  # which makes updates orthogonal by such products
            found.besides = r"tfperf\.update"
        if one.flops is None:
            return None
        found.passes[one.device], found.recurrent[one.device] = one.flops
    return found


def own_constants(every: Sequence[Pass]) -> dict[str, Any]:
    """Of passes, as `Needs` has them: constants, and tensors made outside."""
    constants = {one for each in every for one in each.demand.constants}
    return {"constants": constants, "captured": [one.size for one in every[0].demand.captured]}
