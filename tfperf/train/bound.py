"""How close a step comes to what the machine could do at best."""

import os
from pathlib import Path
from statistics import median
from typing import Any

import tensorflow as tf

from tfperf.data.cache import Cache, digest
from tfperf.measure import hlo, hlo_convolution, hlo_text, roofline
from tfperf.measure.ceilings import get_ceilings, raise_ceilings
from tfperf.measure.environment import count_cores, read_cpu_model
from tfperf.measure.lowering import Lowering
from tfperf.measure.roofline import Ceilings, Work, compute_bound_seconds
from tfperf.train.ensemble import Ensemble
from tfperf.train.trainer import Trainer

WORTH_SECONDS = 10.0  # trainings shorter than that are not held up for it
FLAGS = ("XLA_FLAGS", "TF_XLA_FLAGS")
COUNTING = (hlo, hlo_convolution, hlo_text, roofline)  # the modules whose figures are kept


def estimate_bound(ensemble: Ensemble, trainer: Trainer, threads: int) -> dict[str, Any]:
    """Work of a step of the last stacks, the machine's limits measured here, and the share of the bound reached.

    The bound is the longer of arithmetic at the matrix peak and traffic at the bandwidth of the caches; traffic at the
    memory's stands beside it. Compiles the step once more and measures the machine, where the cache does not know the
    figures from an earlier run. {"n/a": why} where nothing was counted or timed.
    """
    times = trainer.seconds_per_step.get(ensemble.size, [])
    if not trainer.xla:
        return {"n/a": "counted for steps that XLA compiled"}
    if trainer.seconds_of_steps < WORTH_SECONDS:
        return {"n/a": f"counted where training takes {WORTH_SECONDS:.0f} s or more"}
    if not times:
        return {"n/a": "counted where all of the last stacks took steps at the same time"}
    cache, stacks, seconds = Cache(ensemble.settings.cache), len(ensemble.shards), median(times)
    try:
        program = Lowering(ensemble.largest_loop.get_program("steps", xla=True), tf.constant(1, tf.int64))
        work = _count_work(cache, program, threads)
        machine = _measure_ceilings(cache, threads, ensemble.settings.precision, work * stacks, seconds)
    except (ValueError, RuntimeError, tf.errors.OpError) as error:  # a finished training must not fail for it
        return {"n/a": str(error)}
    return _make_record(work * stacks, machine, ensemble.size, stacks, 1e3 * seconds)


def _make_record(work: Work, machine: Ceilings, replicas: int, stacks: int, ms: float) -> dict[str, Any]:
    cached, memory = (1e3 * compute_bound_seconds(work, machine, cached=c) for c in (True, False))
    return {
        "replicas": replicas, "stacks": stacks, "mflop": work.flops / 1e6, "mflop_in_products": work.products / 1e6,
        "mbyte": work.bytes / 1e6, "transcendentals": work.transcendental, "kernels": sum(work.instructions.values()),
        "gflop_per_s": machine.gflops, "memory_gb_per_s": machine.bandwidth_gb_s,
        "cache_gb_per_s": machine.cache_gb_s, "bound_ms": cached, "memory_bound_ms": memory, "ms_per_step": ms,
        "share_of_bound": cached / ms,
    }  # fmt: skip


def _count_work(cache: Cache, program: Lowering, threads: int) -> Work:
    """What a step does, counted once for each program, compiler and number of threads."""

    def count() -> Work:
        module = hlo_text.parse(program.compile_hlo())
        return hlo.count_work(module, hlo.find_loop_body(module))

    flags = [os.environ.get(name) for name in FLAGS]
    key = digest(program.digest, tf.__version__, flags, threads, _list_hardware(), _read_sources())
    return cache.get("work", key, count)


def _measure_ceilings(cache: Cache, threads: int, precision: Any, work: Work, seconds: float) -> Ceilings:
    """The machine's limits, measured once for a number of threads and a precision.

    They are the best seen: a machine that was busy then looks slower than it is, so that the share of the bound comes
    out too high. Measured again, and the higher figures kept, where a step took less than its bound; where the card
    renews the cache, too.
    """
    gpu = bool(tf.config.list_logical_devices("GPU"))
    measure = roofline.measure_tensorflow if gpu else roofline.measure_ceilings
    beside = _list_hardware(), _read_sources(), tf.__version__
    found = get_ceilings(cache, threads, precision, measure, *beside)
    if seconds >= compute_bound_seconds(work, found, cached=True):
        return found
    return raise_ceilings(cache, threads, precision, found, measure, *beside)


def _list_hardware() -> tuple[Any, ...]:
    devices = tf.config.list_physical_devices("GPU")
    return read_cpu_model(), count_cores(), [tf.config.experimental.get_device_details(d) for d in devices]


def _read_sources() -> list[bytes]:
    return [Path(str(module.__file__)).read_bytes() for module in COUNTING]
