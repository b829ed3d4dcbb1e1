"""The record of an ensemble: models of a program's own classes, what it takes, how often it traces."""

import subprocess
import sys
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

import tfperf
from tests.workloads.keras.replicas import nets
from tfperf.errors import UserError
from tfperf.workloads.keras.replicas import predicting


class OwnModel(keras.Model):
    """A class that no file of Keras' can name; built by its first batch."""

    def __init__(self, units=4, **more):
        super().__init__(**more)
        self.units = units
        self.narrow, self.wide = layers.Dense(units, "tanh"), layers.Dense(1)

    def call(self, inputs):
        return self.wide(self.narrow(inputs))

    def get_config(self):
        return {"units": self.units}


class Unsavable(OwnModel):
    """Its arguments are in no config."""

    def get_config(self):
        raise NotImplementedError


def compile_own(kind, loss="mse"):
    model = kind(units=3)
    model.compile("sgd", loss)
    return model


def measure_own(y, y_pred):
    return keras.ops.mean(keras.ops.square(y - y_pred))


def build_own():
    return compile_own(OwnModel)


def build_own_loss():
    return compile_own(OwnModel, measure_own)


def build_unsavable():
    return compile_own(Unsavable)


def fit(build, **more):
    x, y = nets.load()
    return tfperf.ensemble(build, replicas=2, form="lanes").fit(
        x, y, epochs=1, batch_size=30, keys={"engine.xla": False}, **more
    )


REST = (build_own_loss, build_unsavable, lambda: build_own())


@pytest.mark.parametrize("build", [build_own, *(pytest.param(build, marks=pytest.mark.slow) for build in REST)])
def test_models_of_own_classes_are_built_again_in_the_same_process(build):
    found, (x, _) = fit(build), nets.load()
    for row, number in enumerate(found.replicas.id):
        model = found.model(int(number))
        assert type(model).__name__ in ("OwnModel", "Unsavable")
        np.testing.assert_allclose(model.predict(x, verbose=0), found.predict(x)[row], rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_another_process_is_told_which_class_it_lacks(tmp_path):
    path = fit(build_own).save(tmp_path / "own.h5")
    code = f"import tfperf; tfperf.load({str(path)!r}).model(2)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stderr
    last = said.strip().splitlines()[-1]
    assert "model: class OwnModel of your own is missing: register it by @keras.saving.register" in last
    assert f"tfperf.load('{path}', custom_objects={{'OwnModel': OwnModel}})" in last and "model.keras" not in last
    loaded = tfperf.load(path, custom_objects={"OwnModel": OwnModel})
    assert isinstance(loaded.model(2), OwnModel)  # whose layers are not called as in the file
    x = nets.load()[0]
    np.testing.assert_allclose(loaded.model(2).predict(x, verbose=0), loaded.predict(x)[1], rtol=1e-5, atol=1e-6)


@pytest.fixture(scope="module")
def found():
    return fit(nets.build)


def test_what_is_asked_for_wrongly_is_told(found):
    x = nets.load()[0]
    for level in ("half", [[0.5]], 2):
        with pytest.raises(UserError, match="numbers from 0 to 1"):
            found.quantiles(x, level)
    np.testing.assert_array_equal(found.quantiles(x, 0.5), found.quantiles(x, [0.5]))
    for wrong in ("2", 2.0, True):
        with pytest.raises(UserError, match=r"of type (str|float|bool); must be the number of a replica"):
            found.model(wrong)
    assert isinstance(found.model(np.int64(2)), keras.Model)
    for maker in (lambda: x, iter([x])):
        with pytest.raises(
            UserError, match=r"^predict: x: got \w+; must be arrays, or dicts or tuples of them, or a tf"
        ):
            found.predict(maker)


def test_batches_of_a_dataset_are_predicted(found):
    x, y = nets.load()
    wanted = found.predict(x, batch_size=30)
    data = tf.data.Dataset.from_tensor_slices((x, y))
    np.testing.assert_array_equal(found.predict(data.batch(30)), wanted)
    np.testing.assert_array_equal(found.predict(tf.data.Dataset.from_tensor_slices(x).batch(30)), wanted)
    np.testing.assert_array_equal(found.mean(data.batch(30)), found.mean(x, batch_size=30))
    with pytest.raises(UserError, match="single samples; must be batches"):
        found.predict(tf.data.Dataset.range(3))
    with pytest.raises(UserError, match="without an end"):
        found.predict(data.batch(30).repeat())


@pytest.mark.parametrize("stacked", [True, False])
def test_predictions_are_traced_once_for_a_shape(found, stacked, monkeypatch):
    if not stacked:
        monkeypatch.setattr(predicting, "list_reasons", lambda model: ["by choice"])
    predictor, x = predicting.ReplicaPredictor(found.template), nets.load()[0]
    program: Any
    for _ in range(7):
        predictor.predict(found.outcome.weights, x, 45)
    (program,) = predictor._programs.values()
    assert program.experimental_get_tracing_count() == 1
    assert found._predictor is found._predictor


def test_inputs_that_do_not_fit_are_refused_by_their_shapes():
    model = keras.Sequential([keras.Input((3,), name="x"), layers.Dense(1)])
    weights = {v.path: np.stack([v.numpy()] * 2) for v in model.weights}

    def predict(x):
        return predicting.predict_replicas(model, weights, x, 8)

    assert predict(np.zeros((5, 3))).shape == (2, 5, 1)
    for x, said in (
        (np.zeros(3), r"got samples of shape \(\); x must have \(3,\)"), (np.zeros((1, 5, 3)), r"shape \(5, 3\)"),
        (np.zeros((5, 2)), r"shape \(2,\)"), ((np.zeros((5, 3)), np.zeros((5, 3))), "2 arrays; the model has 1 inputs"),
        ({"other": np.zeros((5, 3))}, "got keys other; must be x"),
    ):  # fmt: skip
        with pytest.raises(UserError, match=said):
            predict(x)


@pytest.mark.slow
def test_the_mean_of_whole_numbers_and_truths_is_a_fraction():
    def build():
        inputs = keras.Input((3,))
        p = layers.Dense(3, "softmax", name="p")(layers.Dense(4, "tanh")(inputs))
        model = keras.Model(inputs, {"p": p, "label": keras.ops.argmax(p, -1), "high": keras.ops.greater(p, 0.3)})
        model.compile("sgd", {"p": "sparse_categorical_crossentropy"})
        return model

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(32, 3)), {"p": rng.integers(0, 3, 32)}
    rates = np.array([0.01, 0.02, 0.03])  # as many write them
    setup = tfperf.ensemble(build, replicas=3, form="lanes", learning_rate=rates)
    found = setup.fit(x, y, epochs=1, batch_size=16, keys={"engine.xla": False})
    each, mean = found.predict(x), found.mean(x)
    for name in ("label", "high"):
        np.testing.assert_array_equal(mean[name], each[name].astype(float).mean(0))
        assert (mean[name] % 1 != 0).any()
