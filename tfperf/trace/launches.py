"""How many kernels a device runs, how short they are, and what is copied from and to it."""

import re
from dataclasses import dataclass

import numpy as np

from tfperf.arrays import BoolMask, Float64Array, TextArray
from tfperf.trace.intervals import merge_intervals
from tfperf.trace.operations import Operations
from tfperf.trace.planes import Events

SHORT_US = 10.0  # a kernel below takes no longer than its launch
PRODUCT = re.compile(r"MatMul|Conv|Einsum")  # what they take is work, however short
COPY = re.compile(r"Memcpy(?P<direction>H2D|D2H|D2D|P2P)")
SIZE = re.compile(r"\bsize:(\d+)")


@dataclass(frozen=True)
class Launches:
    """Kernels, or operations of a processor, of one device: how many a step, their median in us.

    short: the share of those below SHORT_US. starts: the share of all their time that such take for no work: as much of
    each as half of these take; of products nothing.
    """

    per_step: float
    median_us: float
    short: float
    starts: float = 0.0


NO_LAUNCHES = Launches(0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Transfer:
    """Copies of one device in one direction (H2D, D2H: host, device; D2D; P2P: between devices), per step."""

    device: str
    direction: str
    mbyte: float
    ms: float

    @property
    def gbyte_per_second(self) -> float:
        """Rate while copies run."""
        return self.mbyte / self.ms if self.ms else 0.0


def compute_launches(
    events: Events, operations: Operations, devices: TextArray, mask: BoolMask, steps: int
) -> dict[str, Launches]:  # fmt: skip
    """By device, of the operations in the mask."""
    out = {}
    products = np.array([*(PRODUCT.search(one.kind) is not None for one in operations.every), False])[operations.index]
    for device in np.unique(devices[mask]).tolist():
        mine = mask & (devices == device)
        us, computing = (events.end - events.begin)[mine] / 1e3, products[mine]
        short = us[(us < SHORT_US) & ~computing]
        starts = float(np.minimum(short, np.median(short)).sum() / us.sum()) if len(short) and us.any() else 0.0
        out[device] = Launches(len(us) / steps, float(np.median(us)), float((us < SHORT_US).mean()), starts)
    return out


def find_directions(events: Events) -> TextArray:
    """Of copies their direction, of other events nothing (n)."""
    found: TextArray = np.array([m["direction"] if (m := COPY.match(n)) else "" for n in events.names] or [""])
    return found[events.name]


def find_sizes(events: Events) -> Float64Array:
    """Bytes of copies, of other events 0 (n)."""
    rows, details = events.stats.get("memcpy_details", (np.zeros(0, np.int64), ()))
    sizes = np.zeros(len(events))
    for row, text in zip(rows.tolist(), details, strict=True):
        sizes[row] = float(found[1]) if (found := SIZE.search(str(text))) else 0.0
    return sizes


def sum_transfers(
    events: Events, devices: TextArray, mask: BoolMask, steps: int
) -> tuple[Transfer, ...]:  # fmt: skip
    """Copies by device and direction; their sizes are in what an accelerator's events say of themselves."""
    sizes, kind, out = find_sizes(events), find_directions(events), []
    copies = np.flatnonzero(mask & (kind != ""))
    for device, direction in sorted({*zip(devices[copies].tolist(), kind[copies].tolist(), strict=True)}):
        which = copies[(devices[copies] == device) & (kind[copies] == direction)]
        ms = merge_intervals(events.begin[which], events.end[which]).length / 1e6
        out.append(Transfer(device, direction, float(sizes[which].sum()) / 1e6 / steps, ms / steps))
    return tuple(out)
