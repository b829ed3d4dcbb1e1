"""What is told of Python while steps are recorded."""

import gc
import sys
import sysconfig
import threading
import time
import traceback
from functools import partial
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfperf.scopes import OF_LIBRARY
from tfperf.trace.attribution import read_attribution
from tfperf.trace.callback import ProfileCallback
from tfperf.trace.capture import capture
from tfperf.trace.findings import list_findings
from tfperf.trace.host_watch import HostWatch, describe_places, read_places


def wait_here():
    time.sleep(0.03)


def test_lines_and_garbage_of_a_loop_are_told(tmp_path):
    weight = tf.Variable(tf.ones([200, 200]))
    step = tf.function(lambda: weight.assign(weight @ weight / 200))
    gc.collect()
    gc.freeze()  # what other tests left would take a collection a second, beside which 30 ms are no finding
    with capture(tmp_path, steps=8, skip=3) as window:
        for number in range(18):
            with window.step(number):
                step().numpy()
                wait_here()
                if number % 2:
                    gc.collect()
    found = read_attribution(tmp_path)
    line = wait_here.__code__.co_firstlineno + 1
    (python,) = [one for one in list_findings(found) if one.rule == "python"]
    assert f"test_host_watch.py:{line}, in wait_here" in python.what and python.ms > 24
    collected = sum(one.times for one in found.account.list("garbage") if one.name == "generation 2")
    assert collected >= 0.4 and found.account.sum("garbage") > 0  # every second step, of seven
    assert found.account.overhead_ms is not None


def test_a_line_in_a_library_is_that_of_the_program_that_calls_it():
    said = []

    def keep(values):
        own = sys._getframe()
        assert own.f_back is not None and "numpy" in own.f_back.f_code.co_filename
        said.extend([describe_places(read_places(one)) for one in (own, own.f_back)])
        return np.float64(len(values))

    np.apply_along_axis(keep, 0, np.ones((2, 1)))
    mine, library = said
    assert mine.endswith(f":{keep.__code__.co_firstlineno + 3} in keep")
    assert library.endswith("in test_a_line_in_a_library_is_that_of_the_program_that_calls_it")


def test_lines_of_a_librarys_loop_are_its_own(tmp_path):
    """What Keras' loop does between batches is no line of the program that calls `fit`."""
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=False)
    callback = ProfileCallback(tmp_path, steps=500, skip=3)
    model.fit(np.ones((510, 8)), np.ones((510, 1)), batch_size=1, verbose=0, callbacks=[callback])
    account = read_attribution(tmp_path).account
    lines = [one.name for one in (*account.list("python"), *account.list("eager"))]
    assert any(lines) and all(not line or line.endswith(OF_LIBRARY) for line in lines), lines  # "": nobody looked


@pytest.mark.parametrize("what, said", [
    ("starts", " by TensorFlow"), ("writes", " by TensorFlow, which writes"), ("computes", ""),
])  # fmt: skip
def test_a_line_tells_whether_tensorflow_is_at_work_below_it(tmp_path, what, said):
    """Many looks at a thread that does it again and again: most of them find it there."""
    weight = tf.Variable(tf.ones([4, 4]))
    saved = tf.train.Checkpoint(weight=weight)
    each = {
        "starts": lambda: [weight + 1.0 for _ in range(200)], "writes": lambda: saved.save(str(tmp_path / "c")),
        "computes": lambda: sorted(range(20_000), key=lambda one: -one),
    }[what]  # fmt: skip
    ended, seen, mine = threading.Event(), [], threading.get_ident()

    def look():
        while not ended.wait(0.002):
            seen.append(describe_places(read_places(mine)))

    thread = threading.Thread(target=look)
    thread.start()
    until = time.perf_counter() + 0.6
    while time.perf_counter() < until:
        each()
    ended.set()
    thread.join()
    mine_alone = [one.partition(" in ")[2].partition(" ")[2] for one in seen]
    assert sum(one == said.strip() for one in mine_alone) > 0.6 * len(seen), seen


@pytest.mark.parametrize("collects", [True, False])
def test_places_of_a_thread_are_those_that_python_tells(collects):
    ready, ended = threading.Event(), threading.Event()

    def go_down(depth):
        if depth:
            return go_down(depth - 1)
        ready.set()
        return ended.wait()

    thread = threading.Thread(target=go_down, args=(5,))
    thread.start()
    ready.wait()
    time.sleep(0.05)  # until it waits, in a place that stays the same
    try:
        (gc.enable if collects else gc.disable)()
        found = read_places(thread.ident or 0)
        told = traceback.extract_stack(sys._current_frames()[thread.ident or 0])[::-1]
        assert gc.isenabled() == collects
    finally:
        gc.enable()
        ended.set()
        thread.join()
    assert [(one.file, one.line, one.function) for one in found] == [(t.filename, t.lineno, t.name) for t in told]
    assert [one.function for one in found].count("go_down") == 6 and not read_places(thread.ident or 0)


def test_python_is_left_as_it_was():
    interval, callbacks, threads = sys.getswitchinterval(), list(gc.callbacks), threading.active_count()
    watch = HostWatch()
    watch.start()
    time.sleep(0.08)
    assert sys.getswitchinterval() < interval and len(gc.callbacks) == len(callbacks) + 1
    watch.stop()
    assert watch.samples > 2 and watch.seconds < 0.05
    assert (sys.getswitchinterval(), gc.callbacks, threading.active_count()) == (interval, callbacks, threads)


def test_threads_take_turns_as_before_where_others_are_at_work():
    """A generator of a dataset's, for one: while it has its turn the training waits, in the profile as without it."""
    interval, ended = sys.getswitchinterval(), threading.Event()

    def generate():
        while not ended.is_set():
            sum(range(1000))

    thread = threading.Thread(target=generate)
    watch, seen = HostWatch(), set()
    watch.start()
    time.sleep(0.08)
    assert sys.getswitchinterval() < interval
    thread.start()
    time.sleep(0.3)
    for _ in range(5):
        time.sleep(0.01)
        seen.add(sys.getswitchinterval())
    ended.set()
    thread.join()
    watch.stop()
    assert seen == {interval}


def test_a_line_of_a_program_that_is_installed_is_its_own():
    """It lies among the libraries that it calls; those that call it are Python's alone."""
    root = sysconfig.get_path("purelib")
    source = "def train(look):\n    helper(look)\ndef look_here(look):\n    look()\n"
    trainer: dict[str, Any] = {}
    library: dict[str, Any] = {}
    exec(compile("def helper(look):\n    look()\n", f"{root}/some_library/parts.py", "exec"), library)
    exec(compile(source, f"{root}/own_trainer/loop.py", "exec"), trainer)
    trainer["helper"] = library["helper"]
    said: list[str] = []
    look = partial(lambda: said.append(describe_places(read_places(sys._getframe(1)))))
    thread = threading.Thread(target=partial(trainer["train"], look))
    thread.start()
    thread.join()
    assert said == ["own_trainer/loop.py:2 in train"]


def test_a_thread_of_the_program_that_sleeps_is_not_at_work():
    """Python's threads take turns more often then."""
    ended = threading.Event()

    def sleep():
        while not ended.is_set():
            time.sleep(0.02)

    sleeper = threading.Thread(target=sleep)
    sleeper.start()
    before, watch = sys.getswitchinterval(), HostWatch()
    watch.start()
    start = time.perf_counter()
    while watch.samples < 30 and time.perf_counter() < start + 10:
        time.sleep(0.01)
    during = sys.getswitchinterval()
    watch.stop()
    ended.set()
    sleeper.join()
    assert during < before == sys.getswitchinterval()
