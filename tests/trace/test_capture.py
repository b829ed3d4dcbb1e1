"""Profiles recorded and read back: loops, Keras' fit, and what goes wrong."""

import json
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner

from tests.trace.profiles import us, write
from tfperf.cli import main
from tfperf.errors import TraceError
from tfperf.scopes import phase
from tfperf.trace.attribution import read_attribution
from tfperf.trace.callback import ProfileCallback
from tfperf.trace.capture import Capture, capture
from tfperf.trace.notes import FILE
from tfperf.trace.phases import PHASES
from tfperf.trace.planes import find_profile_files


def make_step(xla, turns):
    """A loop in a compiled call: large products forward and backward, a small update."""
    a = tf.Variable(tf.random.stateless_uniform([256, 256], [1, 2]))

    @tf.function(jit_compile=xla)
    def step():
        for _ in tf.range(turns):
            with phase("forward"):
                b = tf.matmul(tf.matmul(a, a), a)
            with phase("backward"):
                c = tf.matmul(b, a)
            with phase("update"):
                a.assign(c / tf.norm(c))
        return a.read_value()

    return step


def count_unknown(found):
    """Share of the operations that no rule covers, by their number: their time grows when one waits for a core."""
    return sum(c.count for c in found.costs if c.phase == "other") / sum(c.count for c in found.costs)


@pytest.mark.parametrize("xla", [False, True])
def test_steps_and_phases_of_a_compiled_loop(tmp_path, xla):
    step = make_step(xla, 5)
    with capture(tmp_path, steps=4, skip=2, steps_per_call=None) as taken:
        for i in range(12):
            with taken.step(i):
                step().numpy()
    assert len(taken.seconds) == 12 and taken.times.recorded_ms is not None and taken.times.recorded_ms > 0
    assert taken.times.unrecorded_ms is not None and taken.times.unrecorded_ms > 0
    found = read_attribution(tmp_path)
    assert found.calls == 4 and len(found.steps) == 20
    forward, backward, update = (
        np.median(found.busy["CPU"][:, PHASES.index(p)]) for p in ("forward", "backward", "update")
    )
    assert forward > backward > 0 and update > 0
    products = [c for c in found.costs if c.kind in ("MatMul", "_MklMatMul", "dot", "custom-call")]
    assert sum(c.count for c in products) == pytest.approx(3)
    assert count_unknown(found) < 0.3


def test_updates_of_a_loop_of_ones_own_are_told_apart(tmp_path):
    model = keras.Sequential([keras.layers.Input((64,)), keras.layers.Dense(512), keras.layers.Dense(1)])
    optimizer, x, y = keras.optimizers.Adam(name="mine"), tf.ones((32, 64)), tf.ones((32, 1))
    optimizer.build(model.trainable_variables)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x) - y) ** 2)
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    with capture(tmp_path, steps=3, skip=2) as taken:
        for i in range(6):
            with taken.step(i):
                step().numpy()
    found = read_attribution(tmp_path)
    assert np.median(found.busy["CPU"][:, PHASES.index("update")]) > 0
    assert {"update"} == {cost.phase for cost in found.costs if "/mine/" in f"/{cost.name}"}


@pytest.mark.parametrize("xla", [False, True])
@pytest.mark.parametrize("per_execution", [1, 4])
def test_keras_fit_tells_its_names(tmp_path, xla, per_execution):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(4096, 64)), rng.normal(size=(4096, 1))
    layers = [keras.layers.Input((64,)), keras.layers.Dense(1024, activation="relu"), keras.layers.Dense(1)]
    model = keras.Sequential(layers)
    optimizer = keras.optimizers.Adam(name="mine")
    model.compile(optimizer, "mse", jit_compile=xla, steps_per_execution=per_execution)
    callback = ProfileCallback(tmp_path, steps=3, skip=2)
    model.fit(x, y, batch_size=256, epochs=2, verbose=0, callbacks=[callback])
    notes = json.loads((find_profile_files(tmp_path)[0].parent / FILE).read_text())
    assert notes["optimizers"] == ["mine"] and "dense" in " ".join(notes["forward"])
    found = read_attribution(tmp_path)
    assert found.calls == 3 and len(found.steps) == 3 * per_execution
    busy = {p: np.median(found.busy["CPU"][:, PHASES.index(p)]) for p in PHASES}
    assert min(busy["forward"], busy["backward"], busy["update"]) > 0
    assert {c.phase for c in found.costs if "/mine/" in c.name} == (set() if xla else {"update"})
    assert count_unknown(found) < 0.3


