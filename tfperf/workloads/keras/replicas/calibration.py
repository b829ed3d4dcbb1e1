"""How an ensemble's spread compares with its errors, on samples that it was not trained on. R replicas, N samples."""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from tfperf.arrays import AnyArray, ArraysByName, Float64Array
from tfperf.sources.samples import Samples
from tfperf.workloads.keras.replicas.predicting import predict_replicas

MOST_SAMPLES = 2000  # that are looked at
LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.68, 0.8, 0.9, 0.95)  # of central intervals
BINS = 10
PROBABILITIES = ("sparse_categorical_crossentropy", "categorical_crossentropy", "binary_crossentropy")
BATCH = 256


def describe_calibration(model: keras.Model, weights: ArraysByName, samples: Samples | None) -> dict[str, Any]:
    """For report.json; {"n/a": why} where there is nothing to compare.

    weights: of the replicas that did not break (R, ...); samples: that validate.
    """
    if samples is None or len(samples.data) < 2:
        return {"n/a": "told where samples validate"}
    if len(next(iter(weights.values()))) < 2:
        return {"n/a": "told of two replicas at least"}
    some = samples.select(slice(MOST_SAMPLES))
    targets = some.data[1]
    if keras.tree.is_nested(targets):
        return {"n/a": "told of models with one output"}
    found = predict_replicas(model, weights, some.data[0], BATCH)
    if keras.tree.is_nested(found):
        return {"n/a": "told of models with one output"}
    return describe_predictions(np.asarray(found, np.float64), np.asarray(targets), _find_loss(model))


def _find_loss(model: keras.Model) -> str:
    """The name of the compiled loss, of a model with probabilities as outputs; empty for another."""
    losses = [loss for _, loss, _, _ in getattr(model._compile_loss, "_flat_losses", None) or ()]
    if len(losses) != 1:
        return ""
    name = getattr(getattr(losses[0], "fn", losses[0]), "__name__", "")
    is_logit = getattr(losses[0], "_fn_kwargs", {}).get("from_logits", False)
    return name if name in PROBABILITIES and not is_logit else ""


def describe_predictions(found: Float64Array, targets: AnyArray, loss: str) -> dict[str, Any]:
    """Of predictions (R, N, ...) and targets; loss: empty for numbers, else the name of one for probabilities."""
    if loss == "binary_crossentropy" and found.shape[-1] == 1:
        both = np.concatenate([1 - found, found], axis=-1)
        return describe_classes(both, targets.reshape(found.shape[1:-1]).astype(np.int64))
    if loss in PROBABILITIES[:2]:
        classes = targets.argmax(axis=-1) if loss == PROBABILITIES[1] else targets.reshape(found.shape[1:-1])
        return describe_classes(found, classes.astype(np.int64))
    if targets.size != found[0].size:
        return {"n/a": f"targets {targets.shape} are not as predictions {found.shape[1:]}"}
    return describe_numbers(found.reshape(len(found), -1), targets.reshape(-1).astype(np.float64))


def describe_numbers(found: Float64Array, targets: Float64Array) -> dict[str, Any]:
    """Of numbers (R, N): how many targets lie in central intervals of the replicas, and errors beside spreads.

    The intervals are of what replicas differ in, as samples and initial weights; noise of the targets is not in them.
    """
    mean, spread = found.mean(axis=0), found.std(axis=0, ddof=1)
    error = mean - targets
    coverage = []
    for level in LEVELS:
        low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2], axis=0)
        coverage.append(float(np.mean((targets >= low) & (targets <= high))))
    groups = np.array_split(np.argsort(spread), min(BINS, len(spread)))
    return {
        "kind": "numbers", "levels": list(LEVELS), "coverage": coverage, "samples": len(targets),
        "rms_error": _compute_rms(error), "rms_spread": _compute_rms(spread),
        "spreads": [_compute_rms(spread[rows]) for rows in groups],
        "errors": [_compute_rms(error[rows]) for rows in groups],
        "rms_error_of_one": float(np.median(np.sqrt(np.mean((found - targets) ** 2, axis=1)))),
    }  # fmt: skip


def _compute_rms(values: Float64Array) -> float:
    return float(np.sqrt(np.mean(values**2)))


def describe_classes(found: Float64Array, classes: AnyArray) -> dict[str, Any]:
    """Of probabilities (R, N, ..., C): how often the mean is right at each confidence, and the entropies of it.

    Source: Guo et al. 2017, "On calibration of modern neural networks": the expected calibration error.
    """
    mean = found.mean(axis=0).reshape(-1, found.shape[-1])
    classes = classes.reshape(-1)
    confidence, right = mean.max(axis=1), mean.argmax(axis=1) == classes
    entropy = -np.sum(mean * np.log(np.maximum(mean, 1e-300)), axis=1)
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    rows = [np.flatnonzero(bins == number) for number in range(BINS)]
    filled = [one for one in rows if len(one)]
    off = sum(len(one) * abs(confidence[one].mean() - right[one].mean()) for one in filled) / len(classes)
    each = (found.reshape(len(found), -1, found.shape[-1]).argmax(axis=-1) == classes).mean(axis=1)
    return {
        "kind": "classes", "samples": len(classes), "confidence": [float(confidence[one].mean()) for one in filled],
        "accuracy": [float(right[one].mean()) for one in filled], "counts": [len(one) for one in filled],
        "calibration_error": float(off), "accuracy_of_mean": float(right.mean()),
        "accuracy_of_one": float(np.median(each)),
        "entropy_right": _describe_entropy(entropy[right]), "entropy_wrong": _describe_entropy(entropy[~right]),
    }  # fmt: skip


def _describe_entropy(values: Float64Array) -> Mapping[str, float | None]:
    """Quartiles, in nats; None where there is nothing."""
    ends = np.percentile(values, [25, 50, 75]).tolist() if len(values) else [None] * 3
    return dict(zip(("q1", "median", "q3"), ends, strict=True))
