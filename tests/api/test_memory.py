"""`tfperf.memory` and `tfperf.largest_batch` on a small model, in real processes."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
import yaml

import tfperf
from tfperf.api.given_cards import write_given_card
from tfperf.errors import CardError

UNITS, FEATURES = 2048, 64
X = np.ones((64, FEATURES), "float32")


def build(units=UNITS):
    model = keras.Sequential([keras.Input((FEATURES,)), keras.layers.Dense(units, "relu"), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    return model


@pytest.mark.slow
def test_a_study_of_a_program_and_its_batch_which_the_model_trains_with(tmp_path):
    found = tfperf.memory(build, (X, X[:, :1]), tmp_path / "study", budget=0.1, modes=["train", "predict"])
    train, predict = found.largest["train"], found.largest["predict"]
    assert 0.1 * 2**30 * 0.95 / (6 * 4 * UNITS) < train < 0.1 * 2**30 / (4 * UNITS)  # a hidden layer of floats a sample
    assert predict > train and repr(found) == f"MemoryResult(train: batch {train}, predict: batch {predict})"
    law = found.report["modes"]["train"]["law"]
    assert 4 * UNITS < law["per_sample"] < 6 * 4 * UNITS
    frame = found.to_pandas()
    assert {*frame["mode"]} == {"train", "predict"} and (frame["seconds_per_step"] > 0).all()
    page = (tmp_path / "study" / "report.html").read_text()
    assert f"batches of {train} samples passed in 3 of 3 processes" in page and "#SBATCH --mem=" in page
    assert json.loads(found.save(tmp_path / "saved.json").read_text()) == json.loads(json.dumps(found.report))
    again = tfperf.memory(build, (X, X[:, :1]), tmp_path / "study", budget=0.1, modes=["train", "predict"])
    assert again.largest == found.largest


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        ((X, X[:, :1]), {"inputs": ["x"], "targets": ["y"]}),
        (({"a": X, "b": tf.constant(X)}, X[:, :1], X[:, 0]),
         {"inputs": ["a", "b"], "targets": ["y"], "weights": "weights"}),
        (X, {"inputs": ["x"], "targets": []}),
    ],
)  # fmt: skip
def test_one_batch_is_kept_for_fresh_processes(tmp_path, data, keys):
    card = yaml.safe_load(write_given_card(build, data, tmp_path / "study", {}).read_text())
    assert {key: card["data"][key] for key in keys} == keys
    with np.load(card["data"]["file"]) as file:
        assert all(np.array_equal(file[name], X) for name in keys["inputs"])
    with pytest.raises(CardError, match="an object of this process"):
        write_given_card(build, ({"x": object()}, X), tmp_path / "other", {})


def test_a_budget_that_cannot_be_is_refused(tmp_path):
    with pytest.raises(CardError, match=r"memory\.budget"):
        tfperf.memory(build, (X, X[:, :1]), tmp_path / "study", budget=-1.0)


@pytest.mark.parametrize("modes", ["train", ("guess",), ()])
def test_modes_that_there_are_not_are_refused_before_a_trial(tmp_path, modes):
    with pytest.raises(CardError, match=r"modes: got .*; must be one or more of 'train', 'predict'"):
        tfperf.memory(build, (X, X[:, :1]), tmp_path / "study", budget=0.1, modes=modes)
    assert not (tmp_path / "study").exists()


@pytest.mark.parametrize("timeout", [0, float("nan"), -5.0, "10", None, True, 1e9])
def test_a_time_limit_that_cannot_be_is_refused(tmp_path, timeout):
    with pytest.raises(CardError, match=r"timeout: got .*; must be seconds from 1 to 86400"):
        tfperf.memory(build, (X, X[:, :1]), tmp_path / "study", timeout=timeout)
    assert not (tmp_path / "study").exists()


def test_an_array_of_objects_is_refused(tmp_path):
    with pytest.raises(CardError, match="data: x: an array of objects"):
        tfperf.memory(build, (np.array([object()] * 4), X[:4]), tmp_path / "study", budget=0.1)
    assert not [*tmp_path.iterdir()]
