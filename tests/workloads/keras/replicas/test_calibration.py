"""Spread and errors of an ensemble beside hand-computed numbers and slow loops."""

import math

import keras
import numpy as np
import pytest

from tfperf.sources.samples import make_samples
from tfperf.workloads.keras.replicas import calibration, calibration_page
from tfperf.workloads.keras.replicas.calibration import (
    LEVELS,
    HeldClasses,
    HeldNumbers,
    LossKind,
    compare_classes,
    compare_numbers,
    compare_predictions,
    compare_with_targets,
    find_loss,
)
from tfperf.workloads.keras.replicas.expected_coverage import compute_expected_coverage

RNG = np.random.default_rng(3)


def find_quantile(values, level):
    """Linear between the ordered values, the first of which is at 0, the last at 1."""
    ordered = sorted(values)
    place = level * (len(ordered) - 1)
    low = min(int(place), len(ordered) - 2)
    return ordered[low] + (place - low) * (ordered[low + 1] - ordered[low])


def test_coverage_of_replicas_at_known_places():
    found = np.linspace(0, 100, 101)[:, None, None].repeat(4, axis=1)  # replica k says k of each sample
    # a central interval of level c is 50 - 50 c to 50 + 50 c: these lie inside from levels 0, 0.3, 0.82 and never
    targets = np.array([[50.0], [65.0], [9.0], [101.0]])
    figures = compare_numbers(found, targets).figures
    inside = dict(zip(figures["levels"], figures["coverage"], strict=True))
    assert inside[0.1] == 0.25 and inside[0.4] == 0.5 and inside[0.8] == 0.5 and inside[0.9] == inside[0.95] == 0.75
    assert figures["samples"] == 4 and math.isclose(figures["rms_spread"], math.sqrt(101 * 102 / 12), rel_tol=1e-12)
    errors = (50.0 - targets[:, 0]) ** 2
    assert math.isclose(figures["rms_error"], math.sqrt(errors.mean()), rel_tol=1e-12)


@pytest.mark.parametrize(("replicas", "level", "gaps"), [(5, 0.5, 2), (11, 0.8, 8), (21, 0.9, 18), (9, 0.5, 4)])
def test_the_expected_share_counts_gaps_where_ends_are_replicas(replicas, level, gaps):
    (found,) = compute_expected_coverage(replicas, np.array([level]))
    assert found == pytest.approx(gaps / (replicas + 1), rel=1e-12)


def test_the_expected_share_is_what_targets_like_replicas_have():
    draws = RNG.normal(size=(11, 40_000, 1))  # the last of each is the target
    figures = compare_numbers(draws[:-1], draws[-1]).figures
    np.testing.assert_allclose(figures["coverage"], figures["expected_coverage"], atol=0.012)
    named = dict(zip(LEVELS, figures["expected_coverage"], strict=True))
    assert 0.55 < named[0.68] < 0.59 and 0.77 < named[0.95] < 0.80  # far from what they are called
    (two,) = compute_expected_coverage(2, np.array([0.68]))
    # normal: the angle of (target - mean) beside 0.68 of half the distance of both
    assert two == pytest.approx(2 / math.pi * math.atan(0.68 / math.sqrt(3)), abs=0.003)
    assert compute_expected_coverage(3000, np.array([0.68]))[0] == pytest.approx(0.68, abs=0.002)


def test_the_expected_share_is_drawn_and_told():
    found = compare_numbers(RNG.normal(size=(4, 30, 1)), RNG.normal(size=(30, 1))).figures | {"unweighted": True}
    lines = {one.get_label(): one.get_ydata() for one in calibration_page.draw_numbers(found).axes[0].lines}
    np.testing.assert_array_equal(lines["expected of 4 replicas"], found["expected_coverage"])
    page = calibration_page.render_calibration(found)
    share = found["expected_coverage"][LEVELS.index(0.68)]
    assert f"{100 * share:.1f} %" in page and "of 30 validation targets" in page
    assert calibration_page.UNWEIGHTED in page
    assert calibration_page.UNWEIGHTED not in calibration_page.render_calibration(found | {"unweighted": False})


