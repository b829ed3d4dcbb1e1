"""One capture of the benchmark `profile-against`: python -m benchmarks.profile_against_side NAME FOLDER SHARE."""

import sys
from pathlib import Path

import numpy as np
import tensorflow as tf

from benchmarks.diagnosis.child import load_programs, record, time_steps
from benchmarks.diagnosis.program import PROGRAMS
from tfperf.trace.capture import capture

SIZE, PRODUCTS, STEPS, SKIP = 224, 50, 300, 100  # rows of a product; in a step of 10 ms; steps as of a card's capture


def record_longer(folder: Path, share: float) -> None:
    """A step of PRODUCTS products, and of that share more of them; sized so that PRODUCTS take about 10 ms."""
    matrix = tf.random.stateless_uniform([SIZE, SIZE], [1, 2]) / SIZE

    def multiply(count: tf.Tensor) -> tf.Tensor:
        found = matrix
        for _ in tf.range(count):
            found = tf.linalg.matmul(found, matrix)
        return tf.reduce_sum(found)

    step = tf.function(multiply)
    count = tf.constant(round(PRODUCTS * (1 + share)))
    with capture(folder, STEPS, SKIP) as window:
        for number in range(SKIP + STEPS + 10):
            with window.step(number):
                np.asarray(step(count))


def main(name: str, folder: Path, share: float) -> None:
    """Record the twin of a program of the benchmark `diagnosis`, or the longer step."""
    if name == "longer":
        record_longer(folder, share)
        return
    load_programs()
    training = PROGRAMS[name].make(False)
    time_steps(training)  # which traces and compiles
    record(training, folder)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]))
