"""python -m tests.runs.compile_child CARD KEY=VALUE ...: starts TensorFlow for a card, compiles a function with XLA.

Prints as JSON: the result's bytes, the programs that TensorFlow was offered, those that it made, its flags afterwards.
"""

import json
import os
import sys
from pathlib import Path

from tfperf.data.programs import VARIABLE
from tfperf.measure.quiet import silence_tensorflow

silence_tensorflow()

import tensorflow as tf  # noqa: E402

from tfperf.train import program_cache as programs  # noqa: E402
from tfperf.train.cores import Cores  # noqa: E402
from tfperf.workloads.pdf.cards import load_card  # noqa: E402
from tfperf.workloads.pdf.training import start_tensorflow  # noqa: E402


def compute(n):
    matrix = tf.reshape(tf.range(2500.0) / 2500, (50, 50))
    return tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, tf.tanh(y @ matrix)), (tf.constant(0), matrix))[1]


def main():
    start_tensorflow(load_card(Path(sys.argv[1]), sys.argv[2:]), Cores(2))
    now = programs.ProcessPrograms.current
    offered = sorted(now.earlier) if now else []
    function = tf.function(compute, jit_compile=True, autograph=False)
    result = function.get_concrete_function(tf.TensorSpec((), tf.int32))(tf.constant(20)).numpy()
    there = tf.io.gfile.listdir(programs.MEMORY) if tf.io.gfile.exists(programs.MEMORY) else []
    made = sorted(set(there) - set(offered))
    programs.keep_programs()
    flags = os.environ.get(VARIABLE)
    bits = result.tobytes().hex()
    print(json.dumps({"bits": bits, "offered": offered, "made": made, "flags": flags}))


if __name__ == "__main__":
    main()
