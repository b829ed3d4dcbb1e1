"""From the card's placement to the device of every variable, slot, update and merge. TensorFlow is not imported."""

from collections.abc import Mapping
from dataclasses import dataclass

from tfperf.runcard.placement import Placement, SlotPlacement, VariablePlacement


@dataclass(frozen=True)
class VariableDevices:
    """Where one variable lies: full names of devices, one of each for every copy.

    merge: where its gradients are summed.
    """

    copies: tuple[str, ...]
    slots: tuple[str, ...]
    updates: tuple[str, ...]
    merge: str


def resolve_devices(
    placement: Placement, host: str, devices: tuple[str, ...], weights: Mapping[str, int], tables: Mapping[str, int]
) -> dict[str, VariableDevices]:
    """Devices by name of the weights and embedding tables, which are given with their bytes.

    >>> placed = resolve_devices(Placement(preset="Exp1", devices=2), "host", ("d0", "d1"), {"kernel": 8}, {"table": 4})
    >>> placed["kernel"]
    VariableDevices(copies=('host',), slots=('host',), updates=('d0',), merge='d0')
    """
    variables, embeddings, slots, updates = placement.places
    bytes_of = {**weights, **tables}
    # only what is spread counts as a load
    kinds = {name: embeddings if name in tables else variables for name in bytes_of}
    loads = {n: size for n, size in bytes_of.items() if {kinds[n], slots, updates} & {"device", "mirrored"}}
    spread = dict.fromkeys(bytes_of, host) | spread_by_size(loads, devices)

    def resolve(name: str, where: VariablePlacement) -> VariableDevices:
        if where == "mirrored":
            copies, merge = devices, spread[name]
        else:
            copies = (_resolve_device(where, host, devices, spread[name]),)
            merge = _resolve_beside(updates, copies, host, devices, spread[name])[0]
        return VariableDevices(
            copies, _resolve_beside(slots, copies, host, devices, spread[name]),
            _resolve_beside(updates, copies, host, devices, spread[name]), host if placement.merge == "host" else merge,
        )  # fmt: skip

    return {name: resolve(name, where) for name, where in kinds.items()}


def spread_by_size(sizes: Mapping[str, int], devices: tuple[str, ...]) -> dict[str, str]:
    """Each name on the device that holds least so far, the largest first (longest processing time, Graham 1969).

    >>> spread_by_size({"a": 5, "b": 4, "c": 3, "d": 3}, ("GPU:0", "GPU:1"))
    {'a': 'GPU:0', 'b': 'GPU:1', 'c': 'GPU:1', 'd': 'GPU:0'}
    """
    loads = dict.fromkeys(devices, 0)
    out = {}
    for name in sorted(sizes, key=lambda name: -sizes[name]):
        out[name] = min(loads, key=lambda device: loads[device])
        loads[out[name]] += sizes[name]
    return out


def _resolve_device(where: VariablePlacement, host: str, devices: tuple[str, ...], spread: str) -> str:
    if where == "host":
        return host
    return spread if where == "device" else devices[int(where.removeprefix("device:"))]


def _resolve_beside(
    where: SlotPlacement, copies: tuple[str, ...], host: str, devices: tuple[str, ...], spread: str
) -> tuple[str, ...]:  # fmt: skip
    return copies if where == "with_variable" else (_resolve_device(where, host, devices, spread),)


def describe_merge(placement: Placement) -> str:
    """How the tower engine sums gradients, in words; where the card asks for another way, why."""
    if placement.merge == "host":
        return "summed on the host"
    done = "summed on one device a variable, the one that updates it"
    if placement.merge == "reduce_to_one":
        return done
    return f"{done} (towers have no {placement.merge}: their sums are part of one graph)"
