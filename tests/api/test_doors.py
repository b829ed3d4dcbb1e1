"""What Python programs call: the same fits as the command line's, with objects in place of files."""

import json
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfperf
from tests.workloads.keras import nets
from tests.workloads.keras.running import fit, write_card
from tfperf.errors import UserError
from tfperf.workloads.options import Options

SETTINGS = {"train.steps_per_call": 3, "train.checkpoint_every": 3, "engine.xla": False}


def test_functions_of_a_file_and_a_card_do_the_same(tmp_path):
    report = fit(write_card(tmp_path, data={"batch": 16}), tmp_path / "card")
    found = tfperf.fit(nets.build_linear, nets.load, tmp_path / "door", epochs=4, batch=16, seed=3, keys=SETTINGS)
    assert found.summary["last"] == report["last"]
    assert (tmp_path / "card" / "model.keras").read_bytes() == (tmp_path / "door" / "model.keras").read_bytes()
    assert "card.yaml" in {path.name for path in (tmp_path / "door").iterdir()}
    again = tfperf.fit(tmp_path / "door" / "card.yaml", tmp_path / "third")
    assert again.history == found.history == tfperf.load(tmp_path / "door").history
    assert repr(found).startswith("KerasResult(epochs=4, steps=20, loss=") and len(found.to_pandas()) == 4
    with pytest.raises(UserError, match="a card says that itself"):
        tfperf.fit(tmp_path / "card.yaml", tmp_path / "fourth", epochs=3)
    saved = found.save(tmp_path / "saved")
    assert json.loads((saved / "history.json").read_text()) == found.history and (saved / "model.keras").is_file()
    changes = tfperf.compare(tmp_path / "door", tmp_path / "third")
    assert changes.list_rows()[0]["amount"] == 0 and "ms per step" in repr(changes)


def test_a_model_and_arrays_in_memory_are_trained_in_place(tmp_path):
    model, (inputs, targets) = nets.build_linear(), nets.load()
    before = model.get_weights()
    callbacks = [keras.callbacks.EarlyStopping("loss", patience=1, min_delta=10.0)]
    found = tfperf.fit(
        model, (inputs, targets), epochs=9, batch=16, validation=(inputs[:9], targets[:9]), callbacks=callbacks
    )
    assert found.model is model and found.summary["epochs"] == 2 and "val_loss" in found.history and found.path is None
    assert any(not np.array_equal(a, b) for a, b in zip(before, model.get_weights(), strict=True))
    stream = tf.data.Dataset.from_tensor_slices((inputs.astype("float32"), targets.astype("float32"))).batch(16)
    tfperf.fit(model, stream, tmp_path / "run", epochs=2)
    with pytest.raises(UserError, match="it was an object of a Python program: go on from there"):
        tfperf.fit(tmp_path / "run" / "card.yaml", tmp_path / "run", options=Options(resume=True))
    assert tfperf.fit(model, stream, tmp_path / "run", epochs=2, options=Options(resume=True)).summary["steps"] == 10


SCRIPT = """
import threading, keras, numpy as np, tfperf
UNITS = 8
def build_model(units=UNITS):
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(units), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model
lock = threading.Lock()
def load_with_lock():
    with lock:
        return np.ones((4, 6))
if True:  # as in a notebook: nothing guards the calls
    x = np.ones((64, 6), "float32")
    found = tfperf.sweep(build_model, lambda: (x, x[:, :1]), "sweep", repeats=1,
                         keys={"model.arguments.units": [UNITS]},
                         settings={"engine.xla": False, "sweep.seconds": 0.1})
    print(found, sorted(found.to_pandas()["model.arguments.units"]), tfperf.load("sweep"))
    try:
        tfperf.sweep(build_model, load_with_lock, "other", keys={"data.batch": [8]})
    except tfperf.errors.UserError as error:
        print(error)
"""


@pytest.mark.slow
def test_a_sweep_of_functions_that_only_a_program_has_runs_in_fresh_processes(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT.replace("tfperf.errors.UserError", "Exception"))
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()[-2:]
    assert first == f"{(said := 'SweepResult(points=1, trials=1, failed=0)')} [8] {said}"
    assert second.startswith("data: cannot be kept for another process (TypeError: cannot pickle '_thread.lock'")


def test_faults_of_settings_are_a_cards(tmp_path):
    with pytest.raises(UserError, match=r"train\.epochs: got 0; must be a whole number from 1"):
        tfperf.fit(nets.build_linear, nets.load, tmp_path / "run", epochs=0)
    with pytest.raises(UserError, match=r"data\.validation: got 2\.0; must be a number above 0 and below 1"):
        tfperf.fit(nets.build_linear, nets.load, epochs=1, validation=np.float32(2))
    for door in (tfperf.fit, tfperf.profile, tfperf.sweep, tfperf.memory):
        with pytest.raises(UserError, match=r"output: got ndarray; must be a folder; targets belong to the data: \(x"):
            door(nets.build_linear, *nets.load())
    with pytest.raises(UserError, match="data: missing"):
        tfperf.fit(nets.build_linear, epochs=3)
    with pytest.raises(UserError, match=r"train\.epoch: unknown key; did you mean `epochs`"):
        tfperf.fit(nets.build_linear, nets.load, keys={"train.epoch": 3})
    with pytest.raises(UserError, match="an object of this process, which a fresh one has not"):
        tfperf.sweep(nets.build_linear(), nets.load, tmp_path / "sweep", keys={"data.batch": [8]})


def test_a_profile_of_a_model_in_memory(tmp_path):
    keys = {"profile.steps": 6, "profile.skip": 3, **SETTINGS}
    wide = nets.build_mlp(1024)  # operations of microseconds TensorFlow may leave out
    found = tfperf.profile(wide, nets.load(), tmp_path / "profile", batch=16, keys=keys)
    assert found.record["steps"] == 6 and "forward" in {*found.to_pandas()["phase"]}
    assert tfperf.profile(tmp_path / "profile").record["period_ms"] == found.record["period_ms"]
