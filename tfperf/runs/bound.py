"""How close a step comes to what the machine could do at best."""

from typing import Any

import tensorflow as tf

from tfperf.measure import hlo, hlo_text, roofline
from tfperf.train.loop import Loop


def bound(loop: Loop, ms_per_step: float, threads: int) -> dict[str, Any]:
    """Work of one step of the compiled loop, the machine's limits measured here, and the share of the bound reached.

    The bound is the longer of arithmetic at the matrix peak and traffic at the bandwidth of the caches; traffic at the
    memory's stands beside it. Compiles the step once more. {"n/a": why} where the program holds what cannot be counted.
    """
    try:
        text = hlo.optimized_hlo(loop.function("steps", xla=True), tf.constant(1, tf.int64))
        module = hlo_text.parse(text)
        work = hlo.count(module, hlo.loop_body(module))
    except (ValueError, tf.errors.OpError) as error:
        return {"n/a": str(error)}
    machine = roofline.measure(threads, loop.dtype)
    seconds = roofline.bound_seconds(work, machine, cached=True)
    return {
        "replicas": loop.model.replicas, "mflop": work.flops / 1e6, "mflop_in_products": work.products / 1e6,
        "mbyte": work.bytes / 1e6, "transcendentals": work.transcendental,
        "kernels": sum(work.instructions.values()), "gflop_per_s": machine.gflops,
        "memory_gb_per_s": machine.bandwidth_gb_s, "cache_gb_per_s": machine.cache_gb_s,
        "bound_ms": 1e3 * seconds, "memory_bound_ms": 1e3 * roofline.bound_seconds(work, machine, cached=False),
        "ms_per_step": ms_per_step, "share_of_bound": 1e3 * seconds / ms_per_step,
    }  # fmt: skip
