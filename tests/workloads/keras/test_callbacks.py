"""Callbacks: told what Keras tells them, with what they know kept over a resume, or the resume refused."""

import warnings

import h5py
import keras
import numpy as np
import pytest

import tfperf
from tests.workloads.keras import nets
from tests.workloads.keras.running import CALLBACKS, NETS, end_fit, fit, fit_twice, run, write_card
from tfperf.workloads.keras.callback_state import get_state, set_state
from tfperf.workloads.keras.callbacks import CallbackRunner

STOP = {"monitor": "loss", "min_delta": 0.05, "patience": 2}
HELD = {"batch": 16, "validation": 0.25, "shuffle": False}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the log of the run that is ended
def test_early_stopping_ends_where_keras_ends_and_resumes_with_what_it_knew(tmp_path, monkeypatch):
    arguments = {**STOP, "restore_best_weights": True}
    callbacks = [
        {"name": "EarlyStopping", "arguments": arguments},
        {"name": "CSVLogger", "arguments": {"filename": "log.csv"}},
    ]
    card = write_card(tmp_path, data=HELD, train={"epochs": 40, "callbacks": callbacks})
    whole, _ = fit_twice(card, tmp_path, monkeypatch, 13)
    model, (inputs, targets) = nets.build_linear(), nets.load()
    keras.utils.set_random_seed(3)
    model = nets.build_linear()
    stop = keras.callbacks.EarlyStopping(**arguments)
    count = 70 - round(0.25 * 70)
    held = inputs[count:], targets[count:]
    history = model.fit(
        inputs[:count], targets[:count], 16, 40, shuffle=False, verbose=0, callbacks=[stop], validation_data=held
    ).history
    assert whole["epochs"] == len(history["loss"]) < 40
    said = f"ended by EarlyStopping after epoch {whole['epochs']}; its weights are those of epoch {stop.best_epoch + 1}"
    assert whole["ended_by"] == said
    found = keras.saving.load_model(tmp_path / "run" / "model.keras").get_weights()
    for one, other in zip(found, model.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-8)
    logs = [(tmp_path / name / "callbacks" / "log.csv").read_text() for name in ("whole", "run")]
    assert logs[0] == logs[1] and len(logs[0].splitlines()) == whole["epochs"] + 1


@pytest.mark.slow
def test_plateaus_and_own_callbacks_keep_their_state(tmp_path, monkeypatch):
    plateau = {"name": "ReduceLROnPlateau", "arguments": {"monitor": "loss", "min_delta": 1.0, "patience": 1}}
    kept = {"name": "ModelCheckpoint", "arguments": {"filepath": "at-{epoch}.keras", "monitor": "loss"}}
    own = {"build": f"{CALLBACKS}:build_norms"}
    card = write_card(tmp_path, data=HELD, train={"callbacks": [plateau, kept, own]})
    fit_twice(card, tmp_path, monkeypatch, 10)
    names = sorted(path.name for path in (tmp_path / "run" / "callbacks").iterdir())
    assert names == [f"at-{epoch}.keras" for epoch in (1, 2, 3, 4)]


@pytest.mark.slow
def test_callbacks_that_are_told_of_each_step_cost_it_and_cannot_be_resumed_without_a_state(tmp_path, monkeypatch):
    card = write_card(
        tmp_path, data=HELD, train={"callbacks": [{"build": f"{CALLBACKS}:build_printer"}], "steps_per_call": "auto"}
    )
    said = run("fit", card, "-o", tmp_path / "run")
    assert "Printer: told of each step, so a call takes one: " in said
    assert "this run cannot be resumed: Printer: a callback of your own needs get_state" in said
    end_fit(card, tmp_path / "again", monkeypatch, 9)
    said = run("fit", card, "-o", tmp_path / "again", "--resume", code=2)
    assert "Printer: what it knew at step 9 is lost" in said
    said = run("fit", card, "-o", tmp_path / "no", "--set", "train.steps_per_call=3", code=2)
    assert "train.steps_per_call: got 3; must be 1 for Printer, told of each step" in said


def test_a_state_goes_through_a_checkpoint():
    one, other = keras.callbacks.EarlyStopping(restore_best_weights=True), keras.callbacks.EarlyStopping()
    one.best, one.wait, one.best_weights = np.inf, 3, [np.ones(2, "float32"), np.zeros(())]
    set_state(other, get_state(one))
    assert other.best == np.inf and other.wait == 3
    np.testing.assert_array_equal(other.best_weights[0], one.best_weights[0])