def test_entropies_have_three_digits():
    classes = compare_classes(np.full((2, 3, 2), 0.5), np.zeros(3, int)).figures | {"unweighted": False}
    assert "0.693 nats" in calibration_page.render_calibration(classes)


def test_numbers_are_those_of_a_loop():
    found, targets = RNG.normal(size=(7, 23, 2)), RNG.normal(size=(23, 2))
    calibration = compare_numbers(found, targets)
    figures, values = calibration.figures, calibration.values
    assert isinstance(values, HeldNumbers) and values.replicas == 7
    for level, share in zip(LEVELS, figures["coverage"], strict=True):
        inside = 0
        for n in range(23):
            for d in range(2):
                low, high = (find_quantile(found[:, n, d], end) for end in ((1 - level) / 2, (1 + level) / 2))
                inside += low <= targets[n, d] <= high
        assert share == inside / 46, level
    means = [[sum(found[r, n, d] for r in range(7)) / 7 for d in range(2)] for n in range(23)]
    np.testing.assert_allclose(values.mean, means, rtol=1e-12)
    ends = [find_quantile(found[:, 5, 1], end) for end in (0.025, 0.16, 0.84, 0.975)]
    np.testing.assert_allclose(values.ends[:, 5, 1], ends, rtol=1e-12)
    each = sorted(math.sqrt(np.mean((one - targets) ** 2)) for one in found)
    assert math.isclose(figures["rms_error_of_one"], each[3], rel_tol=1e-12)
    # the groups, of as equal size as can be, hold each value once
    sizes = [5] * 6 + [4] * 4
    for whole, parts in (("rms_error", "errors"), ("rms_spread", "spreads")):
        squares = sum(size * part**2 for size, part in zip(sizes, figures[parts], strict=True)) / 46
        assert math.isclose(math.sqrt(squares), figures[whole], rel_tol=1e-12)
    assert figures["spreads"] == sorted(figures["spreads"])


def test_the_expected_calibration_error_by_hand():
    # two replicas whose mean is given; of three classes
    mean = np.array([[0.92, 0.04, 0.04], [0.96, 0.02, 0.02], [0.3, 0.62, 0.08], [0.2, 0.2, 0.6], [0.35, 0.4, 0.25]])
    shift = np.array([0.01, -0.01, 0.0])
    classes = np.array([0, 1, 1, 2, 0])  # right, wrong, right, right, wrong
    figures = compare_classes(np.stack([mean + shift, mean - shift]), classes).figures
    # bins of confidence: 0.9 to 1 (0.94 on average, half right), 0.6 to 0.7 (0.61, all right), 0.4 to 0.5 (0.4, none)
    np.testing.assert_allclose(figures["confidence"], [0.4, 0.61, 0.94], rtol=1e-12)
    assert figures["accuracy"] == [0.0, 1.0, 0.5] and figures["counts"] == [1, 2, 2]
    wanted = (1 * 0.4 + 2 * 0.39 + 2 * 0.44) / 5
    assert math.isclose(figures["calibration_error"], wanted, rel_tol=1e-12)
    assert figures["accuracy_of_mean"] == 0.6 and figures["accuracy_of_one"] == 0.6
    wrong = [-sum(p * math.log(p) for p in mean[i]) for i in (1, 4)]
    assert math.isclose(figures["entropy_wrong"]["median"], sum(wrong) / 2, rel_tol=1e-12)


def test_a_confidence_of_one_is_in_the_last_bin_and_nothing_wrong_has_no_entropy():
    sure = np.tile([1.0, 0.0], (2, 3, 1))
    found = compare_classes(sure, np.zeros(3, int))
    assert found.figures["confidence"] == [1.0] and found.figures["calibration_error"] == 0
    assert found.figures["entropy_wrong"]["median"] is None and found.figures["entropy_right"]["q3"] == 0
    assert isinstance(found.values, HeldClasses) and found.values.is_right.all()


