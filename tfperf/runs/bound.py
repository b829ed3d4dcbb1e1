"""How close a step comes to what the machine could do at best."""

from statistics import median
from typing import Any

import tensorflow as tf

from tfperf.measure import hlo, hlo_text, roofline
from tfperf.train.ensemble import Ensemble
from tfperf.train.trainer import Trainer

WORTH_SECONDS = 15.0  # trainings shorter than that are not held up for it


def bound(ensemble: Ensemble, trainer: Trainer, threads: int) -> dict[str, Any]:
    """Work of a step of the last stacks, the machine's limits measured here, and the share of the bound reached.

    The bound is the longer of arithmetic at the matrix peak and traffic at the bandwidth of the caches; traffic at the
    memory's stands beside it. Compiles the step once more. {"n/a": why} where nothing was counted or timed.
    """
    times = trainer.seconds_per_step.get(ensemble.size, [])
    if not trainer.xla:
        return {"n/a": "counted for steps that XLA compiled"}
    if trainer.seconds_of_steps < WORTH_SECONDS or not times:
        return {"n/a": f"counted where training takes {WORTH_SECONDS:.0f} s or more"}
    gpu = bool(tf.config.list_logical_devices("GPU"))
    precision = ensemble.card.engine.precision
    try:
        text = hlo.optimized_hlo(ensemble.stack.function("steps", xla=True), tf.constant(1, tf.int64))
        module = hlo_text.parse(text)
        work = hlo.count(module, hlo.loop_body(module))
        machine = (roofline.measure_tensorflow if gpu else roofline.measure)(threads, precision)
    except (ValueError, RuntimeError, tf.errors.OpError) as error:  # a finished training must not fail for it
        return {"n/a": str(error)}
    stacks, ms = len(ensemble.shards), 1e3 * median(times)
    cached, memory = (1e3 * stacks * roofline.bound_seconds(work, machine, cached=c) for c in (True, False))
    return {
        "replicas": ensemble.size, "stacks": stacks, "mflop": stacks * work.flops / 1e6,
        "mflop_in_products": stacks * work.products / 1e6, "mbyte": stacks * work.bytes / 1e6,
        "transcendentals": stacks * work.transcendental, "kernels": stacks * sum(work.instructions.values()),
        "gflop_per_s": machine.gflops, "memory_gb_per_s": machine.bandwidth_gb_s,
        "cache_gb_per_s": machine.cache_gb_s, "bound_ms": cached, "memory_bound_ms": memory, "ms_per_step": ms,
        "share_of_bound": cached / ms,
    }  # fmt: skip
