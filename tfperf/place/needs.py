"""What a placement has to send from device to device in a step, and to multiply on each."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tfperf.place.copies import Part, Products, Way
from tfperf.place.policy import Home
from tfperf.place.work import lstm_flops, pass_flops
from tfperf.workloads.translate.card import Translation

IDS = 4  # bytes of a piece's number
WIDTH = {"float32": 4, "float64": 8}


@dataclass(frozen=True)
class Sized:
    """A variable by its home and bytes; side: 0 and 1 for the tables of source and target, None for weights."""

    home: Home
    size: int
    side: int | None = None


@dataclass(frozen=True)
class Pass:
    """One device's pass over its part of a batch."""

    card: Translation
    number: int
    device: str
    host: str
    part: Part

    @property
    def ids(self) -> int:
        """Bytes in which a piece's number is sent to the device: a GPU may get it in its memory and in the host's."""
        return IDS if "CPU:" in self.device else 2 * IDS

    def positions(self, side: int) -> int:
        """That are looked up in a table."""
        return self.part.pairs * (self.part.source, self.part.target)[side]

    @property
    def width(self) -> int:
        """Bytes of a number."""
        return WIDTH[self.card.engine.precision]

    def rows(self, side: int) -> int:
        """Bytes of the rows that are looked up in a table, each as often as it occurs."""
        return self.width * self.card.model.units * self.positions(side)

    def gradient(self, variable: Sized) -> int:
        """Bytes of the gradient that it gives."""
        if variable.side is None or self.card.engine.embedding_gradients == "dense":
            return variable.size
        return self.rows(variable.side) + IDS * self.positions(variable.side)

    def batch(self) -> Way:
        """Its part, from the host."""
        return Way(
            "batch", self.host, self.device, self.ids * self.part.pairs * (self.part.source + self.part.target + 1)
        )


def passes(card: Translation, devices: Sequence[tuple[int, str]], host: str, parts: Mapping[int, Part]) -> list[Pass]:
    """Of devices with their numbers; parts: of them all, by number."""
    return [Pass(card, k, device, host, parts[k]) for k, device in devices]


def read_ways(one: Pass, variable: Sized, own: Collection[int] = (1,)) -> Iterator[Way]:
    """What a device gets of a variable: all of it, or rows of a table, for which it sends the numbers.

    own: sides whose numbers the device sends itself, as of target, whose last column it cuts off; else the host does.
    """
    copies = variable.home.copies
    near = copies[one.number if len(copies) > 1 else 0]
    if variable.side is None:
        yield Way("weights", near, one.device, variable.size)
        return
    if near != one.device:
        sender = one.device if variable.side in own else one.host
        yield Way("ids to look up", sender, near, IDS * one.positions(variable.side))
    yield Way("rows of tables", near, one.device, one.rows(variable.side))


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
    return [one.device for one in every if one.card.engine.xla]


def products(every: Iterable[Pass], rows: int) -> Products | None:
    """Matrix products of each device; rows: of the tables. None: XLA's code does them."""
    found = Products()
    for one in every:
        if one.card.train.optimizer.name == "Muon":  # which makes updates orthogonal by such products
            found.besides = r"tfperf\.update"
        network, part = one.card.model, one.part
        if one.card.engine.xla:
            return None
        whole = pass_flops(network, rows, part.pairs, part.source, part.target)
        found.passes[one.device] = whole
        found.recurrent[one.device] = lstm_flops(network, part.pairs, part.source, part.target)
    return found
