"""What TensorFlow's strategies have to send from device to device in a step, and to multiply on each."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from tfperf.place.devices import Devices
from tfperf.place.method import Method
from tfperf.place.needs import FirstDevices, Pass, SizedVariable, list_merge_transfers, make_pass_needs, record_passes
from tfperf.place.optimizer import has_clipping
from tfperf.place.policy import VariableDevices
from tfperf.place.state import count_bytes
from tfperf.place.trainable import Trainable
from tfperf.place.transfers import BatchShapes, NeededTransfer, Needs
from tfperf.runcard.placement import Placement

PADDED = 2  # operations that give what is handed to a collective: its padding, and a check of its shape
SUMMED = ("sum", "mean")  # merges for which devices send what they found
NOWHERE = VariableDevices((), (), (), "")


def compute_strategy_needs(trainable: Trainable, method: Method, devices: Devices, every: Sequence[Pass]) -> Needs:
    """For passes of this process' devices."""
    most = _count_most_bytes(trainable, every, uses_collectives(method.placement, devices.logical))
    return replace(_make_needs(trainable, method, devices, every), most=most, **make_pass_needs(every))


def record_strategy_passes(
    trainable: Trainable, method: Method, devices: Devices, local_batches: BatchShapes
) -> list[Pass]:
    """Of this process' devices: of each copy of a statistic its own device tells what is new."""
    mine = [k for k, _ in devices.mine]
    firsts = FirstDevices(mine[:1] if method.placement.engine == "central" else mine, mine[:1])
    return record_passes(trainable, method, devices.mine, devices.host, local_batches, firsts)


def _list_sized_variables(trainable: Trainable) -> list[SizedVariable]:
    """Variables that may have gradients, tables first."""
    tables = [SizedVariable(NOWHERE, count_bytes(table), i, i) for i, table in enumerate(trainable.embeddings)]
    return tables + [SizedVariable(NOWHERE, count_bytes(w), len(tables) + i) for i, w in enumerate(trainable.weights)]


def _list_merged_statistics(trainable: Trainable) -> list[SizedVariable]:
    """Statistics that are merged, as gradients of weights are."""
    return [SizedVariable(NOWHERE, count_bytes(one.variable)) for one in trainable.statistics if one.merge in SUMMED]


def _count_most_bytes(trainable: Trainable, every: Sequence[Pass], padded: bool) -> dict[str, float]:
    """Bytes that look-ups and transfers give, and what makes the tables' gradients dense, or as long as the longest."""
    found: dict[str, float] = {}
    for one in every:
        tables = _list_sized_variables(trainable)[: len(trainable.embeddings)]
        found[f"look-ups of device {one.number}"] = sum(map(one.count_look_up_bytes, tables))
        found[f"transfer of device {one.number}"] = one.sum_batch_bytes()
        tables = [table for table in tables if one.has_gradient(table)]
        sent = sum(each.size for each in _list_collective_transfers(trainable, one, tables)) if padded else 0
        found[f"gradients of device {one.number}"] = sum(table.size for table in tables) + PADDED * sent
    return found


def _make_needs(trainable: Trainable, method: Method, devices: Devices, every: Sequence[Pass]) -> Needs:
    """What is sent from device to device."""
    transfers = [one for each in every for one in each.list_input_transfers()]
    variables = _list_sized_variables(trainable)
    merged = [*(one for one in variables if every[0].has_gradient(one)), *_list_merged_statistics(trainable)]
    reduced = VariableDevices((), (), (), _select_reducer(method.placement, devices))
    if method.placement.engine == "central":
        transfers += _list_central_transfers(every, variables, has_clipping(method.optimizer))
        return Needs([*transfers, *_list_statistics_transfers(trainable, every)])
    if uses_collectives(method.placement, devices.logical):
        collectives = [one for each in every for one in _list_collective_transfers(trainable, each, merged)]
        return Needs(transfers, collectives=collectives)
    merge, collectives = method.placement.merge, []
    for one in merged:
        dense = one.table is None or method.embedding_gradients == "dense"
        if merge == "hierarchical" and dense:
            transfers += _list_hierarchical_transfers(every, one.size)
        elif merge == "ring" and dense:  # NCCL's
            collectives += [NeededTransfer("gradients", each.device, "all", one.size) for each in every]
        else:
            transfers += _list_reduction_transfers(every, replace(one, devices=reduced))
    return Needs(transfers, collectives=collectives)


