"""What an operation does, how fast, and how close that comes to what its device can do at best.

A multiply-add is 2 FLOP. Bytes are those of inputs and outputs, each once, wherever they come from.
"""

from dataclasses import dataclass
from typing import Any, Literal

from tfperf.measure.roofline import CACHED_BYTES, Ceilings, Precision
from tfperf.trace.planes import DEVICE

Bound = Literal["compute", "memory", "overhead"]
HALF = 0.5  # share of a ceiling from which on it is what bounds an operation
GIGA, MS_PER_SECOND = 1e9, 1e3
# stats of a GPU's plane that its driver or data sheet gives
PEAK_TERAFLOPS = "peak_teraflops_per_second"
PEAK_GB_S = "peak_hbm_bw_gigabytes_per_second"
BYTES_PER_SECOND = "memory_bandwidth"


@dataclass(frozen=True)
class OperationWork:
    """One execution of an operation. flops: None where they are not known; bytes: inputs and outputs, each once.

    transcendental: evaluations of exp, tanh and their like, which are not among the flops.
    """

    flops: float | None
    bytes: float
    transcendental: float = 0.0
    precision: Precision = "float32"


@dataclass(frozen=True)
class DeviceLimits:
    """What a device can do at best; None: not known.

    cache_gb_s: for operations of at most `cached_bytes`, inputs and outputs together. sheet: as its data sheet says,
    not measured.
    """

    gflops: float | None
    memory_gb_s: float | None
    cache_gb_s: float | None = None
    cached_bytes: float = 0.0
    sheet: bool = False

    def get_bandwidth(self, work: OperationWork) -> float | None:
        """GB/s for an operation: of the caches where its arrays fit there, else of the memory."""
        fits = self.cache_gb_s is not None and work.bytes <= self.cached_bytes
        return self.cache_gb_s if fits else self.memory_gb_s


@dataclass(frozen=True)
class WorkRate:
    """FLOP and bytes a step, GFLOP/s and GB/s reached, share of the ceiling, and what bounds it; None: not known.

    The share is the longer of flops / peak and bytes / bandwidth over the time taken (Williams, Waterman & Patterson
    2009, doi:10.1145/1498765.1498785); where one of the two is not known, that of the other, which is the least that it
    can be. Above 1 where arrays came from caches. bound: `overhead` where neither is reached to half.
    """

    flops: float | None = None
    bytes: float | None = None
    gflops: float | None = None
    gb_s: float | None = None
    share: float | None = None
    bound: Bound | None = None


def estimate_rate(work: OperationWork | None, count: float, ms: float, limits: DeviceLimits | None) -> WorkRate:
    """Rates of an operation that runs `count` times a step and takes `ms` of it."""
    if work is None or ms <= 0:
        return WorkRate()
    seconds = ms / MS_PER_SECOND
    flops, moved = None if work.flops is None else count * work.flops, count * work.bytes
    rates = None if flops is None else flops / seconds / GIGA, moved / seconds / GIGA
    if limits is None:
        return WorkRate(flops, moved, *rates)
    arithmetic = _divide(rates[0], limits.gflops)
    traffic = _divide(rates[1], limits.get_bandwidth(work))
    known = [share for share in (arithmetic, traffic) if share is not None]
    # what evaluates functions has arithmetic that no ceiling is known for
    complete = len(known) == 2 and not work.transcendental
    # what would fit in caches may come from memory all the same, as fast as that can be
    complete = complete and (_divide(rates[1], limits.memory_gb_s) or 0.0) < HALF
    share = max(known, default=None)
    return WorkRate(flops, moved, *rates, share, _find_bound(arithmetic or 0.0, traffic or 0.0, share, complete))


def _find_bound(arithmetic: float, traffic: float, share: float | None, complete: bool) -> Bound | None:
    if share is None or (share < HALF and not complete):
        return None
    if share < HALF:
        return "overhead"
    return "compute" if arithmetic >= traffic else "memory"


def _divide(rate: float | None, limit: float | None) -> float | None:
    return None if rate is None or not limit else rate / limit


def convert_ceilings(measured: Ceilings) -> DeviceLimits:
    """Limits of a processor as they were measured; caches hold what they were measured with, 1 MB a thread."""
    return DeviceLimits(
        measured.gflops, measured.bandwidth_gb_s, measured.cache_gb_s, float(measured.threads * CACHED_BYTES)
    )


def read_limits(space: Any) -> dict[str, DeviceLimits]:
    """Of each accelerator in a profile's message what its plane says of it: the data sheet's figures."""
    out = {}
    for plane in (plane for plane in space.planes if plane.name.startswith(DEVICE)):
        stats = {plane.stat_metadata[stat.metadata_id].name: _get_number(stat) for stat in plane.stats}
        teraflops, gb_s, per_second = (stats.get(key) or None for key in (PEAK_TERAFLOPS, PEAK_GB_S, BYTES_PER_SECOND))
        bandwidth = gb_s or (per_second / GIGA if per_second else None)
        if teraflops or bandwidth:
            peak = teraflops * 1e3 if teraflops else None
            out[plane.name.removeprefix(DEVICE)] = DeviceLimits(peak, bandwidth, sheet=True)
    return out


def _get_number(stat: Any) -> float:
    kind = stat.WhichOneof("value")
    value = getattr(stat, kind) if kind else 0.0
    return float(value) if isinstance(value, int | float) else 0.0
