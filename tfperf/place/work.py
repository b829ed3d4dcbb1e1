"""What a step has to do at least, by counting: bytes of updates, bytes between devices."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tfperf.place.policy import Home
from tfperf.runcard.placement import Placement

# as large as their variable, at least: without momentum of SGD and RMSprop, amsgrad, and what Muon has for its AdamW
SLOTS = {
    "SGD": 0, "RMSprop": 1, "Adam": 2, "AdamW": 2, "Adamax": 2, "Nadam": 2, "Adagrad": 1, "Adadelta": 2, "Ftrl": 2,
    "Lion": 1, "ScheduleFreeAdamW": 2, "Adafactor": 1, "Lamb": 2, "Muon": 1,
}  # fmt: skip


class Share(NamedTuple):
    """A variable: its bytes, those that each device reads of it, and those of the gradient that each sends."""

    home: Home
    size: float
    read: float
    gradient: float


def update_bytes(shares: Sequence[Share], optimizer: str) -> float:
    """Bytes that updates read and write in a step: gradient in, variable and slots in and out, of every copy."""
    return sum((3 + 2 * SLOTS[optimizer]) * share.size * len(share.home.copies) for share in shares)


def sent_bytes(shares: Sequence[Share], placement: Placement, devices: Sequence[str], optimizer: str) -> float:
    """Bytes that cross the border of the busiest device, host included, in a step, in and out together.

    A ring sends 2 (N - 1) / N of the gradients (Patarasuk & Yuan 2009, doi:10.1016/j.jpdc.2008.09.002).
    """
    if placement.engine in ("mirrored", "multiworker"):
        gradients, others = sum(share.gradient for share in shares), len(devices) - 1
        return 2 * others * gradients / (len(devices) if placement.merge in ("ring", "hierarchical") else 1)
    crossed: dict[str, float] = {}
    for share in shares:
        for begin, end, size in _ways(share, devices, SLOTS[optimizer]):
            for device in (begin, end) if begin != end else ():
                crossed[device] = crossed.get(device, 0.0) + size
    return max(crossed.values(), default=0.0)


def _ways(share: Share, devices: Sequence[str], slots: int) -> list[tuple[str, str, float]]:
    """What a variable sends in a step of the tower engine: from, to, bytes."""
    home, several = share.home, len(share.home.copies) > 1
    ways = [(home.copies[k if several else 0], device, share.read) for k, device in enumerate(devices)]
    ways += [(device, home.merge, share.gradient) for device in devices]
    for k, copy in enumerate(home.copies):
        updates, beside = home.updates[k], home.slots[k]
        ways.append((home.merge, updates, share.size))
        ways += [(copy, updates, share.size), (updates, copy, share.size)]  # the value there, its change back
        ways += [(beside, updates, slots * share.size), (updates, beside, slots * share.size)]
    return ways


def least(terms: Mapping[str, float | None]) -> float:
    """Milliseconds of a step: passes, whose arithmetic, chain and copies can hide behind each other; then updates."""
    passes = max(terms[name] or 0.0 for name in ("computation_ms", "chain_ms", "sent_ms"))
    return passes + (terms["update_ms"] or 0.0)
