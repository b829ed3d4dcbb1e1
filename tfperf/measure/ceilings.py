"""The machine's ceilings, measured once and kept: for a number of threads, a precision, a processor and its cores."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tfperf.data.cache import Cache, digest
from tfperf.measure import roofline
from tfperf.measure.environment import count_cores, read_cpu_model
from tfperf.measure.roofline import Ceilings, Precision

Measure = Callable[[int, Precision], Ceilings]
USAGE = Path("/proc/stat")
BUSY = 0.25  # share of the processors in use from which on a measurement says little


def get_ceilings(
    cache: Cache, threads: int, precision: Precision, measure: Measure | None = None, *beside: Any
) -> Ceilings:
    """Ceilings from the cache, measured where it does not have them.

    measure: by default `roofline.measure_ceilings`, of the processor with NumPy. beside: what else they depend on, as
    versions and devices. Raises: RuntimeError where the measurement fails.
    """
    make = measure or roofline.measure_ceilings
    return cache.get("machine", _make_key(threads, precision, *beside), lambda: make(threads, precision))


def raise_ceilings(
    cache: Cache, threads: int, precision: Precision, found: Ceilings, measure: Measure | None = None, *beside: Any
) -> Ceilings:
    """Measure again what was too low since the machine was busy: of each figure the higher one, which is kept, too."""
    make, renewed = measure or roofline.measure_ceilings, Cache(cache.mode and "renew")
    key = _make_key(threads, precision, *beside)
    return renewed.get("machine", key, lambda: _merge_ceilings(found, make(threads, precision)))


def measure_idle(threads: int, precision: Precision) -> Ceilings:
    """Ceilings of the processor, which are kept for good, and so not measured while others use it.

    Raises: RuntimeError while they do, or where measuring fails.
    """
    if (busy := measure_usage()) > BUSY:
        raise RuntimeError(f"other programs use {busy:.0%} of the processor; read the profile again when they are done")
    return roofline.measure_ceilings(threads, precision)


def measure_usage(seconds: float = 0.2) -> float:
    """Share of the processors' time that all processes use, 0 to 1; 0 where the system does not tell."""
    try:
        before = _read_times()
        time.sleep(seconds)
        used, idle = (now - then for now, then in zip(_read_times(), before, strict=True))
    except (OSError, ValueError):
        return 0.0
    return used / max(used + idle, 1)


def _read_times() -> tuple[int, int]:
    """Ticks since the start of the system in which processors worked, and in which they did not (Linux, proc(5))."""
    user, nice, system, idle, wait, *_ = map(int, USAGE.read_text(encoding="ascii").split("\n")[0].split()[1:])
    return user + nice + system, idle + wait


def _make_key(threads: int, precision: Precision, *beside: Any) -> str:
    source = Path(roofline.__file__).read_bytes()
    return digest(threads, precision, read_cpu_model(), count_cores(), source, np.__version__, beside)


def _merge_ceilings(one: Ceilings, other: Ceilings) -> Ceilings:
    names = ("bandwidth_gb_s", "cache_gb_s", "gflops")
    return replace(one, **{name: max(getattr(one, name), getattr(other, name)) for name in names})
