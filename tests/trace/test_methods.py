"""Methods of Keras that a loop calls in its steps are told, with the line that calls them."""

import gc
import threading
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest

from tests.trace.profiles import us, write
from tfperf.trace.attribution import read_attribution
from tfperf.trace.capture import capture
from tfperf.trace.findings import list_findings
from tfperf.trace.hooks import mark_hooks
from tfperf.trace.methods import METHODS, MethodMarks
from tfperf.trace.notes import Notes

MARK = {"step_num": 0}


@pytest.fixture
def no_collections() -> Iterator[None]:
    """Without these, which end what other tests have left, too: an iterator takes up to 0.6 s to be ended."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_what_predict_takes_in_a_loop_is_told_by_its_line(tmp_path, no_collections):
    model = keras.Sequential([keras.layers.Dense(8), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    x, y = np.ones((32, 4), "float32"), np.ones((32, 1), "float32")
    before = [vars(keras.Model).get(name) for name in METHODS]
    with capture(tmp_path, steps=6, skip=3) as window:
        for number in range(16):
            with window.step(number):
                if number % 2:
                    model.predict(x[:1], verbose=0)
                model.train_on_batch(x, y)
    assert [vars(keras.Model).get(name) for name in METHODS] == before
    found = read_attribution(tmp_path)
    first = list_findings(found)[0]
    line = test_what_predict_takes_in_a_loop_is_told_by_its_line.__code__.co_firstlineno + 9
    assert first.rule == "method" and f"predict is called at tests/trace/test_methods.py:{line}" in first.what
    assert "predict_on_batch" in first.change and first.ms > 0.7 * found.account.period_ms
    (charge,) = found.account.list("method")
    assert 0.3 < charge.times < 0.7  # every second step, whatever its operations cut it into
    assert not found.account.list("epoch") and not found.account.list("compilation")


def test_what_a_method_compiles_is_the_compilers_and_what_it_traces_for_its_data_is_its_own(tmp_path):
    traced = {"tf_function_call": "traced-nonXla"}
    python: list[Any] = [("train", 200 * i, 190, MARK) for i in range(3)]
    for i in range(2):
        python += [("tfperf.method:predict at a.py:3 in ask", 200 * i, 100),
                   ("EagerLocalExecute: MakeIterator", 200 * i, 20), ("tf.function-graph_building", 200 * i + 20, 30),
                   ("XlaCompiler::Compile", 200 * i + 60, 15)]  # fmt: skip
    python += [("one_step", 80, 10, traced), ("tf.function-graph_building", 81, 8)]
    main = [("a/A:MatMul", 200 * i + 110, 70) for i in range(3)]
    path = write(tmp_path / "vm.xplane.pb", {"/host:CPU": {"python": us(*python), "main": us(*main)}})
    account = read_attribution(path, Notes(own=True, optimizers=())).account
    times = {cause: round(2e3 * account.sum(cause)) for cause in ("method", "compilation", "epoch")}
    # in both 15 of the compiler; in the first also the 10 of the call that traced its step
    assert times == {"method": 160, "compilation": 40, "epoch": 0}


def test_an_inner_method_is_part_of_the_outer_one_and_an_error_leaves_no_range(tmp_path):
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    x, y = np.ones((8, 2), "float32"), np.ones((8, 1), "float32")
    model.fit(x, y, verbose=0)
    with capture(tmp_path, steps=3, skip=2) as window:
        for number in range(8):
            with window.step(number):
                with pytest.raises(ValueError, match="compatible"):
                    model.predict(np.ones((2, 7), "float32"), verbose=0)
                model.fit(x, y, validation_data=(x, y), verbose=0)
    names = {one.name.partition(" ")[0] for one in read_attribution(tmp_path).account.list("method")}
    assert names == {"fit", "predict"}


def test_a_method_over_many_batches_leaves_its_time_to_what_it_spends_it_on(tmp_path):
    plain = {"tf_function_call": "notTraced-nonXla"}
    for batches, method, waits in ((3, 900, 0), (20, 0, 400)):
        python: list[Any] = [("train", 1000 * i, 990, MARK) for i in range(3)]
        for i in range(3):
            python.append(("tfperf.method:fit at a.py:3 in run", 1000 * i, 900))
            for k in range(batches):
                at = 1000 * i + 40 * k
                python += [("Iterator::Prefetch", at + 20, 20), ("step", at + 1, 2, plain)]
        main = [("a/A:MatMul", 1000 * i + 905, 70) for i in range(3)]
        folder = tmp_path / str(batches)
        path = write(folder / "vm.xplane.pb", {"/host:CPU": {"python": us(*python), "main": us(*main)}})
        account = read_attribution(path, Notes(own=True, optimizers=())).account
        assert 1e3 * account.sum("method") == pytest.approx(method)
        assert 1e3 * account.sum("input") == pytest.approx(waits)


def test_what_another_thread_predicts_is_no_cause(tmp_path):
    python: list[Any] = [("train", 100 * i, 100, MARK) for i in range(4)]
    main = [("a/A:MatMul", 100 * i + 10, 60) for i in range(4)]
    other = [("tfperf.method:predict at a.py:9 in act", 0, 400)]
    lines = {"python": us(*python), "main": us(*main), "other": us(*other)}
    account = read_attribution(write(tmp_path / "vm.xplane.pb", {"/host:CPU": lines}), Notes(own=True)).account
    assert account.sum("method") == 0 < account.sum("dispatch")


def test_what_another_thread_calls_is_not_marked_and_marks_nothing_of_this_one():
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    x = np.ones((4, 2), "float32")
    model.predict(x, verbose=0)
    marks = MethodMarks()
    inside: list[bool] = []
    look = keras.callbacks.LambdaCallback(on_predict_end=lambda logs: inside.append(marks._inside))
    marks.start()
    try:
        thread = threading.Thread(target=lambda: model.predict(x, verbose=0, callbacks=[look]))
        thread.start()
        thread.join()
        model.predict(x, verbose=0, callbacks=[look])
    finally:
        marks.stop()
    assert inside == [False, True] and "predict" not in vars(keras.Model)


def test_a_callback_that_is_listed_twice_has_its_own_hooks_again():
    class Own(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            pass

    one = Own()
    with mark_hooks([one, one]):
        assert "on_epoch_end" in vars(one)
    assert "on_epoch_end" not in vars(one)
