"""The result of a fit from its weights, with exact operators in float64 on the host.

What grows with the replicas times more than the points is made for a few replicas at a time.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from tfperf.train.stopping import State
from tfperf.workloads.pdf.card import Card
from tfperf.workloads.pdf.data.covariance import Covariance
from tfperf.workloads.pdf.merge import Figures, figures_of, merge
from tfperf.workloads.pdf.model import PDF
from tfperf.workloads.pdf.operators.problem import Problem
from tfperf.workloads.pdf.operators.threads import one_thread
from tfperf.workloads.pdf.operators.woodbury import components, whiten
from tfperf.workloads.pdf.results.arclength import arc_lengths
from tfperf.workloads.pdf.results.record import CONVERGED, DatasetResult, FitResult, History, Replicas

Array = NDArray[np.float64]
TOGETHER = 50  # replicas


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


def _by_few(function: Callable[..., Array], *arrays: Array) -> Array:
    """function(*arrays) where all have the replicas first, as the result has, a few replicas at a time."""
    rows = [slice(i, i + TOGETHER) for i in range(0, len(arrays[0]), TOGETHER)]
    return np.concatenate([function(*(a[r] for a in arrays)) for r in rows])


def pdf_on_grid(card: Card, weights: Mapping[str, NDArray[np.floating]], x: Array) -> Array:
    """x f (R, 8, X) in float64 at the pack's grid; zero at x = 1."""
    replicas = len(next(iter(weights.values())))
    model = PDF(card.model, replicas, "float64")
    model.load(weights)
    inside = x < 1
    out = np.zeros((replicas, 8, len(x)))
    out[..., inside] = model(x[inside]).numpy()
    return out


def _chi2_dense(covariance: Covariance, residual: Array) -> float:
    """r^T C^-1 r by Cholesky, with no form that the fit uses."""
    used = Covariance(covariance.diagonal, covariance.columns[:, covariance.columns.any(axis=0)])
    # what is not finite goes through: it belongs to a fit that failed
    whitened = solve_triangular(np.linalg.cholesky(used.dense()), residual, lower=True, check_finite=False)
    return float(whitened @ whitened)


def _chi2_of(covariance: Covariance, rows: slice | NDArray[np.intp], residual: Array) -> float:
    """chi2 of some of the points (N), with the covariance of these alone."""
    return _chi2_dense(Covariance(covariance.diagonal[rows], covariance.columns[rows]), residual[rows])


def _chi2_of_all(covariance: Covariance, sets: Sequence[slice], residual: Array) -> float:
    """chi2 of all points; datasets that share no systematic are blocks of the matrix: made one by one."""
    groups = components(covariance.columns, sets)
    rows = (np.concatenate([np.arange(sets[i].start, sets[i].stop) for i in group]) for group in groups)
    return sum(_chi2_of(covariance, r, residual) for r in rows)


def _replicas(card: Card, problem: Problem, outcome: Outcome, pdf: Array, predictions: Array, x: Array) -> Replicas:
    white = whiten(problem.covariance, problem.sets)
    masks = problem.training.astype(np.float64)
    residual = predictions - problem.data

    def penalty(pdf: Array) -> Array:
        out: Array = np.maximum(0, -problem.observables.predict_positive(pdf)).sum(axis=1)
        return out

    def per_point(chi2: Array, mask: Array) -> Array:
        n = mask.sum(axis=1)
        return np.where(n > 0, chi2 / np.maximum(n, 1), np.nan)

    return Replicas(
        outcome.ids, np.full_like(outcome.ids, card.seed), outcome.attempts,
        outcome.status, outcome.best_step, outcome.stop_step,
        per_point(_by_few(white.chi2, residual, masks), masks),
        per_point(_by_few(white.chi2, residual, 1 - masks), 1 - masks),
        white.chi2(predictions - problem.central) / predictions.shape[1],
        _by_few(penalty, pdf), arc_lengths(pdf, x),
    )  # fmt: skip


def _datasets(problem: Problem, predictions: Array, mean: Array) -> tuple[DatasetResult, ...]:
    residual = mean - problem.central
    plain = problem.covariance_no_t0
    sigma = np.sqrt(plain.diagonal + (plain.columns**2).sum(axis=1))
    return tuple(
        DatasetResult(
            d.name, d.attributes.get("experiment", ""), d.attributes.get("label", ""),
            d.kin_names, d.kin, d.cv, sigma[s], predictions[:, s], mean[s],
            _chi2_of(problem.covariance, s, residual) / len(d.cv), _chi2_of(plain, s, residual) / len(d.cv),
        )
        for d, s in zip(problem.datasets, problem.sets.values(), strict=True)
    )  # fmt: skip


def chi2_summary(problem: Problem, datasets: Sequence[DatasetResult], mean: Array) -> dict[str, Any]:
    """The chi2 entries of report.json, for the prediction of the mean PDF (N)."""
    sets, n = list(problem.sets.values()), len(mean)
    residual = mean - problem.central
    out: dict[str, Any] = {
        "points": n,
        "chi2_per_point": _chi2_of_all(problem.covariance, sets, residual) / n,
        "chi2_no_t0_per_point": _chi2_of_all(problem.covariance_no_t0, sets, residual) / n,
        "chi2_per_dataset": {
            d.name: {"ndata": len(d.cv), "chi2": d.chi2, "chi2_no_t0": d.chi2_no_t0} for d in datasets
        },
        "chi2_blocks_per_point": sum(d.chi2 * len(d.cv) for d in datasets) / n,
    }
    if problem.truth is not None:
        out["chi2_to_truth_per_point"] = _chi2_of_all(problem.covariance, sets, mean - problem.truth) / n
    return out


@one_thread
def evaluate(card: Card, problem: Problem, outcome: Outcome, before: FitResult | None = None) -> FitResult:
    """Everything a run records but the timings, of the outcome's replicas and those of a result before.

    The mean is over the converged replicas, or all when none is.
    """
    figures = _figures(card, problem, outcome)
    if before is not None:
        figures = merge(figures_of(before), figures)
    good = np.isin(figures.replicas.status, CONVERGED)
    mean = problem.observables.predict(figures.pdf[good if good.any() else slice(None)].mean(axis=0))
    datasets = _datasets(problem, figures.predictions, mean)
    return FitResult(
        card.title, problem.pack.q0, problem.pack.x, figures.pdf, figures.weights, figures.replicas, datasets,
        figures.history, chi2_summary(problem, datasets, mean),
    )  # fmt: skip


def _figures(card: Card, problem: Problem, outcome: Outcome) -> Figures:
    pdf = pdf_on_grid(card, outcome.weights, problem.pack.x)
    predictions = _by_few(problem.observables.predict, pdf)
    weights = {name: np.asarray(w, np.float64) for name, w in outcome.weights.items()}
    replicas = _replicas(card, problem, outcome, pdf, predictions, problem.pack.x)
    return Figures(pdf, predictions, weights, replicas, outcome.history)