def uses_collectives(placement: Placement, logical: bool) -> bool:
    """Whether gradients are merged by collectives, which take one shape in all steps of a call."""
    engine, merge = placement.engine, placement.merge
    return engine == "multiworker" or (engine == "mirrored" and merge == "ring" and logical)


def _select_reducer(placement: Placement, devices: Devices) -> str:
    """The device on which gradients are summed; the only device's stay where they are."""
    return devices.host if placement.merge == "host" and len(devices) > 1 else devices.each[0]


def _count_merged_bytes(every: Iterable[Pass], variable: SizedVariable) -> int:
    """Bytes of a merged gradient; slices are not summed but put together."""
    sizes = [one.count_gradient_bytes(variable) for one in every]
    return variable.size if sizes[0] == variable.size else sum(sizes)


def _list_reduction_transfers(every: Sequence[Pass], variable: SizedVariable) -> Iterator[NeededTransfer]:
    """To one device, and from there to all."""
    reducer = variable.devices.merge
    for one in every:
        yield NeededTransfer("gradients", one.device, reducer, one.count_gradient_bytes(variable))
        yield NeededTransfer("merged gradients", reducer, one.device, _count_merged_bytes(every, variable))


def _list_hierarchical_transfers(every: Sequence[Pass], size: int) -> Iterator[NeededTransfer]:
    """Within each half to its first device, between these two, and back."""
    half = len(every) // 2
    first, second = every[0].device, every[half].device
    for k, one in enumerate(every):
        root = first if k < half else second
        yield NeededTransfer("gradients", one.device, root, size)
        yield NeededTransfer("merged gradients", root, one.device, size)
    yield NeededTransfer("gradients", second, first, size)
    yield NeededTransfer("merged gradients", first, second, size)


def _list_central_transfers(
    every: Sequence[Pass], variables: Iterable[SizedVariable], clipped: bool
) -> Iterator[NeededTransfer]:
    """To and from the host, where the variables are; the first device's sum is what updates take."""
    host, first = every[0].host, every[0].device
    for sized in (replace(one, devices=VariableDevices((host,), (host,), (host,), host)) for one in variables):
        yield from (one for each in every for one in each.list_read_transfers(sized, sends_ids=True))
        if not every[0].has_gradient(sized):
            continue
        if len(every) == 1:  # whose gradients are summed already
            yield NeededTransfer("gradients", first, host, sized.size)
            continue
        yield from list_merge_transfers(every, sized)
        # nobody needs what the others make of it
        idle = every[0].count_gradient_bytes(sized) == sized.size and not clipped
        yield NeededTransfer("merged gradients", host, first, _count_merged_bytes(every, sized), idle)
        yield NeededTransfer("clipped gradients", first, host, sized.size, idle)


def _list_statistics_transfers(trainable: Trainable, every: Sequence[Pass]) -> Iterator[NeededTransfer]:
    """Of the host, where they are read, merged and changed."""
    host, first = every[0].host, every[0].device
    for i, statistic in enumerate(trainable.statistics):
        whole = count_bytes(statistic.variable)
        for one in every:
            if one.demand.statistics[i]:
                yield NeededTransfer("statistics", host, one.device, whole)
        if statistic.merge != "fixed":
            for one in every if statistic.merge in SUMMED else every[:1]:
                yield NeededTransfer("merged statistics", one.device, host, whole)
        if statistic.merge in SUMMED and len(every) > 1:  # what TensorFlow hands to devices, and takes from the first
            yield NeededTransfer("merged statistics", host, first, whole, optional=True)
            yield NeededTransfer("merged statistics", first, host, whole, optional=True)


def _list_collective_transfers(
    trainable: Trainable, one: Pass, variables: Iterable[SizedVariable]
) -> Iterator[NeededTransfer]:
    """What a device hands to collectives: slices filled up to the longest batch."""
    for variable in variables:
        if variable.table is None or one.method.embedding_gradients == "dense":
            yield NeededTransfer("gradients", one.device, "all", variable.size)
        else:
            look_up, most = one.look_ups[variable.table], one.examples * trainable.most_look_ups[variable.table]
            yield NeededTransfer("gradients of rows", one.device, "all", most * (look_up.row + look_up.width))