def test_too_few_steps_are_an_error_that_says_so(tmp_path):
    with pytest.raises(TraceError, match="2 steps ran, the first 3 are skipped"), capture(tmp_path) as taken:
        for i in range(2):
            with taken.step(i):
                pass


def test_a_second_recording_in_the_process_is_refused(tmp_path):
    with capture(tmp_path / "a", skip=0, steps=1) as first:
        tf.profiler.experimental.start(str(tmp_path / "b"))
        try:
            with pytest.raises(TraceError, match="only one can be at a time"), first.step(0):
                pass
        finally:
            tf.profiler.experimental.stop()
        with first.step(0):
            multiply()


def test_an_error_inside_the_window_ends_the_recording(tmp_path):
    with pytest.raises(ZeroDivisionError), capture(tmp_path, skip=0) as taken, taken.step(0):
        raise ZeroDivisionError
    tf.profiler.experimental.start(str(tmp_path / "free"))
    tf.profiler.experimental.stop()


def test_the_verb_prints_and_writes_what_was_found(tmp_path):
    mark = {"step_num": 0}
    lines = {"p": us(("s", 0, 50, mark), ("s", 100, 50, mark)), "m": us(("d/A:A", 10, 10), ("d/A:A", 110, 10))}
    path = write(tmp_path / "vm.xplane.pb", {"/host:CPU": lines})
    result = CliRunner().invoke(main, ["profile", str(path), "-o", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    assert "forward" in result.output and "0.0100 ms" in result.output
    record = json.loads((tmp_path / "out" / "report.json").read_text())
    assert record["step_ms"] == 0.01 and record["gap_ms"] == 0.09 and record["phases"]["forward"] == 0.01
    assert record["unattributed_share"] == record["inferred_share"] == 0


@pytest.mark.parametrize("content, message", [(None, "no such file"), (b"no profile", "damaged, or no profile")])
def test_bad_input_has_code_2_and_no_traceback(tmp_path, content, message):
    path = tmp_path / "x.xplane.pb"
    if content is not None:
        path.write_bytes(content)
    done = subprocess.run([sys.executable, "-m", "tfperf", "profile", str(path)], capture_output=True, text=True)
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr


def test_periods_are_those_of_the_window_and_of_the_others_but_the_first_two(tmp_path):
    """What starts and ends the recording lies in none of them."""
    periods = [9.0, 5.0, 0.1, 0.3, 7.0, 0.5, 0.7, 7.0, 0.2, 0.2]  # it starts in the fifth, and ends in the eighth
    begins = np.concatenate([[0.0], np.cumsum(periods)]).tolist()
    window = Capture(tmp_path, calls=3, skip=5, host_level=2, begins=begins)
    assert window.times.recorded_ms == pytest.approx(600) and window.times.unrecorded_ms == pytest.approx(200)
    few = Capture(tmp_path, calls=3, skip=5, host_level=2, begins=begins[:-1])
    assert few.times.unrecorded_ms is None
    begins += (begins[-1] + np.cumsum([0.4] * 10 + [0.2] * 4)).tolist()  # it takes twelve calls to be as before
    settled = Capture(tmp_path, calls=3, skip=4, host_level=2, begins=begins)
    assert settled.times.unrecorded_ms == pytest.approx(200)


def test_means_are_of_whole_epochs(tmp_path):
    """Batches in bursts: of three calls one waits."""
    begins = np.cumsum([0.0, *[0.1, 0.1, 0.4] * 8]).tolist()
    window = Capture(tmp_path, calls=8, skip=2, host_level=2, begins=begins, calls_per_epoch=3.0)
    notes = window.make_notes()
    assert [notes.recorded_ms, notes.recorded_mean_ms] == pytest.approx([100, 200])
    assert [notes.unrecorded_ms, notes.unrecorded_mean_ms] == pytest.approx([100, 200])


def test_what_comes_after_a_window_is_noted_also_where_the_median_stays(tmp_path):
    """Of 200 ms as before, but with one of 500 among the others."""
    begins = np.cumsum([0.0, *[0.2] * 20]).tolist()
    window = Capture(tmp_path, calls=3, skip=12, host_level=2, begins=begins)
    window._notes = window.make_notes()
    begins += (begins[-1] + np.cumsum([0.2] * 10 + [0.5, 0.2])).tolist()
    window.finish()
    assert window._notes.unrecorded_ms == pytest.approx(200)
    assert window._notes.unrecorded_mean_ms == window.times.unrecorded_mean_ms != pytest.approx(200)


def test_nothing_slow_is_done_when_a_window_begins(tmp_path, monkeypatch):
    """Buffers of a pipeline would fill up meanwhile, and the first steps of the window not wait for them."""
    looks: list[int] = []

    def look():
        looks.append(len(window.begins))
        return []

    for place in ("functions", "capture"):
        monkeypatch.setattr(f"tfperf.trace.{place}.list_functions", look)
    weight = tf.Variable(1.0)
    step = tf.function(lambda: weight.assign_add(1.0))
    window: Capture
    with capture(tmp_path, steps=2, skip=3) as window:
        for number in range(5):
            with window.step(number):
                step().numpy()
    assert looks == [0, 5], "before the first call, and after the last"


@pytest.mark.parametrize(
    "notes", ["[]", "{", '{"program": "other"}', '{"calls": "x"}', '{"traces": [{}]}', '{"loops": 0}']
)
def test_damaged_notes_are_a_clear_error(tmp_path, notes):
    lines = {"p": us(("s", 0, 50, {"step_num": 0})), "m": us(("d/A:A", 10, 10))}
    path = write(tmp_path / "plugins" / "profile" / "1" / "vm.xplane.pb", {"/host:CPU": lines})
    (path.parent / FILE).write_text(notes)
    result = CliRunner().invoke(main, ["profile", str(tmp_path)])
    assert result.exit_code == 2 and f"{FILE}: damaged" in result.output + result.stderr


def test_output_that_cannot_be_written_is_bad_input(tmp_path):
    lines = {"p": us(("s", 0, 50, {"step_num": 0})), "m": us(("d/A:A", 10, 10))}
    path = write(tmp_path / "vm.xplane.pb", {"/host:CPU": lines})
    for output in (path, path / "below"):
        result = CliRunner().invoke(main, ["profile", str(path), "-o", str(output)])
        assert result.exit_code == 2 and "cannot be made a folder" in result.output + result.stderr
    long = CliRunner().invoke(main, ["profile", "x" * 300])
    assert long.exit_code == 2


def test_files_beside_the_sessions_are_not_the_newest(tmp_path):
    lines = {"p": us(("s", 0, 50, {"step_num": 0})), "m": us(("d/A:A", 10, 10))}
    kept = write(tmp_path / "kept.xplane.pb", {"/host:CPU": lines})
    session = write(tmp_path / "plugins" / "profile" / "2026" / "vm.xplane.pb", {"/host:CPU": lines})
    assert find_profile_files(tmp_path) == [session]
    session.unlink()
    assert find_profile_files(tmp_path) == [kept]


def multiply():
    tf.linalg.matmul(tf.ones([9, 9]), tf.ones([9, 9])).numpy()


def test_a_window_without_operations_is_an_error_when_it_ends(tmp_path):
    taken = Capture(tmp_path, calls=1, skip=0, host_level=2)
    with pytest.raises(TraceError, match="nothing ran in the window"), taken.step(0):
        pass


@pytest.fixture
def full_disk(monkeypatch):
    """TensorFlow's profiler writes half a file and fails, as it does on a full disk."""
    real = tf.profiler.experimental.stop

    def stop(save=True):
        real()
        if save:
            raise tf.errors.ResourceExhaustedError(None, None, "No space left on device")

    monkeypatch.setattr(tf.profiler.experimental, "stop", stop)


def test_a_profile_that_cannot_be_written_leaves_nothing_half_written(tmp_path, full_disk):
    with pytest.raises(TraceError, match="No space left"), Capture(tmp_path, 1, 0, 2).step(0):
        multiply()
    assert not list(tmp_path.rglob("*.xplane.pb"))


def test_a_training_does_not_end_since_its_profile_cannot_be_written(tmp_path, full_disk):
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=False)
    callback = ProfileCallback(tmp_path / "logs", steps=2, skip=2)
    with pytest.warns(UserWarning, match="No space left"):
        history = model.fit(np.ones((40, 4)), np.ones((40, 1)), batch_size=4, verbose=0, callbacks=[callback])
    assert len(history.history["loss"]) == 1 and not list(tmp_path.rglob("*.xplane.pb"))
    (tmp_path / "file").write_text("")
    with pytest.warns(UserWarning, match="file"):
        model.fit(
            np.ones((40, 4)), np.ones((40, 1)), batch_size=4, verbose=0,
            callbacks=[ProfileCallback(tmp_path / "file", steps=2, skip=2)],
        )  # fmt: skip
