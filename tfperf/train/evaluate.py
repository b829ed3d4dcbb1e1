"""The result of a fit from its weights, with exact operators in float64 on the host."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfperf.data.covariance import Covariance
from tfperf.models.pdf import PDF
from tfperf.operators.problem import Problem
from tfperf.operators.woodbury import whiten
from tfperf.results.arclength import arc_lengths
from tfperf.results.record import CONVERGED, DatasetResult, FitResult, History, Replicas
from tfperf.runcard.config import Card
from tfperf.train.stopping import State

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Outcome:
    """What training leaves behind, one row per replica in the order of `ids`."""

    ids: NDArray[np.int64]
    attempts: NDArray[np.int64]
    status: tuple[str, ...]
    best_step: NDArray[np.int64]
    stop_step: NDArray[np.int64]
    weights: Mapping[str, NDArray[np.floating]]
    history: History


def statuses(state: NDArray[np.int32], best_step: NDArray[np.int64]) -> tuple[str, ...]:
    """Words of the record for the states at the end of training."""

    def word(code: int, best: int) -> str:
        if code == State.QUARANTINED:
            return "quarantined"
        if best < 0:
            return "no_positivity"
        return "stopped" if code == State.STOPPED else "max_steps"

    return tuple(word(int(c), int(b)) for c, b in zip(state, best_step, strict=True))


def pdf_on_grid(card: Card, weights: Mapping[str, NDArray[np.floating]], x: Array) -> Array:
    """x f (R, 8, X) in float64 at the pack's grid; zero at x = 1."""
    replicas = len(next(iter(weights.values())))
    model = PDF(card.model, replicas, "float64")
    model.load(weights)
    inside = x < 1
    out = np.zeros((replicas, 8, len(x)))
    out[..., inside] = model(x[inside]).numpy()
    return out


def _chi2_dense(covariance: Covariance, rows: slice, residual: Array) -> float:
    """r^T C^-1 r over the rows, by Cholesky."""
    root = np.linalg.cholesky(covariance.dense(rows))
    whitened = np.linalg.solve(root, residual[rows])
    return float(whitened @ whitened)


def _replicas(card: Card, problem: Problem, outcome: Outcome, pdf: Array, predictions: Array, x: Array) -> Replicas:
    white = whiten(problem.covariance, problem.sets)
    masks = problem.training.astype(np.float64)
    residual = predictions - problem.data

    def per_point(chi2: Array, mask: Array) -> Array:
        n = mask.sum(axis=1)
        return np.where(n > 0, chi2 / np.maximum(n, 1), np.nan)

    return Replicas(
        outcome.ids, np.full_like(outcome.ids, card.seed), outcome.attempts,
        outcome.status, outcome.best_step, outcome.stop_step,
        per_point(white.chi2(residual, masks), masks), per_point(white.chi2(residual, 1 - masks), 1 - masks),
        white.chi2(predictions - problem.central) / predictions.shape[1],
        np.maximum(0, -problem.observables.predict_positive(pdf)).sum(axis=1), arc_lengths(pdf, x),
    )  # fmt: skip


def _datasets(problem: Problem, predictions: Array, mean: Array) -> tuple[DatasetResult, ...]:
    residual = mean - problem.central
    plain = problem.covariance_no_t0
    sigma = np.sqrt(plain.diagonal + (plain.columns**2).sum(axis=1))
    return tuple(
        DatasetResult(
            d.name, d.attributes.get("experiment", ""), d.attributes.get("label", ""),
            d.kin_names, d.kin, d.cv, sigma[s], predictions[:, s], mean[s],
            _chi2_dense(problem.covariance, s, residual) / len(d.cv), _chi2_dense(plain, s, residual) / len(d.cv),
        )
        for d, s in zip(problem.datasets, problem.sets.values(), strict=True)
    )  # fmt: skip


def chi2_summary(problem: Problem, datasets: Sequence[DatasetResult], mean: Array) -> dict[str, Any]:
    """The chi2 entries of report.json, for the prediction of the mean PDF (N)."""
    every, n = slice(None), len(mean)
    residual = mean - problem.central
    out: dict[str, Any] = {
        "points": n,
        "chi2_per_point": _chi2_dense(problem.covariance, every, residual) / n,
        "chi2_no_t0_per_point": _chi2_dense(problem.covariance_no_t0, every, residual) / n,
        "chi2_per_dataset": {
            d.name: {"ndata": len(d.cv), "chi2": d.chi2, "chi2_no_t0": d.chi2_no_t0} for d in datasets
        },
        "chi2_blocks_per_point": sum(d.chi2 * len(d.cv) for d in datasets) / n,
    }
    if problem.truth is not None:
        out["chi2_to_truth_per_point"] = _chi2_dense(problem.covariance, every, mean - problem.truth) / n
    return out


def evaluate(card: Card, problem: Problem, outcome: Outcome) -> FitResult:
    """Everything a run records but the timings; the mean is over the converged replicas, or all when none is."""
    pdf = pdf_on_grid(card, outcome.weights, problem.pack.x)
    predictions = problem.observables.predict(pdf)
    good = np.isin(outcome.status, CONVERGED)
    mean = problem.observables.predict(pdf[good if good.any() else slice(None)].mean(axis=0))
    datasets = _datasets(problem, predictions, mean)
    return FitResult(
        card.title, problem.pack.q0, problem.pack.x, pdf,
        {name: np.asarray(w, np.float64) for name, w in outcome.weights.items()},
        _replicas(card, problem, outcome, pdf, predictions, problem.pack.x), datasets, outcome.history,
        chi2_summary(problem, datasets, mean),
    )  # fmt: skip
