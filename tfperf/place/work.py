"""What a step has to do at least, by counting: bytes of updates, bytes between devices."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tfperf.place.policy import VariableDevices
from tfperf.runcard.placement import Placement

# as large as their variable, at least: without momentum of SGD and RMSprop, amsgrad, and what Muon has for its AdamW
SLOTS = {
    "SGD": 0, "RMSprop": 1, "Adam": 2, "AdamW": 2, "Adamax": 2, "Nadam": 2, "Adagrad": 1, "Adadelta": 2, "Ftrl": 2,
    "Lion": 1, "ScheduleFreeAdamW": 2, "Adafactor": 1, "Lamb": 2, "Muon": 1,
}  # fmt: skip


class VariableBytes(NamedTuple):
    """A variable: its bytes, those that each device reads of it, and those of the gradient that each sends."""

    devices: VariableDevices
    size: float
    read: float
    gradient: float


def count_update_bytes(variables: Sequence[VariableBytes], optimizer: str) -> float:
    """Bytes that updates read and write in a step: gradient in, variable and slots in and out, of every copy."""
    return sum((3 + 2 * SLOTS[optimizer]) * one.size * len(one.devices.copies) for one in variables)


def count_sent_bytes(
    variables: Sequence[VariableBytes], placement: Placement, devices: Sequence[str], optimizer: str
) -> float:
    """Bytes that cross the border of the busiest device, host included, in a step, in and out together.

    A ring sends 2 (N - 1) / N of the gradients (Patarasuk & Yuan 2009, doi:10.1016/j.jpdc.2008.09.002).
    """
    if placement.engine in ("mirrored", "multiworker"):
        gradients, others = sum(one.gradient for one in variables), len(devices) - 1
        return 2 * others * gradients / (len(devices) if placement.merge in ("ring", "hierarchical") else 1)
    transfers = [one for variable in variables for one in _list_transfers(variable, devices, SLOTS[optimizer])]
    crossing = [({begin, end}, size) for begin, end, size in transfers if begin != end]
    names = {name for pair, _ in crossing for name in pair}
    return max((sum(size for pair, size in crossing if name in pair) for name in names), default=0.0)


def _list_transfers(variable: VariableBytes, devices: Sequence[str], slots: int) -> list[tuple[str, str, float]]:
    """What a variable sends in a step of the tower engine: from, to, bytes."""
    own, several = variable.devices, len(variable.devices.copies) > 1
    out = [(own.copies[k if several else 0], device, variable.read) for k, device in enumerate(devices)]
    out += [(device, own.merge, variable.gradient) for device in devices]
    for k, copy in enumerate(own.copies):
        updates, beside = own.updates[k], own.slots[k]
        out.append((own.merge, updates, variable.size))
        out += [(copy, updates, variable.size), (updates, copy, variable.size)]  # the value there, its change back
        out += [(beside, updates, slots * variable.size), (updates, beside, slots * variable.size)]
    return out


def compute_bound_ms(terms: Mapping[str, float | None]) -> float:
    """Milliseconds of a step: passes, whose arithmetic, chain and copies can hide behind each other; then updates."""
    passes = max(terms[name] or 0.0 for name in ("computation_ms", "chain_ms", "sent_ms"))
    return passes + (terms["update_ms"] or 0.0)
