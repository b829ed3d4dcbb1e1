"""ProfileCallback in Keras' fit as users have it: loops in layers, other callbacks, several fits, exceptions."""

import functools
import time
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfperf.errors import UserError
from tfperf.trace.attribution import read_attribution
from tfperf.trace.callback import ORIGINAL, ProfileCallback
from tfperf.trace.capture import capture
from tfperf.trace.findings import list_findings
from tfperf.trace.notes import read_notes
from tfperf.trace.phases import PHASES

X, Y = np.ones((64, 8), np.float32), np.ones((64, 1), np.float32)


def make_model(**settings):
    model = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(4), keras.layers.Dense(1)])
    model.compile(**({"optimizer": "adam", "loss": "mse", "jit_compile": False} | settings))
    return model


def fit(model, *callbacks, **settings):
    return model.fit(X, Y, **({"batch_size": 4, "verbose": 0, "callbacks": list(callbacks)} | settings))


@pytest.mark.parametrize("per_execution", [pytest.param(1, marks=pytest.mark.slow), 4])
def test_a_layers_loop_over_time_is_no_training_loop(tmp_path, per_execution):
    model = keras.Sequential([keras.layers.Input((12, 8)), keras.layers.LSTM(16, unroll=False), keras.layers.Dense(1)])
    model.compile("adam", "mse", jit_compile=False, steps_per_execution=per_execution)
    callback = ProfileCallback(tmp_path, steps=3, skip=2)
    model.fit(np.ones((80, 12, 8)), np.ones((80, 1)), batch_size=4, verbose=0, callbacks=[callback])
    found = read_attribution(tmp_path)
    assert found.calls == 3 and len(found.steps) == 3 * per_execution
    assert np.median(found.busy["CPU"][:, PHASES.index("forward")]) > 0


def test_what_a_loop_of_the_user_repeats_in_a_step_is_one_step_unless_told_otherwise(tmp_path):
    weight = tf.Variable(tf.ones([100, 100]))

    @tf.function(jit_compile=True)
    def train():
        weight.assign(weight @ weight / 100)

    for steps_per_call, want in ((1, 3), (4, 12)):
        logs = tmp_path / str(steps_per_call)
        with capture(logs, steps=3, skip=2, steps_per_call=steps_per_call) as taken:
            for i in range(5):
                with taken.step(i):
                    for _ in range(4):
                        train()
        assert len(read_attribution(logs).steps) == want


class Sleeper(keras.callbacks.Callback):
    def __init__(self, seconds=0.02):
        super().__init__()
        self.seconds = seconds

    def on_train_batch_end(self, batch, logs=None):
        time.sleep(self.seconds)


