"""How many cores a loader can really have now: what is left by others and by the control group, not what is there."""

import hashlib
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Barrier

from tfperf.inputs.cpu_quota import read_cpu_quota
from tfperf.measure.confidence import ConfidenceInterval, estimate_mean
from tfperf.measure.environment import count_cores

ROUNDS = 5  # independent enough: schedulers share out cores anew within milliseconds
BLOCK = bytes(1 << 18)  # hashing so much, about 0.1 ms, lets other threads of the interpreter go on

# CPU time and wall time [s] of each thread
Spin = Callable[[int, float], list[tuple[float, float]]]


@dataclass(frozen=True)
class FreeCores:
    """Cores that threads which never wait got, beside all else that ran."""

    cores: ConfidenceInterval  # never more than visible ones or the quota
    visible: int  # that the process may run on
    quota: float | None  # cores, by its control groups
    seconds: float  # that were measured


def measure_free_cores(seconds: float = 0.5, rounds: int = ROUNDS, spin: Spin | None = None) -> FreeCores:
    """Keep one thread busy for each visible core, in some rounds, and add up the CPU time that they get.

    Where others run, too, this is the share that a loader with a worker for each core would get beside them, not
    what they leave idle. It is of the moment: measure it in the minutes in which it is used. A quota lets a process go
    on at full speed for the first part of each period, so rounds shorter than one, usually 0.1 s, may get more; the
    quota itself is the limit then.

    spin: what keeps threads busy; hashing by default, which holds no lock of the interpreter's.
    Raises: ValueError for fewer than two rounds, which have no interval.
    """
    if rounds < 2 or seconds <= 0:
        raise ValueError(f"free cores need at least two rounds and some time, not {rounds} in {seconds} s")
    visible, quota, start = count_cores(), read_cpu_quota(), time.perf_counter()
    shares = [_sum_shares((spin or use_cores)(visible, seconds / rounds)) for _ in range(rounds)]
    most = min(visible, quota or visible)
    return FreeCores(_restrict(estimate_mean(shares), most), visible, quota, time.perf_counter() - start)


def use_cores(threads: int, seconds: float) -> list[tuple[float, float]]:
    """Keep so many threads busy, from the same moment on; CPU time and wall time [s] of each."""
    barrier = Barrier(threads)

    def keep_busy() -> tuple[float, float]:
        barrier.wait()
        wall, processor = time.perf_counter(), time.thread_time()
        while time.perf_counter() - wall < seconds:
            hashlib.sha256(BLOCK)
        return time.thread_time() - processor, time.perf_counter() - wall

    with ThreadPoolExecutor(threads) as pool:
        return [each.result() for each in [pool.submit(keep_busy) for _ in range(threads)]]


def _sum_shares(spins: list[tuple[float, float]]) -> float:
    return sum(processor / wall for processor, wall in spins)


def _restrict(cores: ConfidenceInterval, most: float) -> ConfidenceInterval:
    """None of the three above `most`, which is certain, nor a limit below zero."""
    low, high = cores.low, cores.high
    return ConfidenceInterval(
        min(cores.value, most),
        None if low is None else max(0.0, min(low, most)),
        None if high is None else min(high, most),
    )