def test_logits_and_probabilities_are_told_the_same():
    logits = RNG.normal(size=(4, 9, 3))
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    classes = RNG.integers(0, 3, size=9)
    plain = compare_predictions(probabilities, classes, LossKind("sparse_categorical_crossentropy")).figures
    one_hot = np.eye(3)[classes]
    for found, targets, loss, is_logit in (
        (logits, classes[:, None], "sparse_categorical_crossentropy", True),
        (logits, one_hot, "categorical_crossentropy", True),
        (probabilities, one_hot, "categorical_focal_crossentropy", False),
    ):
        same = compare_predictions(found, targets, LossKind(loss, is_logit)).figures
        for name, values in plain.items():
            if name not in ("kind", "entropy_right", "entropy_wrong"):
                np.testing.assert_allclose(same[name], values, rtol=1e-12, err_msg=name)


@pytest.mark.parametrize("shape", [(8, 1), (8,), (8, 3)])
def test_binary_outputs_are_two_classes_each(shape):
    found, targets = RNG.normal(size=(3, *shape)), RNG.integers(0, 2, size=shape)
    share = 1 / (1 + np.exp(-found))
    figures = compare_predictions(found, targets.astype(np.float32), LossKind("binary_crossentropy", True)).figures
    right = (share.mean(axis=0) > 0.5) == targets
    assert figures["kind"] == "classes" and figures["samples"] == targets.size
    assert math.isclose(figures["accuracy_of_mean"], right.mean(), rel_tol=1e-12)


@pytest.mark.parametrize(
    ("targets", "loss", "said"),
    [
        (np.zeros((4, 2)), "mean_squared_error", "are not as predictions"),
        (np.full((5, 2), 0.5), "categorical_crossentropy", "rows are not one-hot"),
        (np.ones((5, 2)), "categorical_crossentropy", "rows are not one-hot"),
        (np.ones((5, 1)), "hinge", "not of hinge"),
        (np.full((5, 1), 0.3), "binary_crossentropy", "classes, not shares"),
    ],
)
def test_what_cannot_be_compared_says_why(targets, loss, said):
    calibration = compare_predictions(RNG.uniform(size=(2, 5, targets.shape[1])), targets, LossKind(loss))
    assert said in calibration.figures["n/a"] and calibration.values is None


@pytest.mark.parametrize(
    ("loss", "wanted"),
    [
        ("mse", LossKind("mean_squared_error")),
        (keras.losses.BinaryCrossentropy(from_logits=True), LossKind("binary_crossentropy", True)),
        ("sparse_categorical_crossentropy", LossKind("sparse_categorical_crossentropy")),
        (
            keras.losses.SparseCategoricalCrossentropy(ignore_class=-1),
            LossKind("sparse_categorical_crossentropy", ignored=-1),
        ),
        (keras.losses.Hinge(), LossKind("hinge")),
    ],
)
def test_the_compiled_loss_is_found(loss, wanted):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", loss)
    model.compute_loss(y=np.zeros((1, 1)), y_pred=np.zeros((1, 1)))  # which builds it
    assert find_loss(model) == wanted


def test_a_curve_is_drawn_of_one_number_alone():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    slopes = np.array([1.0, 2.0, 3.0], np.float32).reshape(3, 1, 1)
    weights = {"kernel": slopes, "bias": np.zeros((3, 1), np.float32)}
    x = np.array([[2.0], [-1.0], [0.5]], np.float32)
    values = compare_with_targets(model, weights, make_samples((x, 2 * x), "data")).values
    assert isinstance(values, HeldNumbers) and values.curve is not None
    curve = values.curve
    assert curve.inputs[0] == -1 and curve.inputs[-1] == 2 and len(curve.inputs) == calibration.POINTS
    np.testing.assert_allclose(curve.mean[:, 0], 2 * curve.inputs, rtol=1e-6)
    np.testing.assert_allclose(curve.ends[2, :, 0] - 2 * curve.inputs, 0.68 * np.abs(curve.inputs), atol=1e-6)
    assert "n/a" in compare_with_targets(model, weights, None).figures
    one = {name: array[:1] for name, array in weights.items()}
    assert "two replicas" in compare_with_targets(model, one, make_samples((x, x), "data")).figures["n/a"]