@pytest.mark.parametrize("first", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_other_callbacks_are_named_wherever_they_stand(tmp_path, first):
    mine, other = ProfileCallback(tmp_path, steps=6, skip=4), Sleeper()
    fit(make_model(), *((other, mine) if first else (mine, other)))
    found = read_attribution(tmp_path)
    assert found.account.sum("callback") > 16 and found.account.sum("dispatch") < 10
    (said,) = [f for f in list_findings(found) if f.share > 0.5]
    assert said.rule == "callback" and "Sleeper.on_train_batch_end, " in said.what and "each step" in said.what
    assert (
        said.ms > 16
    )  # of 20 that it sleeps, where recording slows the rest of a step so much that some comes off here
    assert vars(other).keys() == vars(Sleeper()).keys() | vars(keras.callbacks.Callback()).keys(), "as it was before"


def test_a_callbacks_own_attributes_come_back(tmp_path):
    calls = []

    def noted(epoch, logs=None):
        calls.append(epoch)

    other = keras.callbacks.LambdaCallback(on_epoch_end=noted)
    fit(make_model(), ProfileCallback(tmp_path, steps=3, skip=3), other, epochs=2)
    assert other.on_epoch_end is noted and calls == [0, 1]


def test_the_end_of_an_epoch_is_a_cause_of_its_own(tmp_path):
    fit(make_model(), ProfileCallback(tmp_path, steps=6, skip=3), batch_size=64, epochs=10)
    account = read_attribution(tmp_path).account
    assert account.epochs == 5 and account.expected_epochs == 5
    assert account.sum("epoch") > account.sum("python", "input", "unexplained")


def test_a_slow_dataset_is_told(tmp_path):
    def slow():
        while True:
            time.sleep(0.06)  # far longer than a step, also where other programs run beside it
            yield X[:4], Y[:4]

    shapes = tf.TensorSpec([4, 8]), tf.TensorSpec([4, 1])
    data = tf.data.Dataset.from_generator(slow, output_signature=shapes)
    callback = ProfileCallback(tmp_path, steps=20, skip=4)  # the first batches come while the profiler starts
    make_model().fit(data, steps_per_epoch=25, verbose=0, shuffle=False, callbacks=[callback])
    first, *_ = list_findings(read_attribution(tmp_path))
    assert first.share > 0.5 and "generator runs in one thread" in first.change


def test_a_dataset_that_works_ahead_while_a_callback_sleeps_is_not_blamed(tmp_path):
    data = tf.data.Dataset.from_tensor_slices((X, Y)).repeat().batch(4, drop_remainder=True)
    data = data.map(lambda x, y: (tf.linalg.matmul(x, tf.ones([8, 8])), y)).prefetch(50)
    callback = ProfileCallback(tmp_path, steps=5, skip=4)
    # long enough for a batch to be ready also where other programs run beside it
    make_model().fit(data, steps_per_epoch=12, verbose=0, shuffle=False, callbacks=[callback, Sleeper(0.1)])
    assert not any("prefetch" in finding.change for finding in list_findings(read_attribution(tmp_path)))


def test_a_window_that_ends_early_is_told_and_is_no_loss_of_events(tmp_path):
    fit(make_model(), ProfileCallback(tmp_path, steps=30, skip=6))
    (problem,) = read_attribution(tmp_path).problems
    assert problem == "the training ended after 10 of 30 calls that were to be recorded"


def test_a_fit_too_short_is_warned_of_and_the_next_is_recorded(tmp_path):
    callback, model = ProfileCallback(tmp_path, steps=3, skip=4), make_model()
    with pytest.warns(UserWarning, match="nothing was recorded in this fit: 2 executions ran, 4 are skipped"):
        fit(model, callback, batch_size=32)
    assert not hasattr(model.train_function, ORIGINAL)
    fit(model, callback)
    fit(model, callback)  # recorded once is enough
    assert read_attribution(tmp_path).calls == 3 and len(list(tmp_path.rglob("*.xplane.pb"))) == 1


class Breaks(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 6:
            raise KeyboardInterrupt


def test_an_exception_in_fit_does_not_block_the_next_profile(tmp_path):
    model = make_model()
    breaks = Breaks()
    with pytest.raises(KeyboardInterrupt):
        fit(model, ProfileCallback(tmp_path / "a", steps=10, skip=3), breaks)
    (problem,) = read_attribution(tmp_path / "a").problems  # what was recorded is kept
    assert problem == "the training ended after 4 of 10 calls that were to be recorded"
    fit(model, ProfileCallback(tmp_path / "b", steps=5, skip=3))
    found = read_attribution(tmp_path / "b")
    assert found.calls == 5 and found.problems == () and "on_train_batch_end" not in vars(breaks)


def test_optimizers_inside_of_others_and_of_the_model_itself_are_known(tmp_path):
    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense, self.second = keras.layers.Dense(1), keras.optimizers.SGD(name="its_own")

        def call(self, x):
            return self.dense(x)

    model = Own()
    model.compile(keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(name="inside"), name="outside"), "mse")
    fit(model, ProfileCallback(tmp_path, steps=3, skip=3))
    assert set(read_notes(tmp_path).optimizers) == {"inside", "its_own", "outside"}


def test_functions_without_a_name_do_not_end_a_training(tmp_path):
    class Callable:
        def __call__(self, x):
            return x + 1

    parts = tf.function(functools.partial(tf.add, 1.0)), tf.function(Callable())
    with capture(tmp_path, steps=2, skip=1) as taken:
        for i in range(3):
            with taken.step(i):
                for part in parts:
                    part(tf.ones([2 + i])).numpy()
    assert {one.function for one in read_notes(tmp_path).traces} >= {"partial", "Callable"}


def test_what_cannot_be_looked_into_is_said_and_ends_nothing(tmp_path, monkeypatch):
    def fails(*_):
        raise RuntimeError("another TensorFlow")

    monkeypatch.setattr("tfperf.trace.capture.find_constant_operations", fails)
    fit(make_model(), ProfileCallback(tmp_path, steps=3, skip=3))
    (problem,) = read_attribution(tmp_path).problems
    assert "constant operations are not known" in problem and "another TensorFlow" in problem


def test_a_callback_has_the_same_ranges_as_a_capture(tmp_path):
    for window in ((0,), (10, -1), (10, 3, 9)):
        with pytest.raises(UserError, match="must be a whole number from"):
            ProfileCallback(tmp_path, *window)


@pytest.mark.parametrize("jit", [False, True])
def test_the_first_validation_in_a_window_is_no_retracing(jit, tmp_path):
    """Nor is a second model's, of the same process."""
    for number in range(2):
        model, folder = make_model(jit_compile=jit), tmp_path / str(number)
        callback = ProfileCallback(folder, steps=6, skip=3)
        x, y = np.ones((40, 8), np.float32), np.ones((40, 1), np.float32)
        model.fit(x, y, batch_size=8, epochs=4, verbose=0, validation_data=(x[:8], y[:8]), callbacks=[callback])
        found = read_attribution(folder)
        assert any(entry.kind == "trace" for entry in found.ledger), "the window has it"
        assert not [one.what for one in list_findings(found) if one.rule == "retracing"]


class Recompiler(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        self.model.make_train_function(force=True)  # as programs do that change a loss weight


def test_a_function_that_a_callback_has_keras_make_again_is_recorded(tmp_path):
    model, callback = make_model(), ProfileCallback(tmp_path, steps=6, skip=6)
    fit(model, callback, Recompiler(), epochs=4, steps_per_epoch=4)
    found = read_attribution(tmp_path)
    assert found.calls == 6 and list_findings(found)[0].rule == "retracing"
    assert not hasattr(model.train_function, ORIGINAL) and "make_train_function" not in vars(model)


class Raiser(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 1:
            raise RuntimeError("no more")


def test_a_training_after_one_that_raised_records_nothing_by_itself(tmp_path):
    model, callback = make_model(), ProfileCallback(tmp_path, steps=4, skip=6)
    with pytest.raises(RuntimeError):
        fit(model, callback, Raiser())
    fit(model, ProfileCallback(tmp_path / "other", steps=4, skip=2))  # which takes the marks off
    assert not hasattr(model.train_function, ORIGINAL) and "make_train_function" not in vars(model)
    fit(model)
    assert not callback.capture.done and not callback.capture.recording


def test_a_function_of_the_programs_own_that_makes_train_functions_is_left(tmp_path):
    model = make_model()
    made, own = [], model.make_train_function

    def make(force=False):
        made.append(force)
        return own(force)

    model.__dict__["make_train_function"] = make
    fit(model, ProfileCallback(tmp_path, steps=4, skip=2))
    assert model.make_train_function is make and made


class OwnFunction(keras.Sequential):
    """Trains by a function of its own, which takes a batch a call."""

    def make_train_function(self, force=False):
        @tf.function
        def train(iterator):
            x, y = next(iterator)
            loss = tf.reduce_mean(tf.square(x @ self.weight - y))
            self.weight.assign_sub(1e-6 * tf.ones_like(self.weight) * loss)
            return {"loss": loss}

        self.train_function = train
        return train


@pytest.mark.parametrize("kind", [OwnFunction, keras.Sequential])
def test_a_train_function_of_ones_own_is_told_to_take_the_steps_that_a_setting_asks_for(kind, tmp_path):
    model = kind([keras.layers.Input((8,)), keras.layers.Dense(1)])
    model.weight = tf.Variable(tf.ones((8, 1)))
    model.compile("sgd", "mse", jit_compile=False)
    found: list[Any] = []
    for number in range(4):  # on a busy machine what recording costs may have it withheld
        folder = tmp_path / str(number)
        fit(model, ProfileCallback(folder, steps=8, skip=6), epochs=3)
        assert read_notes(folder).own_train_function == (kind is OwnFunction)
        found += [one for one in list_findings(read_attribution(folder)) if one.rule == "calls"]
        if found:
            break
    calls = found[0]
    assert "steps_per_execution" in calls.change
    assert ("train function take 16 batches" in calls.change) == (kind is OwnFunction)