@pytest.mark.parametrize(
    ("callback", "said"),
    [
        ({"name": "EarlyStopping", "arguments": {"patienze": 3}}, "train.callbacks.0: EarlyStopping: "),
        ({"name": "EarlyStoping"}, "did you mean `EarlyStopping`"),
        ({"build": f"{NETS}:build_linear"}, "returned Sequential; must return a keras.callbacks.Callback"),
        ({}, "must name one of name and build"),
    ],
)
def test_faults_of_callbacks_are_told(tmp_path, callback, said):
    card = write_card(tmp_path, train={"callbacks": [callback]})
    assert said in run("fit", card, "-o", tmp_path / "run", code=2)


@pytest.mark.slow
def test_schedules_accumulation_and_precision_are_keras_own(tmp_path):
    arguments = {"initial_learning_rate": 0.1, "decay_steps": 5, "decay_rate": 0.5}
    train = {"learning_rate_schedule": {"name": "ExponentialDecay", "arguments": arguments}, "accumulate": 2}
    card = write_card(tmp_path, data={"batch": 16, "shuffle": False}, train=train)
    report = fit(card, tmp_path / "run")
    keras.utils.set_random_seed(3)
    rate = keras.optimizers.schedules.ExponentialDecay(**arguments)
    model, (inputs, targets) = nets.build_linear(), nets.load()
    model.compile(keras.optimizers.Adam(rate, gradient_accumulation_steps=2), "mse", metrics=["mae"])
    wanted = model.fit(inputs, targets, 16, 4, shuffle=False, verbose=0).history
    np.testing.assert_allclose(report["last"]["loss"], wanted["loss"][-1], rtol=2e-6)
    card = write_card(tmp_path, model="build_linear", train={"epochs": 2})
    fit(card, tmp_path / "half", "--set", "model.precision=mixed_float16")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Keras loads the optimizer without what scales the loss
        layer = keras.saving.load_model(tmp_path / "half" / "model.keras").layers[0]
    assert layer.compute_dtype == "float16" and keras.config.dtype_policy().name == "float32"
    assert h5py.is_hdf5(tmp_path / "half" / "results.h5")


def test_each_of_keras_own_callbacks_works_in_a_fresh_folder(tmp_path):
    names = [{"name": "TensorBoard", "arguments": {"update_freq": 2}}, {"name": "TerminateOnNaN"},
             {"name": "CSVLogger", "arguments": {"filename": "log.csv"}}]  # fmt: skip
    card = write_card(tmp_path, data=HELD, train={"callbacks": names, "steps_per_call": "auto"})
    fit(card, tmp_path / "run")
    assert {path.name for path in (tmp_path / "run" / "callbacks").iterdir()} == {"log.csv", "logs"}


@pytest.mark.parametrize(
    ("best", "stopped", "said"),
    [
        ((3, 4), (5, 0), "ended by EarlyStopping after epoch 6; its weights are those of epoch 5"),
        ((3, 5), (0, 0), ""),
        ((5, 3), (0, 0), "complete after epoch 6; its weights are those of epoch 4"),
        ((5, None), (0, 0), ""),
    ],
)
def test_whose_weights_a_model_has_is_told_as_keras_gives_them_back(tmp_path, best, stopped, said):
    model, callbacks = nets.build_linear(), []
    for epoch, end in zip(best, stopped, strict=True):
        one = keras.callbacks.EarlyStopping(restore_best_weights=True)
        one.best_epoch, one.stopped_epoch = epoch or 0, end
        one.best_weights = None if epoch is None else [np.full(w.shape, epoch) for w in model.get_weights()]
        callbacks.append(one)
    runner = CallbackRunner(callbacks, model, {}, tmp_path)
    model.stop_training = any(stopped)
    assert runner.describe_end(6) == said
    for one in callbacks:
        one.set_model(model)
        one.on_train_end()
    assert model.get_weights()[0].flat[0] == [epoch for epoch in best if epoch is not None][-1], "Keras' own"


def test_what_callbacks_add_to_the_logs_is_in_the_history(tmp_path):
    card = write_card(tmp_path, data=HELD, train={"callbacks": [{"build": f"{CALLBACKS}:build_adding"}]})
    assert fit(card, tmp_path / "run")["last"]["epochs_so_far"] == 3
    np.testing.assert_array_equal(tfperf.load(tmp_path / "run").to_pandas()["second"], [np.nan, 5, np.nan, np.nan])
