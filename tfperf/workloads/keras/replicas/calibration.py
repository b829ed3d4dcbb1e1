"""How an ensemble's spread compares with its errors, on samples that it was not trained on. R replicas, N samples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import keras
import numpy as np
from scipy.special import expit, softmax

from tfperf.arrays import AnyArray, ArraysByName, BoolMask, Float64Array
from tfperf.sources.samples import Samples
from tfperf.workloads.keras.replicas.expected_coverage import compute_expected_coverage
from tfperf.workloads.keras.replicas.places import combine_places, find_masks, find_weights, has_uneven_weights
from tfperf.workloads.keras.replicas.predicting import predict_replicas

MOST_SAMPLES = 2000  # that are looked at
LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.68, 0.8, 0.9, 0.95)  # of central intervals
ENDS = (0.025, 0.16, 0.84, 0.975)  # of the bands that are drawn: the central 95 % and 68 %
BINS = 10
POINTS = 200  # of a curve
BATCH = 256
SPARSE = ("sparse_categorical_crossentropy",)
CATEGORICAL = ("categorical_crossentropy", "categorical_focal_crossentropy")
BINARY = ("binary_crossentropy", "binary_focal_crossentropy")
PROBABILITIES = (*SPARSE, *CATEGORICAL, *BINARY)
OTHERS = (  # Keras' losses of which predictions are neither as targets nor probabilities of classes
    "hinge", "squared_hinge", "categorical_hinge", "cosine_similarity", "kl_divergence", "dice", "tversky", "ctc",
    "circle",
)  # fmt: skip


@dataclass(frozen=True)
class HeldNumbers:
    """Numbers that an ensemble predicts of N samples, D for each, and the curve of a model with one number as input."""

    mean: Float64Array  # (N, D)
    ends: Float64Array  # (4, N, D): quantiles at ENDS
    targets: Float64Array  # (N, D); nan where masked or of weight zero
    replicas: int
    inputs: Float64Array | None = None  # (N)
    curve: "HeldCurve | None" = None


@dataclass(frozen=True)
class HeldCurve:
    """What an ensemble predicts along its only input."""

    inputs: Float64Array  # (points), ascending
    mean: Float64Array  # (points, D)
    ends: Float64Array  # (4, points, D)


@dataclass(frozen=True)
class HeldClasses:
    """How unsure an ensemble is of M classes that it predicts, one for each place of each sample that counts."""

    entropy: Float64Array  # (M) of the mean probabilities, nats
    is_right: BoolMask  # (M) the class with the largest mean probability
    classes: int


@dataclass(frozen=True)
class Calibration:
    """figures: for report.json, {"n/a": why} where there is nothing to compare; values: for the page."""

    figures: dict[str, Any]
    values: HeldNumbers | HeldClasses | None = None


class LossKind(NamedTuple):
    """What is compared depends on: a loss by its Keras name, whether outputs are logits, the class left out."""

    name: str
    is_logit: bool = False
    ignored: int | None = None


def compare_with_targets(model: keras.Model, weights: ArraysByName, samples: Samples | None) -> Calibration:
    """Predictions of replicas beside the targets of samples.

    weights: of the replicas that did not break (R, ...); samples: for validation.
    """
    if samples is None or len(samples.data) < 2:
        return Calibration({"n/a": "told where there are validation samples"})
    if len(next(iter(weights.values()))) < 2:
        return Calibration({"n/a": "told of two replicas at least"})
    some = samples.select(slice(MOST_SAMPLES))
    x, targets = some.data[:2]
    found = None if keras.tree.is_nested(targets) else predict_replicas(model, weights, x, BATCH)
    if found is None or keras.tree.is_nested(found):
        return Calibration({"n/a": "told of models with one output"})
    masks = find_masks(model, some, BATCH)
    calibration = compare_predictions(np.asarray(found, np.float64), np.asarray(targets), find_loss(model), masks)
    if "n/a" not in calibration.figures:
        calibration.figures["unweighted"] = has_uneven_weights(find_weights(some))
    if not isinstance(calibration.values, HeldNumbers):
        return calibration
    return replace(calibration, values=_add_curve(model, weights, x, calibration.values))


def _add_curve(model: keras.Model, weights: ArraysByName, x: Any, values: HeldNumbers) -> HeldNumbers:
    """With the curve, where the model has one number as input."""
    columns = keras.tree.flatten(x)
    if len(columns) != 1 or columns[0].size != len(columns[0]) or columns[0].dtype.kind != "f":
        return values
    inputs = columns[0].reshape(-1)
    grid = np.linspace(inputs.min(), inputs.max(), POINTS, dtype=inputs.dtype)
    if not np.all(np.isfinite(grid)):
        return values
    given = keras.tree.map_structure(lambda one: grid.reshape(-1, *one.shape[1:]), x)
    found = np.asarray(predict_replicas(model, weights, given, BATCH), np.float64)
    found = found.reshape(len(found), POINTS, -1)
    curve = HeldCurve(grid.astype(np.float64), found.mean(axis=0), np.quantile(found, ENDS, axis=0))
    return replace(values, inputs=inputs.astype(np.float64), curve=curve)


def find_loss(model: keras.Model) -> LossKind:
    """The compiled loss; its name is empty where there is not one alone."""
    losses = [loss for _, loss, _, _ in getattr(model._compile_loss, "_flat_losses", None) or ()]
    if len(losses) != 1:
        return LossKind("")
    name, options = getattr(getattr(losses[0], "fn", losses[0]), "__name__", ""), getattr(losses[0], "_fn_kwargs", {})
    return LossKind(name, bool(options.get("from_logits", False)), options.get("ignore_class"))


def compare_predictions(
    found: Float64Array, targets: AnyArray, loss: LossKind, masks: Sequence[AnyArray] = ()
) -> Calibration:
    """Of predictions (R, N, ...) and targets; loss: by which they were trained.

    masks: (N, ...) of what is compared, true where all of them are. A place is a class, or else a number.
    """
    if loss.name in OTHERS:
        return Calibration({"n/a": f"told of losses of numbers or of probabilities, not of {loss.name}"})
    shape = found.shape[1:-1] if loss.name in SPARSE else found.shape[1:]
    if targets.size != np.prod(shape, dtype=int):
        return Calibration({"n/a": f"targets {targets.shape} are not as predictions {found.shape[1:]}"})
    targets = targets.reshape(shape)
    if loss.name in SPARSE and loss.ignored is not None:
        masks = (*masks, targets != loss.ignored)
    try:
        places = combine_places(masks, shape[:-1] if loss.name in CATEGORICAL else shape)
    except ValueError:
        shapes = ", ".join(str(one.shape) for one in masks)
        return Calibration({"n/a": f"the mask or sample weights, {shapes}, are not as predictions {found.shape[1:]}"})
    if not places.any():
        return Calibration({"n/a": "all targets are masked, ignored or of weight zero"})
    if loss.name not in PROBABILITIES:
        rows = targets.reshape(len(targets), -1).astype(np.float64)
        return compare_numbers(found.reshape(*found.shape[:2], -1), rows, places.reshape(rows.shape))
    return _compare_probabilities(found, targets, loss, places)


def _compare_probabilities(found: Float64Array, targets: AnyArray, loss: LossKind, places: BoolMask) -> Calibration:
    if loss.name in CATEGORICAL:
        rows = targets[places]
        if not (np.isin(rows, (0, 1)).all() and (rows.sum(axis=-1) == 1).all()):
            return Calibration({"n/a": "told of targets that are classes, not shares of them: rows are not one-hot"})
        targets = targets.argmax(axis=-1)
    if not np.array_equal(targets[places], targets[places].astype(np.int64)):
        return Calibration({"n/a": "told of targets that are classes, not shares of them"})
    if loss.name in BINARY:
        found = expit(found) if loss.is_logit else found
        return compare_classes(np.stack([1 - found, found], axis=-1), targets, places)
    return compare_classes(softmax(found, axis=-1) if loss.is_logit else found, targets, places)


def compare_numbers(found: Float64Array, targets: Float64Array, counts: BoolMask | None = None) -> Calibration:
    """Of numbers (R, N, D): how many targets lie in central intervals of the replicas, and errors beside spreads.

    counts: which targets are compared (N, D); None: all. The intervals are of what replicas differ in, as samples and
    initial weights; noise of the targets is not in them. A constant: the mean of each of the D targets.
    """
    counts = np.ones(targets.shape, bool) if counts is None else counts
    targets = np.where(counts, targets, np.nan)
    mean, spread = found.mean(axis=0), found.std(axis=0, ddof=1)[counts]
    error = (mean - targets)[counts]
    coverage = []
    for level in LEVELS:
        low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2], axis=0)
        coverage.append(float(np.mean(((targets >= low) & (targets <= high))[counts])))
    groups = np.array_split(np.argsort(spread), min(BINS, len(spread)))
    used = counts.any(axis=0)
    figures = {
        "kind": "numbers", "replicas": len(found), "levels": list(LEVELS), "coverage": coverage,
        "expected_coverage": compute_expected_coverage(len(found), np.array(LEVELS)).tolist(),
        "samples": int(counts.sum()),
        "rms_error": _compute_rms(error), "rms_spread": _compute_rms(spread),
        "spreads": [_compute_rms(spread[rows]) for rows in groups],
        "errors": [_compute_rms(error[rows]) for rows in groups],
        "rms_error_of_one": float(np.median([_compute_rms((one - targets)[counts]) for one in found])),
        "rms_error_of_constant": _compute_rms(
            (targets[:, used] - np.nanmean(targets[:, used], axis=0))[counts[:, used]]
        ),
    }  # fmt: skip
    return Calibration(figures, HeldNumbers(mean, np.quantile(found, ENDS, axis=0), targets, len(found)))


def _compute_rms(values: Float64Array) -> float:
    return float(np.sqrt(np.mean(values**2)))


def compare_classes(found: Float64Array, targets: AnyArray, counts: BoolMask | None = None) -> Calibration:
    """Of probabilities (R, N, ..., C): how often the mean is right at each confidence, and the entropies of it.

    counts: which of the classes (N, ...) are compared; None: all.
    Source: Guo et al. 2017, "On calibration of modern neural networks": the expected calibration error.
    """
    counts = np.ones(targets.shape, bool) if counts is None else counts
    found, classes = found[:, counts], targets[counts].astype(np.int64)
    mean = found.mean(axis=0)
    confidence, right = mean.max(axis=1), mean.argmax(axis=1) == classes
    entropy = -np.sum(mean * np.log(np.maximum(mean, 1e-300)), axis=1)
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    rows = [np.flatnonzero(bins == number) for number in range(BINS)]
    filled = [one for one in rows if len(one)]
    off = sum(len(one) * abs(confidence[one].mean() - right[one].mean()) for one in filled) / len(classes)
    each = (found.argmax(axis=-1) == classes).mean(axis=1)
    figures = {
        "kind": "classes", "samples": len(classes), "confidence": [float(confidence[one].mean()) for one in filled],
        "accuracy": [float(right[one].mean()) for one in filled], "counts": [len(one) for one in filled],
        "calibration_error": float(off), "accuracy_of_mean": float(right.mean()),
        "accuracy_of_one": float(np.median(each)),
        "share_of_most_frequent": float(np.unique(classes, return_counts=True)[1].max() / len(classes)),
        "entropy_right": _describe_entropy(entropy[right]), "entropy_wrong": _describe_entropy(entropy[~right]),
    }  # fmt: skip
    return Calibration(figures, HeldClasses(entropy, right, found.shape[-1]))


def _describe_entropy(values: Float64Array) -> Mapping[str, float | None]:
    """Quartiles, in nats; None where there is nothing."""
    ends = np.percentile(values, [25, 50, 75]).tolist() if len(values) else [None] * 3
    return dict(zip(("q1", "median", "q3"), ends, strict=True))
