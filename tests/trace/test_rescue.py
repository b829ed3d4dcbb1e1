"""What is recorded outlives a program that ends early."""

import subprocess
import sys

import pytest

from tfperf.trace.attribution import read_attribution

PROGRAM = """
import os, signal, sys, tensorflow as tf, tfperf.trace.capture
weight = tf.Variable(tf.ones([50, 50]))
step = tf.function(lambda: weight.assign(weight @ weight / 50))
window = tfperf.trace.capture.Capture(__import__("pathlib").Path(sys.argv[1]), 20, 2, 2, turns=1)
for number in range(9):
    with window.step(number):
        step().numpy()
{end}
"""


ENDS = [("os.kill(os.getpid(), signal.SIGTERM)", -15), pytest.param("sys.exit(3)", 3, marks=pytest.mark.slow)]


@pytest.mark.parametrize(("end", "code"), ENDS)
def test_a_program_that_ends_in_its_window_leaves_a_profile(tmp_path, end, code):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(end=end), str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == code, done.stderr[-800:]
    found = read_attribution(tmp_path)
    assert found.calls == 7 and found.problems == ("the training ended after 7 of 20 calls that were to be recorded",)
