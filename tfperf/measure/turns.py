"""How long a turn of a loop takes at least in which small products wait for each other, on a device at hand."""

import math
import time
from collections.abc import Callable

import tensorflow as tf

from tfperf.measure.roofline import Precision

TURNS = 100
RUNS = 10
GATES = 4


def measure_turn_seconds(batch: int, units: int, precision: Precision, device: str, xla: bool) -> float:
    """Seconds of a turn with the least that an LSTM's step has to do one after the other, forward and backward.

    These are the products of the state (batch, units) with the recurrent kernel (units, 4 units), and of the gates'
    gradient (batch, 4 units) with its transpose; all else of a step is left out, and of the two turns that a training
    step takes, forward and backward, one. xla: compiled by XLA, else run operation by operation. The best of RUNS.
    """
    with tf.device(device):
        begin = tf.zeros([batch, units], precision)
        kernel, back = tf.zeros([units, GATES * units], precision), tf.zeros([GATES * units, units], precision)

        def loop(turns: tf.Tensor) -> tf.Tensor:
            def body(i: tf.Tensor, state: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
                return i + 1, tf.matmul(tf.matmul(state, kernel), back)

            return tf.while_loop(lambda i, _: i < turns, body, (0, begin))[1]

        run = tf.function(loop, jit_compile=xla, autograph=False)
        return max(_measure_shortest(run, TURNS) - _measure_shortest(run, 0), 0.0) / TURNS


def _measure_shortest(run: Callable[[tf.Tensor], tf.Tensor], turns: int) -> float:
    """Seconds of the shortest of several runs; the first one, which compiles, is none."""
    run(tf.constant(turns)).numpy()
    best = math.inf
    for _ in range(RUNS):
        start = time.perf_counter()
        run(tf.constant(turns)).numpy()
        best = min(best, time.perf_counter() - start)
    return best
