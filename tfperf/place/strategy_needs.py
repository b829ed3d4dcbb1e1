"""What TensorFlow's strategies have to send from device to device in a step, and to multiply on each."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tfperf.place.copies import Needs, Part, Way
from tfperf.place.devices import Devices
from tfperf.place.needs import IDS, Pass, Sized, compiled, merge_ways, passes, products, read_ways
from tfperf.place.optimizer import clips
from tfperf.place.policy import Home
from tfperf.workloads.translate.card import Translation
from tfperf.workloads.translate.feeding import most_columns

TABLES = 2  # come first among the variables
PADDED = 2  # operations that give what is handed to a collective: its padding, and a check of its shape


def strategy_needs(
    card: Translation, devices: Devices, sizes: Sequence[int], rows: int, parts: Mapping[int, Part]
) -> Needs:  # fmt: skip
    """Of variables of these bytes, tables first; rows: of the tables; parts: of the batch, by device."""
    every = passes(card, devices.mine, devices.host, parts)
    needs = _moved(card, devices, sizes, rows, every)
    return replace(needs, most=_most(every, sizes, gathers(card, devices.logical)))


def _most(every: Sequence[Pass], sizes: Sequence[int], padded: bool) -> dict[str, float]:
    """Bytes that look-ups and transfers give, and what makes the tables' gradients dense, or as long as the longest."""
    found: dict[str, float] = {}
    sides = list(enumerate(sizes[:TABLES]))
    for one in every:
        found[f"look-ups of device {one.number}"] = sum(one.rows(side) for side, _ in sides)
        found[f"transfer of device {one.number}"] = one.batch().size
        handed = sum(way.size for way in _handed(one, [(size, side) for side, size in sides])) if padded else 0
        found[f"gradients of device {one.number}"] = sum(sizes[:TABLES]) + PADDED * handed
    return found


def _moved(
    card: Translation, devices: Devices, sizes: Sequence[int], rows: int, every: Sequence[Pass]
) -> Needs:  # fmt: skip
    """What is sent from device to device, and multiplied on each."""
    ways = [one.batch() for one in every]
    found = products(every, rows)
    sides = [(size, i if i < TABLES else None) for i, size in enumerate(sizes)]
    if card.placement.engine == "central":
        return Needs([*ways, *_central(every, sides, devices)], products=found, compiled=compiled(every))
    if gathers(card, devices.logical):
        return Needs(
            ways,
            products=found,
            compiled=compiled(every),
            collectives=[way for one in every for way in _handed(one, sides)],
        )
    merge, handed = card.placement.merge, []
    for size, side in sides:
        dense = side is None or card.engine.embedding_gradients == "dense"
        if merge == "hierarchical" and dense:
            ways += _hierarchical(every, size)
        elif merge == "ring" and dense:  # NCCL's
            handed += [Way("gradients", one.device, "all", size) for one in every]
        else:
            ways += _reduced(every, size, side, _reducer(card, devices))
    return Needs(ways, products=found, compiled=compiled(every), collectives=handed)


def gathers(card: Translation, logical: bool) -> bool:
    """Whether gradients are merged by collectives, which take one shape in all steps of a call."""
    engine, merge = card.placement.engine, card.placement.merge
    return engine == "multiworker" or (engine == "mirrored" and merge == "ring" and logical)


def _reducer(card: Translation, devices: Devices) -> str:
    """The device on which gradients are summed; the only device's stay where they are."""
    return devices.host if card.placement.merge == "host" and len(devices) > 1 else devices.each[0]


def _reduced(every: Sequence[Pass], size: int, side: int | None, reducer: str) -> Iterator[Way]:
    """To one device, and from there to all; slices are not summed but put together."""
    sized = Sized(Home((), (), (), reducer), size, side)
    dense = every[0].gradient(sized) == size
    whole = size if dense else sum(one.gradient(sized) for one in every)
    for one in every:
        yield Way("gradients", one.device, reducer, one.gradient(sized))
        yield Way("merged gradients", reducer, one.device, whole)


def _hierarchical(every: Sequence[Pass], size: int) -> Iterator[Way]:
    """Within each half to its first device, between these two, and back."""
    half = len(every) // 2
    first, second = every[0].device, every[half].device
    for k, one in enumerate(every):
        root = first if k < half else second
        yield Way("gradients", one.device, root, size)
        yield Way("merged gradients", root, one.device, size)
    yield Way("gradients", second, first, size)
    yield Way("merged gradients", first, second, size)


def _central(every: Sequence[Pass], sides: Sequence[tuple[int, int | None]], devices: Devices) -> Iterator[Way]:
    """To and from the host, where the variables are; the first device's sum is what updates take."""
    host = devices.host
    for size, side in sides:
        sized = Sized(Home((host,), (host,), (host,), host), size, side)
        for one in every:
            yield from read_ways(one, sized, own=(0, 1))
        if len(every) == 1:  # whose gradients updates take: there is nothing to sum
            yield Way("clipped gradients", every[0].device, host, size)
            continue
        yield from merge_ways(every, sized)
        # nobody needs what the others make of it
        dense = every[0].gradient(sized) == size
        merged = size if dense else sum(one.gradient(sized) for one in every)
        idle = dense and not clips(every[0].card.train.optimizer)
        yield Way("merged gradients", host, every[0].device, merged, idle)
        yield Way("clipped gradients", every[0].device, host, size, idle)


def _handed(one: Pass, sides: Sequence[tuple[int, int | None]]) -> Iterator[Way]:
    """What a device hands to collectives: slices filled up to the longest batch."""
    source, target = most_columns(one.card)
    for size, side in sides:
        if side is None or one.card.engine.embedding_gradients == "dense":
            yield Way("gradients", one.device, "all", size)
        else:
            positions = one.part.pairs * (source, target - 1)[side]
            yield Way("gradients of rows", one.device, "all", positions * (one.width * one.card.model.units + IDS))
