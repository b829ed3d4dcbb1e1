"""How busy devices are over the time of a profile, and whether what they are sent is copied beside their steps."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tfperf.arrays import BoolMask, TextArray
from tfperf.trace.host_events import merge_events
from tfperf.trace.intervals import Intervals
from tfperf.trace.launches import find_directions, find_sizes
from tfperf.trace.planes import Events

BINS = 50  # that the time of a profile is cut into
HALF = 0.5  # share of the copies' time beside kernels, from which on they count as overlapped
MOVES = "Memcpy", "Memset"  # how events of a GPU begin that are no kernels
NS = 1e9

Verdict = Literal["overlap", "wait"]  # copies run beside kernels, or kernels and copies wait for each other


@dataclass(frozen=True, kw_only=True)
class HostCopies:
    """Copies from the host to a device: how much, for how long at least one runs; beside: what of it kernels run, too.

    alone: share of the profile's time in which such copies run, and no kernel.
    """

    mbyte: float
    seconds: float
    beside: float
    alone: float

    @property
    def verdict(self) -> Verdict:
        """Which of the two they do for most of their time."""
        return "overlap" if self.beside >= HALF else "wait"


@dataclass(frozen=True, kw_only=True)
class DeviceUse:
    """A device in the time from the first recorded call to the end of the last.

    busy: share in which some kernel of it runs; of a processor, in which some operation runs that is not of the input.
    shares: the same of BINS parts of that time. copies_alone: share in which it copies, to or from it, and no kernel
    runs. copies: from the host, None where there are none.
    """

    device: str
    seconds: float
    busy: float
    copies_alone: float
    shares: tuple[float, ...]
    copies: HostCopies | None


def measure_device_use(
    events: Events, devices: TextArray, working: BoolMask, begin: int, end: int, bins: int = BINS
) -> tuple[DeviceUse, ...]:
    """Use of each device in [begin, end) ns, of accelerators alone where there are some.

    devices (n): of each event; working (n): events that are work of a step, or copies for it.
    """
    accelerator = np.array([lane.accelerator for lane in events.lanes] or [False], bool)[events.lane]
    if (working & accelerator).any():
        working = working & accelerator
    moves = np.array([name.startswith(MOVES) for name in events.names] or [False], bool)[events.name] & accelerator
    return tuple(
        _measure_one(events, device, working & (devices == device), moves, (begin, end), bins)
        for device in np.unique(devices[working]).tolist()
    )


def _measure_one(
    events: Events, device: str, mine: BoolMask, moves: BoolMask, period: tuple[int, int], bins: int
) -> DeviceUse:
    begin, end = period
    direction, length = find_directions(events), max(end - begin, 1)
    kernels = merge_events(events, mine & ~moves).clip(begin, end)
    copies = merge_events(events, mine & np.isin(direction, ("H2D", "D2H", "P2P"))).clip(begin, end)
    cuts = np.linspace(begin, end, bins + 1).astype(np.int64)
    shares = kernels.sum_lengths(cuts) / np.maximum(np.diff(cuts), 1)
    return DeviceUse(
        device=device, seconds=length / NS, busy=kernels.length / length,
        copies_alone=copies.subtract(kernels).length / length, shares=tuple(shares.tolist()),
        copies=_measure_copies(events, mine & (direction == "H2D"), kernels, period),
    )  # fmt: skip


def _measure_copies(
    events: Events, which: BoolMask, kernels: Intervals, period: tuple[int, int]
) -> HostCopies | None:  # fmt: skip
    begin, end = period
    found = merge_events(events, which).clip(begin, end)
    if not len(found):
        return None
    inside = which & (events.end > begin) & (events.begin < end)
    beside = found.intersect(kernels).length
    return HostCopies(
        mbyte=float(find_sizes(events)[inside].sum()) / 1e6, seconds=found.length / NS, beside=beside / found.length,
        alone=(found.length - beside) / max(end - begin, 1),
    )  # fmt: skip


def make_use_record(use: DeviceUse) -> dict[str, Any]:
    """JSON of a device's use."""
    copies = None if use.copies is None else {**vars(use.copies), "verdict": use.copies.verdict}
    return {**vars(use), "shares": list(use.shares), "copies": copies}
