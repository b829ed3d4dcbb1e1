"""Copies between devices, counted in bytes, and matrix products, held against what a placement needs."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tfperf.place.graphs import Copy, Product
from tfperf.place.nodes import SMALL
from tfperf.place.shapes import UNKNOWN, Value

MOST = 3  # needs, and copies, that are named
MISSING = 0.1  # share of the bytes that logical CPUs need not send after all
UNEVEN, FEW = 0.02, 1e4  # share of the products of a device, and FLOPs, that may be missing or too many

NO_BATCH = "batch: the graphs that ran do not tell its size, so nothing can be said of what has to be sent"


class Way(NamedTuple):
    """Bytes that a placement sends from a device to another in a step, and what for.

    may_go: whether TensorFlow may spare them, when it finds that nothing is done with them at their end.
    """

    what: str
    begin: str
    end: str
    size: float
    may_go: bool = False


class Use(NamedTuple):
    """How often a step reads and writes a copy of a variable, or a slot, of so many bytes on a device."""

    what: str
    device: str
    size: int
    reads: int
    writes: int


Part = tuple[Value, ...]  # one device's share of a batch: its tensors, examples first


class Flops(NamedTuple):
    """FLOPs of the products of a pass, forward and backward, and of those that recurrent layers have in it."""

    whole: float
    recurrent: float = 0.0


@dataclass
class Products:
    """FLOPs of the products of each device: of a pass, and of recurrent layers in it, which cuDNN hides."""

    passes: dict[str, float] = field(default_factory=dict)
    recurrent: dict[str, float] = field(default_factory=dict)
    besides: str = "$^"  # names of operations whose products are not those of a pass


class Merge(NamedTuple):
    """What is assigned to a statistic on a device, or told of a step, wherever that is: None.

    number: of a statistic among those that change; of what is told, the loss first. shares: as `Merged` has them. own:
    number of the device, whose value alone it hands to a collective; None: not known.
    """

    what: str
    kind: str
    number: int
    device: str | None
    shares: Mapping[int, float]
    own: int | None = None


@dataclass(frozen=True)
class Needs:
    """What a step of a placement moves, but for what is small, and what it does at least and at most.

    ways: from device to device; least: bytes that the largest operation of a rule gives; most: that all of them give;
    products: None where XLA does them, or the trainable does not tell; collectives: what each device hands to them;
    compiled: devices on which XLA does the pass; uses: of variables and slots, none at all of those that nothing asks
    for; spared: rules of which nothing need be found; constants: prints of those that passes have; captured: bytes of
    tensors made outside that they take; merges: of statistics and of what is told.
    """

    ways: Sequence[Way] = ()
    least: Mapping[str, int] = field(default_factory=dict)
    most: Mapping[str, float] = field(default_factory=dict)
    products: Products | None = None
    collectives: Sequence[Way] = ()
    compiled: Collection[str] = ()
    uses: Sequence[Use] = ()
    spared: Collection[str] = ()
    constants: Collection[str] = ()
    captured: Sequence[int] = ()
    merges: Sequence[Merge] = ()


def short(device: str) -> str:
    """GPU:0 out of a full name."""
    return device.rpartition("device:")[2]


def text(size: float) -> str:
    """Bytes in words."""
    return f"{size / 1e6:.4g} MB" if size >= 1e6 else f"{size / 1e3:.4g} kB" if size >= 1e3 else f"{size:.0f} bytes"


def listed(names: Sequence[str]) -> str:
    """The first name, and how many more there are."""
    return names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else "")


def judge_copies(copies: Iterable[Copy], ways: Iterable[Way]) -> tuple[list[str], dict[str, tuple[float, float]]]:
    """Faults, and bytes sent and needed between devices, by `CPU:1 to CPU:0`."""
    seen: dict[tuple[str, str], list[Copy]] = defaultdict(list)
    needs: dict[tuple[str, str], list[Way]] = defaultdict(list)
    for copy in copies:
        if copy.begin != copy.end:  # of a GPU: between its memory and the host's, which hides nothing from the others
            seen[copy.begin, copy.end].append(copy)
    for way in ways:
        if way.begin != way.end and way.size:
            needs[way.begin, way.end].append(way)
    faults, found = [], {}
    for pair in sorted({*seen, *needs}):
        some = seen[pair]
        name = f"{short(pair[0])} to {short(pair[1])}"
        unknown = [copy.name for copy in some if copy.size is None]
        if unknown:
            faults.append(f"copies from {name}: the size of {listed(unknown)} is not known")
        sent, needed = sum(copy.size or 0 for copy in some), sum(way.size for way in needs[pair])
        found[name] = float(sent), float(needed)
        if sent > needed + SMALL:
            why = f"{_needs(needs[pair], needed)}; most: {_most(some)}"
            faults.append(f"copies from {name}: {text(sent)} a step; {why}")
        elif (
            not unknown
            and sent < (1 - MISSING) * sum(way.size for way in needs[pair] if not way.may_go) - SMALL
            and "CPU" in short(pair[0])
            and "CPU" in short(pair[1])
        ):
            faults.append(f"copies from {name}: only {text(sent)} a step; {_needs(needs[pair], needed)}")
    return faults, found


def _needs(ways: Sequence[Way], needed: float) -> str:
    """How many bytes are needed, and what for."""
    by: dict[str, float] = defaultdict(float)
    for way in ways:
        by[way.what] += way.size
    parts = [f"{what} {text(size)}" for what, size in sorted(by.items(), key=lambda item: -item[1])[:MOST]]
    return f"{text(needed)} are needed" + (f" ({', '.join(parts)})" if parts else "")


def _most(copies: Sequence[Copy]) -> str:
    """The largest copies."""
    largest = sorted(copies, key=lambda copy: -(copy.size or 0))[:MOST]
    return ", ".join(f"{copy.name} {text(copy.size or 0)}" for copy in largest)


def judge_collectives(collectives: Iterable[Copy], needed: Iterable[Way]) -> list[str]:
    """Faults of what devices hand to collectives."""
    ways = [way._replace(end="all") for way in needed]
    return [fault.replace("copies from", "collectives from") for fault in judge_copies(collectives, ways)[0]]


def judge_products(found: Iterable[Product], products: Products | None, hidden: bool) -> Iterator[str]:
    """Faults of devices that multiply more or less than their part takes; hidden: recurrent layers are."""
    if products is None:
        return
    seen: dict[str, float] = defaultdict(float)
    for product in found:
        if not re.search(products.besides, product.name):
            seen[product.device] += product.flops
    for device in sorted({*seen, *products.passes}):
        wanted = products.passes.get(device, 0.0) - (products.recurrent.get(device, 0.0) if hidden else 0.0)
        if abs(seen[device] - wanted) > UNEVEN * wanted + FEW:
            yield (
                f"matrix products on {short(device)}: {seen[device] / 1e6:.4g} MFLOP a step; its part of the batch "
                f"takes {wanted / 1e6:.4g}"
            )


def judge_parts(parts: Mapping[int, Part]) -> Iterator[str]:
    """Faults of a batch that is not known, or not divided evenly."""
    examples = [examples_of(part) for part in parts.values()]
    if not parts:
        yield NO_BATCH
    elif len(set(examples)) > 1:
        yield f"batch: devices get {', '.join(map(str, examples))} examples; must be as many each"


def examples_of(part: Part) -> int:
    """Of a part, by the first of its tensors of which they are known."""
    return next((value.dimensions[0] for value in part if value.dimensions[0] != UNKNOWN), UNKNOWN)


def parts_of(batch: Sequence[Value | None], devices: int, mine: Iterable[int]) -> dict[int, Part]:
    """Parts of this process' devices, of a batch as the iterator gave it: as many tensors of every device, and a count.

    No parts at all where the graphs do not tell each of them: those of other workers' devices they need not tell.
    """
    found, (each, left) = {}, divmod(len(batch) - 1, devices)
    if left:
        return {}
    for k in mine:
        part = tuple(value for value in batch[k * each : (k + 1) * each] if value is not None and value.dimensions)
        if not part or len(part) < each or examples_of(part) == UNKNOWN:
            return {}
        found[k] = part
    return found
