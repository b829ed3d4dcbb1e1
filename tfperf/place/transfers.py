"""Transfers between devices, counted in bytes, and matrix products, held against what a placement needs."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tfperf.place.graphs import DeviceTransfer, OperationFlops
from tfperf.place.nodes import SMALL
from tfperf.place.shapes import UNKNOWN, TensorType

MOST = 3  # needs, and transfers, that are named
MISSING = 0.1  # share of the bytes that logical CPUs need not send after all
UNEVEN, FEW = 0.02, 1e4  # share of the products of a device, and FLOPs, that may be missing or too many

NO_BATCH = "batch: the graphs that ran do not tell its size, so nothing can be said of what has to be sent"


class NeededTransfer(NamedTuple):
    """Bytes that a placement sends from a device to another in a step, and what for.

    optional: whether TensorFlow may spare them, when it finds that nothing is done with them at their end.
    """

    what: str
    begin: str
    end: str
    size: float
    optional: bool = False


class NeededUse(NamedTuple):
    """How often a step reads and writes a copy of a variable, or a slot, of so many bytes on a device."""

    what: str
    device: str
    size: int
    reads: int
    writes: int


LocalBatchShapes = tuple[TensorType, ...]  # one device's share of a batch: its tensors, examples first
BatchShapes = Mapping[int, LocalBatchShapes]  # of a batch, by number of the device


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


class NeededMerge(NamedTuple):
    """What is assigned to a statistic on a device, or told of a step, wherever that is: None.

    number: of a statistic among those that change; of what is told, the loss first. shares: as `FoundMerge` has them.
    own: number of the device, whose value alone it hands to a collective; None: not known.
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

    transfers: from device to device; least: bytes that the largest operation of a rule gives; most: that all of them
    give; products: None where XLA does them, or the trainable does not tell; collectives: what each device hands to
    them; compiled: devices on which XLA does the pass; uses: of variables and slots, none at all of those that nothing
    asks for; spared: rules of which nothing need be found; constants: digests of those that passes have; captured:
    bytes of tensors made outside that they take; merges: of statistics and of what is told.
    """

    transfers: Sequence[NeededTransfer] = ()
    least: Mapping[str, int] = field(default_factory=dict)
    most: Mapping[str, float] = field(default_factory=dict)
    products: Products | None = None
    collectives: Sequence[NeededTransfer] = ()
    compiled: Collection[str] = ()
    uses: Sequence[NeededUse] = ()
    spared: Collection[str] = ()
    constants: Collection[str] = ()
    captured: Sequence[int] = ()
    merges: Sequence[NeededMerge] = ()


def format_device(device: str) -> str:
    """GPU:0 out of a full name."""
    return device.rpartition("device:")[2]


def format_bytes(size: float) -> str:
    """Bytes in words."""
    return f"{size / 1e6:.4g} MB" if size >= 1e6 else f"{size / 1e3:.4g} kB" if size >= 1e3 else f"{size:.0f} bytes"


def format_names(names: Sequence[str]) -> str:
    """The first name, and how many more there are."""
    return names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else "")


def check_transfers(
    transfers: Iterable[DeviceTransfer], needed_transfers: Iterable[NeededTransfer]
) -> tuple[list[str], dict[str, tuple[float, float]]]:
    """Faults, and bytes sent and needed between devices, by `CPU:1 to CPU:0`."""
    seen: dict[tuple[str, str], list[DeviceTransfer]] = defaultdict(list)
    needs: dict[tuple[str, str], list[NeededTransfer]] = defaultdict(list)
    for one in transfers:
        if one.begin != one.end:  # of a GPU: between its memory and the host's, which hides nothing from the others
            seen[one.begin, one.end].append(one)
    for need in needed_transfers:
        if need.begin != need.end and need.size:
            needs[need.begin, need.end].append(need)
    faults, found = [], {}
    for pair in sorted({*seen, *needs}):
        some = seen[pair]
        name = f"{format_device(pair[0])} to {format_device(pair[1])}"
        unknown = [one.name for one in some if one.size is None]
        if unknown:
            faults.append(f"copies from {name}: the size of {format_names(unknown)} is not known")
        sent, needed = sum(one.size or 0 for one in some), sum(need.size for need in needs[pair])
        least = (1 - MISSING) * sum(need.size for need in needs[pair] if not need.optional) - SMALL
        found[name], why = (float(sent), float(needed)), _describe_needs(needs[pair], needed)
        if sent > needed + SMALL:
            why += f"; most: {_describe_largest(some)}"
            faults.append(f"copies from {name}: {format_bytes(sent)} a step; {why}")
        elif not unknown and sent < least and all("CPU" in format_device(device) for device in pair):
            faults.append(f"copies from {name}: only {format_bytes(sent)} a step; {why}")
    return faults, found


def _describe_needs(transfers: Sequence[NeededTransfer], needed: float) -> str:
    """How many bytes are needed, and what for."""
    by: dict[str, float] = defaultdict(float)
    for one in transfers:
        by[one.what] += one.size
    listed = [f"{what} {format_bytes(size)}" for what, size in sorted(by.items(), key=lambda item: -item[1])[:MOST]]
    return f"{format_bytes(needed)} are needed" + (f" ({', '.join(listed)})" if listed else "")


def _describe_largest(transfers: Sequence[DeviceTransfer]) -> str:
    """The largest of them."""
    largest = sorted(transfers, key=lambda one: -(one.size or 0))[:MOST]
    return ", ".join(f"{one.name} {format_bytes(one.size or 0)}" for one in largest)


def check_collectives(collectives: Iterable[DeviceTransfer], needed: Iterable[NeededTransfer]) -> list[str]:
    """Faults of what devices hand to collectives."""
    to_all = [one._replace(end="all") for one in needed]
    return [fault.replace("copies from", "collectives from") for fault in check_transfers(collectives, to_all)[0]]


def check_products(found: Iterable[OperationFlops], products: Products | None, hidden: bool) -> Iterator[str]:
    """Faults of devices that multiply more or less than their local batch takes; hidden: recurrent layers are."""
    if products is None:
        return
    seen: dict[str, float] = defaultdict(float)
    for product in found:
        if not re.search(products.besides, product.name):
            seen[product.device] += product.flops
    for device in sorted({*seen, *products.passes}):
        wanted = products.passes.get(device, 0.0) - (products.recurrent.get(device, 0.0) if hidden else 0.0)
        if abs(seen[device] - wanted) > UNEVEN * wanted + FEW:
            what = f"matrix products on {format_device(device)}: {seen[device] / 1e6:.4g} MFLOP a step"
            yield f"{what}; its part of the batch takes {wanted / 1e6:.4g}"


def check_local_batches(local_batches: BatchShapes) -> Iterator[str]:
    """Faults of a batch that is not known, or not divided evenly."""
    examples = [count_examples(local_batch) for local_batch in local_batches.values()]
    if not local_batches:
        yield NO_BATCH
    elif len(set(examples)) > 1:
        yield f"batch: devices get {', '.join(map(str, examples))} examples; must be as many each"


def count_examples(local_batch: LocalBatchShapes) -> int:
    """Of a local batch, by the first of its tensors of which they are known."""
    return next((value.dimensions[0] for value in local_batch if value.dimensions[0] != UNKNOWN), UNKNOWN)


def split_batch(batch: Sequence[TensorType | None], devices: int, mine: Iterable[int]) -> dict[int, LocalBatchShapes]:
    """Local batches of this process' devices, of what the iterator gave: as many tensors of every device, and a count.

    None at all where the graphs do not tell each of them: those of other workers' devices they need not tell.
    """
    found, (each, left) = {}, divmod(len(batch) - 1, devices)
    if left:
        return {}
    for k in mine:
        local_batch = tuple(
            value for value in batch[k * each : (k + 1) * each] if value is not None and value.dimensions
        )
        if not local_batch or len(local_batch) < each or count_examples(local_batch) == UNKNOWN:
            return {}
        found[k] = local_batch
    return found
