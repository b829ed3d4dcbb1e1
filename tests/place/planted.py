"""A program of its own on two logical CPUs whose chain and overlap are known, since its operations sleep.

python -m tests.place.planted FOLDER: what is told of its steps, as JSON. Each step of a call, TURNS times a SLEEP in a
loop on the first device; on the second a pass and an update of LESS each, at the same time; their sum on the host waits
for both, LESS. Sleeping needs no core, so that nothing is in its way.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
import tensorflow as tf

from tfperf.place.breakdown import break_down
from tfperf.place.devices import HOST, Devices
from tfperf.place.function_graphs import remake_kernels
from tfperf.place.run_graphs import record_largest_graph
from tfperf.scopes import phase
from tfperf.trace.capture import Capture

SLEEP, LESS, TURNS, STEPS, CALLS = 0.03, 0.015, 4, 3, 2
DEVICES = Devices(HOST, tuple(HOST.replace("CPU:0", f"CPU:{k}") for k in (1, 2)), logical=True)


def nap(x: tf.Tensor, seconds: float) -> tf.Tensor:
    """Its value, later."""

    def wait(value: np.ndarray) -> np.ndarray:
        time.sleep(seconds)
        return value

    out = tf.numpy_function(wait, [x], tf.float32, stateful=False)  # stateful ones run one after the other
    out.set_shape(x.shape)
    return out


def step(x: tf.Tensor) -> tf.Tensor:
    """One step: its value waits for all of it."""
    with tf.name_scope("tower_0"), tf.device(DEVICES.each[0]), phase("forward"):
        first = tf.while_loop(lambda i, _: i < TURNS, lambda i, y: (i + 1, nap(y, SLEEP)), (0, tf.identity(x)))[1]
    with tf.name_scope("tower_1"), tf.device(DEVICES.each[1]):
        with phase("forward"):
            second = nap(tf.identity(x), LESS)
        with phase("update"):
            beside = nap(tf.identity(x), LESS)
    with phase("merge"), tf.device(DEVICES.host):
        return nap(tf.add_n([first, second, beside]) / 3, LESS)


@tf.function(autograph=False)
def call(x: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
    """So many steps, one after the other."""
    with tf.device(DEVICES.host):
        return tf.while_loop(lambda i, _: i < count, lambda i, y: (i + 1, step(y)), (0, x))[1]


def main(folder: Path) -> None:
    tf.config.threading.set_inter_op_parallelism_threads(6)
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 3)

    def run() -> None:
        call(tf.ones([4]), tf.constant(STEPS)).numpy()

    run()
    remake_kernels()
    run()
    capture = Capture(folder, CALLS, 0, host_level=2, turns=STEPS)
    for number in range(CALLS):
        with capture.step(number):
            run()
    print(json.dumps(break_down(folder, record_largest_graph(run), DEVICES)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
