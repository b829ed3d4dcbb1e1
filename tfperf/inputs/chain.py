"""How many elements a second a loader of n workers delivers, predicted from what one element costs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.optimize import minimize_scalar

from tfperf.arrays import Float64Array

KNEE_SHARE = 0.95  # of the best rate
FULL = 0.95  # share of the free cores from which on they, and not the workers, are what is short

Cap = Literal["workers", "cores", "shared", "calls", "step"]


@dataclass(frozen=True)
class LoaderCosts:
    """What one element costs one worker."""

    cpu_seconds: float  # on a core, of all threads
    wait_seconds: float = 0.0  # without a core: disk, network, a sleep
    shared_seconds: float = 0.0  # on what one worker has at a time: the interpreter's lock, a disk; within the others
    apart_seconds: float = 0.0  # part of cpu_seconds of threads that no number of workers limits, beside the workers

    def __post_init__(self) -> None:
        """Raises: ValueError for costs below zero, and where an element costs no time at all."""
        if min(self.cpu_seconds, self.wait_seconds, self.shared_seconds, self.apart_seconds) < 0:
            raise ValueError(f"costs of an element are at least 0: {self}")
        if 0 < self.cpu_seconds <= self.apart_seconds:
            raise ValueError(f"workers have a part of the CPU time: {self}")
        if self.cpu_seconds + self.wait_seconds <= 0:
            raise ValueError("an element costs no time, so no rate can be predicted")


@dataclass(frozen=True)
class LoaderLimits:
    """What all workers share."""

    free_cores: float  # may be a fraction: what others leave
    steps_per_second: float = math.inf  # elements a second that the step takes
    on_cores_per_second: float = math.inf  # elements a second that are made, and whose step is taken, on the free cores
    calls_per_second: float = math.inf  # elements a second that stages make whose number of calls the code says

    def __post_init__(self) -> None:
        """Raises: ValueError for limits that are not above zero."""
        if min(self.free_cores, self.steps_per_second, self.on_cores_per_second, self.calls_per_second) <= 0:
            raise ValueError(f"limits of a loader are above 0: {self}")


@dataclass(frozen=True)
class PredictedRate:
    """Elements a second of so many workers, and what keeps them from being more."""

    workers: int
    rate: float  # elements/s
    cap: Cap  # "workers": each is busy or waits for its own element, one more would help


def compute_occupancy(costs: LoaderCosts, free_cores: float, workers: int) -> Float64Array:
    """Probabilities that 0, 1, ... n workers compute or want a core, while the others wait. (n + 1), sum 1.

    A closed birth-death chain: each of the n - k that wait comes back after W on average, and k workers share
    min(k, m) cores, so that one is done after C / min(k, m) on average. In logarithms, since for many workers the
    weights span more than floats hold.

    Source: machine-repair model, Kleinrock 1975, Queueing Systems 1, section 3.8, with m repairmen.
    """
    if costs.wait_seconds == 0 or costs.cpu_seconds == 0:
        sure = np.zeros(workers + 1)
        sure[workers if costs.wait_seconds == 0 else 0] = 1.0
        return sure
    busy = np.arange(1, workers + 1)
    arrivals = (workers - busy + 1) / costs.wait_seconds
    services = np.minimum(busy, free_cores) / costs.cpu_seconds
    logarithms = np.concatenate(([0.0], np.cumsum(np.log(arrivals / services))))
    weights = np.exp(logarithms - logarithms.max())
    occupancy: Float64Array = weights / weights.sum()
    return occupancy


def predict_rate(costs: LoaderCosts, limits: LoaderLimits, workers: int) -> PredictedRate:
    """The rate of so many workers. Raises: ValueError for fewer than one.

    >>> waits = LoaderCosts(cpu_seconds=0.0, wait_seconds=0.01)
    >>> predict_rate(waits, LoaderLimits(free_cores=2.0), workers=8)
    PredictedRate(workers=8, rate=800.0, cap='workers')
    >>> computes = LoaderCosts(cpu_seconds=0.01)
    >>> predict_rate(computes, LoaderLimits(free_cores=1.5), workers=8)
    PredictedRate(workers=8, rate=150.0, cap='cores')
    """
    if workers < 1:
        raise ValueError(f"a loader has at least one worker, not {workers}")
    caps: dict[Cap, float] = {
        "shared": 1 / costs.shared_seconds if costs.shared_seconds else math.inf,
        "step": limits.steps_per_second, "cores": limits.on_cores_per_second, "calls": limits.calls_per_second,
    }  # fmt: skip
    rate, cap = _predict_uncapped(costs, limits.free_cores, workers)
    lowest = min(caps, key=lambda name: caps[name])
    return PredictedRate(workers, *((caps[lowest], lowest) if caps[lowest] < rate else (rate, cap)))


def find_knee(rates: Sequence[float], share: float = KNEE_SHARE) -> int:
    """The least number of workers with this share of the best rate; rates are those of 1, 2, ... workers.

    Raises: ValueError for no rates.

    >>> find_knee([100.0, 198.0, 290.0, 299.0, 300.0])
    3
    """
    if not len(rates):
        raise ValueError("the knee of no rates")
    return next(n for n, rate in enumerate(rates, 1) if rate >= share * max(rates))


def fit_wait(cpu_seconds: Sequence[float], rates: Sequence[float], workers: Sequence[int], free_cores: float) -> float:
    """The waiting time [s] with which predicted rates are nearest to those measured: least squares of logarithms.

    cpu_seconds, rates: CPU time of an element [s], and elements/s, with each of these numbers of workers.
    """
    # alone, an element takes W + C / min(1, m): no wait is longer than what the slowest element took
    longest = max(n / rate for n, rate in zip(workers, rates, strict=True))

    def weigh(wait: float) -> float:
        each = zip(cpu_seconds, rates, workers, strict=True)
        return sum(
            math.log(_predict_uncapped(LoaderCosts(cpu, wait), free_cores, n)[0] / rate) ** 2 for cpu, rate, n in each
        )

    found = minimize_scalar(weigh, bounds=(0.0, longest), method="bounded", options={"xatol": 1e-6 * longest})
    # the search never tries its ends, and programs that only compute have the lower one
    return 0.0 if min(cpu_seconds) > 0 and weigh(0.0) <= found.fun else float(found.x)


def _predict_uncapped(costs: LoaderCosts, free_cores: float, workers: int) -> tuple[float, Cap]:
    """Threads apart take their share of the cores from the workers."""
    if costs.cpu_seconds == 0:
        return workers / costs.wait_seconds, "workers"
    own = costs.cpu_seconds - costs.apart_seconds
    cores = free_cores * own / costs.cpu_seconds
    occupancy = compute_occupancy(replace(costs, cpu_seconds=own, apart_seconds=0.0), cores, workers)
    used = float(occupancy @ np.minimum(np.arange(workers + 1), cores))
    return used / own, "cores" if used >= FULL * cores else "workers"
