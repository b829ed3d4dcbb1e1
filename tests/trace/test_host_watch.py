"""What is told of Python while steps are recorded."""

import gc
import sys
import threading
import time

import numpy as np
import tensorflow as tf

from tfperf.trace.attribution import read_attribution
from tfperf.trace.capture import capture
from tfperf.trace.findings import list_findings
from tfperf.trace.host_watch import HostWatch, describe_frame


def wait_here():
    time.sleep(0.03)


def test_lines_and_garbage_of_a_loop_are_told(tmp_path):
    weight = tf.Variable(tf.ones([200, 200]))
    step = tf.function(lambda: weight.assign(weight @ weight / 200))
    with capture(tmp_path, steps=8, skip=3) as window:
        for number in range(18):
            with window.step(number):
                step().numpy()
                wait_here()
                if number % 2:
                    gc.collect()
    found = read_attribution(tmp_path)
    line = wait_here.__code__.co_firstlineno + 1
    first = list_findings(found)[0]
    assert first.rule == "python" and f"test_host_watch.py:{line}, in wait_here" in first.what
    assert 29 < first.ms < 45
    assert found.account.sum("garbage") > 0.5 * found.account.sum("dispatch") > 0
    assert found.account.overhead_ms is not None


def test_a_line_in_a_library_is_that_of_the_program_that_calls_it():
    said = []

    def keep(values):
        own = sys._getframe()
        assert own.f_back is not None and "numpy" in own.f_back.f_code.co_filename
        said.extend([describe_frame(own), describe_frame(own.f_back)])
        return np.float64(len(values))

    np.apply_along_axis(keep, 0, np.ones((2, 1)))
    mine, library = said
    assert mine.endswith(f":{keep.__code__.co_firstlineno + 3} in keep")
    assert library.endswith("in test_a_line_in_a_library_is_that_of_the_program_that_calls_it")


def test_python_is_left_as_it_was():
    interval, callbacks, threads = sys.getswitchinterval(), list(gc.callbacks), threading.active_count()
    watch = HostWatch()
    watch.start()
    time.sleep(0.05)
    assert sys.getswitchinterval() < interval and len(gc.callbacks) == len(callbacks) + 1
    watch.stop()
    assert watch.samples > 2 and watch.seconds < 0.05
    assert (sys.getswitchinterval(), gc.callbacks, threading.active_count()) == (interval, callbacks, threads)
