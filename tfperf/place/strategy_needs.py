"""What TensorFlow's strategies have to send from device to device in a step, and to multiply on each."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from tfperf.place.copies import Needs, Part, Way
from tfperf.place.devices import Devices
from tfperf.place.look_ups import row_bytes
from tfperf.place.method import Method
from tfperf.place.needs import Firsts, Pass, Sized, compiled, merge_ways, own_constants, passes, products, read_ways
from tfperf.place.optimizer import clips
from tfperf.place.policy import Home
from tfperf.place.state import size
from tfperf.place.trainable import Trainable
from tfperf.runcard.placement import Placement

PADDED = 2  # operations that give what is handed to a collective: its padding, and a check of its shape
SUMMED = ("sum", "mean")  # merges for which devices send what they found
NOWHERE = Home((), (), (), "")


def strategy_needs(trainable: Trainable, method: Method, devices: Devices, every: Sequence[Pass]) -> Needs:
    """For passes of this process' devices."""
    most = _most(trainable, every, gathers(method.placement, devices.logical))
    return replace(_moved(trainable, method, devices, every), most=most, **own_constants(every))


def strategy_passes(trainable: Trainable, method: Method, devices: Devices, parts: Mapping[int, Part]) -> list[Pass]:
    """Of this process' devices: of each copy of a statistic its own device tells what is new."""
    mine = [k for k, _ in devices.mine]
    firsts = Firsts(mine[:1] if method.placement.engine == "central" else mine, mine[:1])
    return passes(trainable, method, devices.mine, devices.host, parts, firsts)


def _sized(trainable: Trainable) -> list[Sized]:
    """Variables that may have gradients, tables first."""
    tables = [Sized(NOWHERE, size(table), i, i) for i, table in enumerate(trainable.embeddings)]
    return tables + [Sized(NOWHERE, size(weight), len(tables) + i) for i, weight in enumerate(trainable.weights)]


def _merged(trainable: Trainable) -> list[Sized]:
    """Statistics that are merged, as gradients of weights are."""
    return [Sized(NOWHERE, size(one.variable)) for one in trainable.statistics if one.merge in SUMMED]


def _most(trainable: Trainable, every: Sequence[Pass], padded: bool) -> dict[str, float]:
    """Bytes that look-ups and transfers give, and what makes the tables' gradients dense, or as long as the longest."""
    found: dict[str, float] = {}
    for one in every:
        tables = _sized(trainable)[: len(trainable.embeddings)]
        found[f"look-ups of device {one.number}"] = sum(map(one.looked_up, tables))
        found[f"transfer of device {one.number}"] = one.most_transferred()
        tables = [table for table in tables if one.differentiates(table)]
        handed = sum(way.size for way in _handed(trainable, one, tables)) if padded else 0
        found[f"gradients of device {one.number}"] = sum(table.size for table in tables) + PADDED * handed
    return found


def _moved(trainable: Trainable, method: Method, devices: Devices, every: Sequence[Pass]) -> Needs:
    """What is sent from device to device, and multiplied on each."""
    ways, variables = [way for one in every for way in one.inputs()], _sized(trainable)
    merged = [*(one for one in variables if every[0].differentiates(one)), *_merged(trainable)]
    found, xla = products(every), compiled(every)
    if method.placement.engine == "central":
        ways += _central(every, variables, devices, clips(method.optimizer))
        ways += _central_statistics(trainable, every, devices)
        return Needs(ways, products=found, compiled=xla)
    if gathers(method.placement, devices.logical):
        collectives = [way for one in every for way in _handed(trainable, one, merged)]
        return Needs(ways, products=found, compiled=xla, collectives=collectives)
    merge, handed = method.placement.merge, []
    for one in merged:
        dense = one.table is None or method.embedding_gradients == "dense"
        if merge == "hierarchical" and dense:
            ways += _hierarchical(every, one.size)
        elif merge == "ring" and dense:  # NCCL's
            handed += [Way("gradients", each.device, "all", one.size) for each in every]
        else:
            ways += _reduced(every, replace(one, home=_at(_reducer(method.placement, devices))))
    return Needs(ways, products=found, compiled=xla, collectives=handed)


def gathers(placement: Placement, logical: bool) -> bool:
    """Whether gradients are merged by collectives, which take one shape in all steps of a call."""
    engine, merge = placement.engine, placement.merge
    return engine == "multiworker" or (engine == "mirrored" and merge == "ring" and logical)


def _reducer(placement: Placement, devices: Devices) -> str:
    """The device on which gradients are summed; the only device's stay where they are."""
    return devices.host if placement.merge == "host" and len(devices) > 1 else devices.each[0]


def _at(reducer: str) -> Home:
    return Home((), (), (), reducer)


def _whole(every: Iterable[Pass], variable: Sized) -> int:
    """Bytes of a merged gradient; slices are not summed but put together."""
    parts = [one.gradient(variable) for one in every]
    return variable.size if parts[0] == variable.size else sum(parts)


def _reduced(every: Sequence[Pass], variable: Sized) -> Iterator[Way]:
    """To one device, and from there to all."""
    reducer = variable.home.merge
    for one in every:
        yield Way("gradients", one.device, reducer, one.gradient(variable))
        yield Way("merged gradients", reducer, one.device, _whole(every, variable))


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


def _central(every: Sequence[Pass], variables: Iterable[Sized], devices: Devices, clipped: bool) -> Iterator[Way]:
    """To and from the host, where the variables are; the first device's sum is what updates take."""
    host, first = devices.host, every[0].device
    for variable in variables:
        sized = replace(variable, home=Home((host,), (host,), (host,), host))
        for one in every:
            yield from read_ways(one, sized, found=True)
        if not every[0].differentiates(sized):
            continue
        if len(every) == 1:  # whose gradients are summed already
            yield Way("gradients", first, host, sized.size)
            continue
        yield from merge_ways(every, sized)
        # nobody needs what the others make of it
        idle = every[0].gradient(sized) == sized.size and not clipped
        yield Way("merged gradients", host, first, _whole(every, sized), idle)
        yield Way("clipped gradients", first, host, sized.size, idle)


def _central_statistics(trainable: Trainable, every: Sequence[Pass], devices: Devices) -> Iterator[Way]:
    """Of the host, where they are read, merged and changed."""
    host, first = devices.host, every[0].device
    for i, statistic in enumerate(trainable.statistics):
        whole = size(statistic.variable)
        for one in every:
            if one.demand.statistics[i]:
                yield Way("statistics", host, one.device, whole)
        if statistic.merge != "fixed":
            for one in every if statistic.merge in SUMMED else every[:1]:
                yield Way("merged statistics", one.device, host, whole)
        if statistic.merge in SUMMED and len(every) > 1:  # what TensorFlow hands to devices, and takes from the first
            yield Way("merged statistics", host, first, whole, may_go=True)
            yield Way("merged statistics", first, host, whole, may_go=True)


def _handed(trainable: Trainable, one: Pass, variables: Iterable[Sized]) -> Iterator[Way]:
    """What a device hands to collectives: slices filled up to the longest batch."""
    for variable in variables:
        if variable.table is None or one.method.embedding_gradients == "dense":
            yield Way("gradients", one.device, "all", variable.size)
        else:
            i = variable.table
            most = one.examples * trainable.most_look_ups[i]
            row = row_bytes(trainable.embeddings[i]) + one.look_ups[i].width
            yield Way("gradients of rows", one.device, "all", most * row)
