"""The bound on a step's time: FLOPs over the matrix peak, bytes over bandwidth, both measured on the machine at hand.

Source: Williams, Waterman & Patterson 2009, doi:10.1145/1498765.1498785. Run as a script, this file measures with NumPy
and prints the figures as JSON; it imports nothing of the package, so that it starts at once.
"""

import json
import math
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Barrier
from typing import Any, Literal

Precision = Literal["float32", "float64"]
GIGA = 1e9
CACHED_BYTES = 2**20  # per thread
CACHES = Path("/sys/devices/system/cpu")
UNKNOWN_CACHE = 2**26  # where the system does not tell the size of its last-level cache
LARGEST = 2**30  # of arrays to stream over
SECONDS = 0.1  # for each kernel
LONGEST = 60.0  # for the process that measures
THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


@dataclass(frozen=True)
class Ceilings:
    """Ceilings: GB/s from memory and within caches, matrix products in GFLOP/s at a precision, all threads working."""

    bandwidth_gb_s: float
    cache_gb_s: float
    gflops: float
    precision: Precision
    threads: int


@dataclass(frozen=True)
class Work:
    """What a step does: FLOPs, of which `products` in matrix products; bytes; evaluations of transcendental functions.

    `instructions`: kernels by opcode.

    >>> both = Work(flops=2.0, bytes=8.0) * 3 + Work(flops=1.0, bytes=0.0)
    >>> both.flops, both.bytes
    (7.0, 24.0)
    """

    flops: float
    bytes: float
    transcendental: float = 0
    products: float = 0
    instructions: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: "Work") -> "Work":
        return Work(
            self.flops + other.flops, self.bytes + other.bytes, self.transcendental + other.transcendental,
            self.products + other.products, Counter(self.instructions) + Counter(other.instructions),
        )  # fmt: skip

    def __mul__(self, times: int) -> "Work":
        return Work(
            times * self.flops, times * self.bytes, times * self.transcendental, times * self.products,
            {opcode: times * n for opcode, n in self.instructions.items()},
        )  # fmt: skip


def compute_bound_seconds(work: Work, ceilings: Ceilings, cached: bool = False) -> float:
    """The least time the work can take: the longer of arithmetic and traffic.

    `cached`: at the bandwidth of caches, for work whose arrays fit there; else as if each byte came from memory.

    >>> machine = Ceilings(bandwidth_gb_s=10.0, cache_gb_s=40.0, gflops=100.0, precision="float32", threads=2)
    >>> compute_bound_seconds(Work(flops=1e9, bytes=4e9), machine)  # 0.01 s of arithmetic, 0.4 s of traffic
    0.4
    >>> compute_bound_seconds(Work(flops=1e9, bytes=4e9), machine, cached=True)
    0.1
    """
    bandwidth = ceilings.cache_gb_s if cached else ceilings.bandwidth_gb_s
    return max(work.flops / ceilings.gflops, work.bytes / bandwidth) / GIGA


def measure_ceilings(threads: int, precision: Precision) -> Ceilings:
    """Measure the processor with NumPy in a process of its own: about a second, no TensorFlow, no memory kept here.

    Best of several runs, so that other programs disturb little. Bandwidth is the higher one of reading and of changing
    in place, over four times the last-level caches or over 1 MB a thread; the peak is that of a large product.

    On one Zen 4 core OpenBLAS makes 100-106 GFLOP/s in float32 and 53 in float64, XLA's products 94-104 and 47, plain
    TensorFlow's 104-110 and 48 (by CPU time): alike in float32; in float64 NumPy sets the higher bound, by 13 %.
    `measure_tensorflow` gives TensorFlow's own. RuntimeError where the measurement fails.
    """
    limits = dict.fromkeys(THREAD_VARIABLES, str(threads))
    command = [sys.executable, "-P", __file__, str(threads), precision]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=os.environ | limits, timeout=LONGEST, check=True
        )
        memory, cache, gflops = json.loads(done.stdout)
    except subprocess.CalledProcessError as error:
        reason = error.stderr.strip().rpartition("\n")[2]
        raise RuntimeError(f"the measurement of the machine failed: {reason}") from None
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"the measurement of the machine took longer than {LONGEST:.0f} s") from None
    return Ceilings(memory, cache, gflops, precision, threads)


