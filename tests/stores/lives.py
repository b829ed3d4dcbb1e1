"""Lives of a process that stores, each a fork of one that has TensorFlow imported and has not used it yet.

Run as `python -m tests.stores.lives STORE LOG`: each line on stdin begins a life, whose process id is printed, then
the status of its end. A life notes in LOG each element that it makes.
"""

import os
import sys

import numpy as np
import tensorflow as tf

import tfperf
from tfperf.errors import Interrupted
from tfperf.stores import element_file, writing

COUNT, SIZE, BLOCK = 300, 700, 7 * 700


def make(log, seconds):
    def note(number):
        with open(log, "a") as file:
            file.write(f"{number}\n")
        if seconds:
            import time

            time.sleep(seconds)
        return np.random.default_rng(number).integers(0, 256, SIZE, np.uint8)

    dataset = tf.data.Dataset.range(COUNT).shuffle(30, seed=1)
    dataset = dataset.map(lambda i: tf.ensure_shape(tf.numpy_function(note, [i], tf.uint8), (SIZE,)), name="prepare")
    return dataset.batch(4)


def live(store, log, seconds):
    """Store as often as can be told from outside; returns an exit code."""
    element_file.BLOCK_BYTES, writing.SYNC_SECONDS = BLOCK, 0.0
    try:
        tfperf.store(make(log, seconds), store, after="prepare")
    except Interrupted as stop:
        return stop.exit_code
    return 0


def main():
    for _ in sys.stdin:
        child = os.fork()
        if not child:
            code = 99
            try:
                code = live(sys.argv[1], sys.argv[2], 0.003)
            finally:
                os._exit(code)
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
