"""What a placement has to send from device to device in a step, and to multiply on each."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tfperf.place.copies import Flops, Part, Products, Way
from tfperf.place.look_ups import LookUp, trace_look_ups
from tfperf.place.method import Method
from tfperf.place.policy import Home
from tfperf.place.trainable import Trainable


@dataclass(frozen=True)
class Sized:
    """A variable by its home and bytes; table: its number among the embedding tables, None for all others."""

    home: Home
    size: int
    table: int | None = None


@dataclass(frozen=True)
class Pass:
    """One device's pass over its part of a batch. look_ups: in each table; flops: None where they are not known."""

    method: Method
    number: int
    device: str
    host: str
    part: Part
    look_ups: Sequence[LookUp]
    flops: Flops | None

    @property
    def examples(self) -> int:
        """Of its part."""
        return self.part[0].dimensions[0]

    def gradient(self, variable: Sized) -> int:
        """Bytes of the gradient that it gives."""
        if variable.table is None or self.method.embedding_gradients == "dense":
            return variable.size
        one = self.look_ups[variable.table]
        return one.rows + one.ids

    def batch(self) -> Way:
        """Its part, from the host. A GPU may get integers in its memory and in the host's."""
        twice = 1 if "CPU:" in self.device else 2
        sizes = [(value.size or 0) * (twice if "int" in value.kind else 1) for value in self.part]
        return Way("batch", self.host, self.device, sum(sizes))


def passes(
    trainable: Trainable, method: Method, devices: Sequence[tuple[int, str]], host: str, parts: Mapping[int, Part]
) -> list[Pass]:
    """Of devices with their numbers; parts: of them all, by number."""
    known: dict[Part, Pass] = {}
    found = []
    for k, device in devices:
        part = parts[k]
        if part not in known:
            flops = None if method.xla else trainable.count_flops(part)
            known[part] = Pass(method, k, device, host, part, trace_look_ups(trainable, part), flops)
        found.append(replace(known[part], number=k, device=device))
    return found


def read_ways(one: Pass, variable: Sized, found: bool = False) -> Iterator[Way]:
    """What a device gets of a variable: all of it, or rows of a table, for which it sends the ids.

    found: whether the device sends all ids, also those that it does not find itself; else the host sends these.
    """
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
    for one in every:
        yield Way("gradients", one.device, variable.home.merge, one.gradient(variable))
    for device in variable.home.updates:
        yield Way("summed gradients", variable.home.merge, device, variable.size)


def sum_bytes(every: Sequence[Pass], variable: Sized) -> int:
    """Bytes of the sum of a variable's gradients, and of slices that are put together for it."""
    parts = [one.gradient(variable) for one in every]
    return variable.size + (0 if parts[0] == variable.size else sum(parts))


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