def measure_tensorflow(threads: int, precision: Precision) -> Ceilings:
    """Measure TensorFlow's first device through XLA, in this process: the same figures, for a GPU as for a processor.

    `threads` says how many TensorFlow has; it is not set here.
    """
    import tensorflow as tf

    gpu = bool(tf.config.list_logical_devices("GPU"))
    zero = tf.constant(0)

    def repeat(step: Callable[[Any, Any], Any]) -> Any:
        def loop(x: Any, turns: Any) -> Any:
            return tf.while_loop(lambda i, _: i < turns, lambda i, y: (i + 1, step(x, y)), (zero, x))[1][:1, :1]

        return tf.function(loop, jit_compile=True, autograph=False)

    def measure_rate(step: Callable[[Any, Any], Any], rows: int, columns: int, work: float) -> float:
        x, function, turns = tf.fill([rows, columns], tf.constant(1 / columns, precision)), repeat(step), 1

        def measure_seconds(turns: int) -> float:
            return _measure_shortest(lambda: function(x, tf.constant(turns)).numpy())

        nothing = measure_seconds(0)
        while (spent := measure_seconds(turns) - nothing) < SECONDS / 4 and turns < 2**20:
            turns *= 4
        return turns * work / spent / GIGA

    itemsize, side = tf.as_dtype(precision).size, 4096 if gpu else _compute_side(threads)
    sizes = [LARGEST // 4 if gpu else _compute_stream_bytes(), 16 * CACHED_BYTES if gpu else threads * CACHED_BYTES]
    memory, cache = (measure_rate(lambda _, y: -y, 256, n // itemsize // 256, 2 * n) for n in sizes)
    return Ceilings(memory, cache, measure_rate(tf.matmul, side, side, 2 * side**3), precision, threads)


def _measure_shortest(run: Callable[[], object], seconds: float = SECONDS) -> float:
    """The shortest of several runs; the first one warms up."""
    run()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def _compute_side(threads: int) -> int:
    """Rows of a square matrix that gives each thread enough to do: 1024 for one, 2048 for four."""
    return 64 * round(16 * math.sqrt(threads))


def _read_cache_bytes() -> int:
    """Bytes in the last-level caches of all available cores; 0 where the system does not tell."""
    found: dict[tuple[int, str], int] = {}
    for size in CACHES.glob("cpu[0-9]*/cache/index[0-9]*/size"):
        try:
            level = int((size.parent / "level").read_text())
            cores = (size.parent / "shared_cpu_list").read_text().strip()
            found[level, cores] = int(size.read_text().strip().removesuffix("K")) * 1024
        except (OSError, ValueError):
            continue
    last = max((level for level, _ in found), default=0)
    return sum(size for (level, _), size in found.items() if level == last)


def _compute_stream_bytes() -> int:
    """Bytes to stream over, so that caches hold little of it."""
    return min(LARGEST, 4 * (_read_cache_bytes() or UNKNOWN_CACHE))


def _measure_bandwidth(pool: ThreadPoolExecutor, threads: int, size: int, passes: int, precision: Precision) -> float:
    """GB/s of all threads, each over an array of its own of `size` bytes, several times in one run."""
    import numpy as np

    barrier = Barrier(threads)

    def make_array(_: int) -> Any:
        barrier.wait()  # so that each thread touches its own array first
        return np.ones(size // np.dtype(precision).itemsize, precision)

    def read(array: Any) -> Any:
        # in one call for all passes, so that many threads do not wait for each other in Python
        return np.broadcast_to(array, (passes, len(array))).max(axis=1)

    def change(array: Any) -> Any:
        for _ in range(passes):
            np.negative(array, out=array)
        return array

    arrays = list(pool.map(make_array, range(threads)))
    reading = _measure_shortest(lambda: list(pool.map(read, arrays)))
    changing = _measure_shortest(lambda: list(pool.map(change, arrays)))
    return max(1 / reading, 2 / changing) * threads * size * passes / GIGA


def _measure_figures(threads: int, precision: Precision) -> tuple[float, float, float]:
    """GB/s from memory, GB/s in caches, GFLOP/s."""
    import numpy as np

    with ThreadPoolExecutor(threads) as pool:
        memory = _measure_bandwidth(pool, threads, _compute_stream_bytes() // threads, 1, precision)
        cache = _measure_bandwidth(pool, threads, CACHED_BYTES, 100, precision)
    side = _compute_side(threads)
    x, product = np.ones((side, side), precision), np.empty((side, side), precision)
    return memory, cache, 2 * side**3 / _measure_shortest(lambda: np.matmul(x, x, out=product), 3 * SECONDS) / GIGA


if __name__ == "__main__":
    print(json.dumps(_measure_figures(int(sys.argv[1]), "float64" if sys.argv[2] == "float64" else "float32")))
