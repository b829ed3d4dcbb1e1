"""The machine's ceilings, measured once and kept: for a number of threads, a precision, a processor and its cores."""

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


def _make_key(threads: int, precision: Precision, *beside: Any) -> str:
    source = Path(roofline.__file__).read_bytes()
    return digest(threads, precision, read_cpu_model(), count_cores(), source, np.__version__, beside)


def _merge_ceilings(one: Ceilings, other: Ceilings) -> Ceilings:
    names = ("bandwidth_gb_s", "cache_gb_s", "gflops")
    return replace(one, **{name: max(getattr(one, name), getattr(other, name)) for name in names})
