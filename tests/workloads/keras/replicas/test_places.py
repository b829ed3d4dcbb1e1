"""What an ensemble's figures leave out is what Keras' losses and metrics leave out."""

import keras
import numpy as np
import pytest
from keras import layers

from tfperf.sources.samples import make_samples
from tfperf.workloads.keras.replicas import bands_page
from tfperf.workloads.keras.replicas.calibration import (
    HeldClasses,
    HeldNumbers,
    LossKind,
    compare_numbers,
    compare_predictions,
    compare_with_targets,
)
from tfperf.workloads.keras.replicas.predicting import list_weights

RNG = np.random.default_rng(5)


def compare(model, *data):
    """Of two replicas that have the model's own weights."""
    evaluate(model, *data[:2])  # which builds its loss
    weights = {one.path: np.stack([one.numpy()] * 2) for one in list_weights(model)}
    return compare_with_targets(model, weights, make_samples(data, "data"))


def evaluate(model, x, y, weights=None):
    return model.evaluate(x, y, sample_weight=weights, verbose=0, return_dict=True)


def build_tagger(loss="sparse_categorical_crossentropy"):
    """Three classes for each of the words of a padded line."""
    model = keras.Sequential(
        [
            keras.Input((8,), dtype="int32"), layers.Embedding(5, 4, mask_zero=True), layers.Dense(6, "tanh"),
            layers.Dense(3, "softmax"),
        ]
    )  # fmt: skip
    model.compile("sgd", loss, weighted_metrics=["accuracy"])
    return model


@pytest.fixture(name="lines")
def make_lines():
    lines = RNG.integers(1, 5, size=(20, 8))
    lines[np.arange(8) >= RNG.integers(2, 7, size=(20, 1))] = 0
    return lines


def test_padded_places_do_not_count(lines):
    model = build_tagger()
    right = model.predict(lines, verbose=0).argmax(axis=-1)
    y = np.where(lines == 0, (right + 1) % 3, right)  # wrong at all padded places
    y[:5, 0] = (right[:5, 0] + 1) % 3
    found = compare(model, lines, y)
    assert found.figures["accuracy_of_mean"] == pytest.approx(evaluate(model, lines, y)["accuracy"], rel=1e-6)
    assert found.figures["samples"] == (lines > 0).sum() and found.figures["accuracy_of_one"] > 0.9
    assert isinstance(found.values, HeldClasses) and len(found.values.entropy) == (lines > 0).sum()
    assert found.figures["unweighted"] is False


def test_an_ignored_class_does_not_count(lines):
    model = build_tagger(keras.losses.SparseCategoricalCrossentropy(ignore_class=-1))
    y = model.predict(lines, verbose=0).argmax(axis=-1)
    y[:, 1] = -1
    figures = compare(model, lines, y).figures
    assert figures["accuracy_of_mean"] == 1 and figures["samples"] == (np.delete(lines, 1, axis=1) > 0).sum()


def test_one_hot_rows_are_asked_for_where_they_count():
    found = RNG.uniform(size=(2, 4, 3))
    rows = np.eye(3)[[0, 1, 2, 0]]
    rows[3] = 0  # padding
    loss, masks = LossKind("categorical_crossentropy"), [np.array([True, True, True, False])]
    assert compare_predictions(found, rows, loss, masks).figures["samples"] == 3
    assert "one-hot" in compare_predictions(found, rows, loss).figures["n/a"]


@pytest.mark.parametrize("shape", [(30,), (30, 1)])
def test_samples_of_weight_zero_do_not_count_and_other_weights_are_told(shape):
    model = keras.Sequential([keras.Input((2,)), layers.Dense(2)])
    model.compile("sgd", "mse")
    x, y = RNG.normal(size=(30, 2)).astype(np.float32), RNG.normal(size=(30, 2)).astype(np.float32)
    weights = (np.arange(30) % 3 > 0).astype(np.float32)
    y[weights == 0] += 100
    found = compare(model, x, y, weights.reshape(shape))
    wanted = evaluate(model, x[weights > 0], y[weights > 0])["loss"]
    assert found.figures["rms_error"] ** 2 == pytest.approx(wanted, rel=1e-5) and found.figures["samples"] == 40
    assert found.figures["unweighted"] is False and compare(model, x, y, 1 + weights).figures["unweighted"] is True
    constant = y[weights > 0].std(axis=0)
    assert found.figures["rms_error_of_constant"] ** 2 == pytest.approx((constant**2).mean(), rel=1e-5)
    assert isinstance(found.values, HeldNumbers) and np.isnan(found.values.targets[::3]).all()
    assert "base64" in bands_page.render_bands(found.values)
    diagonal, means = bands_page.draw_bands(found.values).axes[0].lines
    assert np.isfinite(diagonal.get_xdata()).all() and len(np.asarray(means.get_xdata())) == 20
    assert "weight zero" in compare(model, x, y, 0 * weights).figures["n/a"]


def test_figures_of_places_that_count_are_those_of_them_alone():
    found, targets = RNG.normal(size=(6, 12, 2)), RNG.normal(size=(12, 2))
    counts = np.ones((12, 2), bool)
    counts[9:] = False
    figures = compare_numbers(found, targets, counts).figures
    alone = compare_numbers(found[:, :9], targets[:9]).figures
    assert figures == alone


def test_masks_that_do_not_fit_are_told():
    said = compare_predictions(np.ones((2, 4, 1)), np.ones((4, 1)), LossKind("mean_squared_error"), [np.ones((4, 3))])
    assert "mask or sample weights, (4, 3)" in said.figures["n/a"]
