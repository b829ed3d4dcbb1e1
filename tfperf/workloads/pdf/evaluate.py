"""The result of a fit from its weights, with exact operators in float64 on the host.

What grows with the replicas times more than the points is made for a few replicas at a time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tfperf.arrays import Float64Array, Int32Array, Int64Array, ReplicaWeights
from tfperf.train.stopping import ReplicaState
from tfperf.workloads.pdf.card import Card
from tfperf.workloads.pdf.mean_results import compute_chi2_summary, make_datasets
from tfperf.workloads.pdf.merge import ReplicaArrays, merge, select_arrays
from tfperf.workloads.pdf.model import PDF
from tfperf.workloads.pdf.operators.problem import Problem
from tfperf.workloads.pdf.operators.threads import one_thread
from tfperf.workloads.pdf.operators.woodbury import build_whitening
from tfperf.workloads.pdf.results.record import CONVERGED, FitResult, ReplicaHistory, Replicas
from tfperf.workloads.pdf.results.veto_figures import (
    ARC_X,
    INTEGRABILITY_X,
    VETO_X,
    compute_arc_lengths,
    compute_integrability,
)

TOGETHER = 50  # replicas


@dataclass(frozen=True)
class TrainingOutcome:
    """What training leaves behind, one row per replica in the order of `ids`."""

    ids: Int64Array
    attempts: Int64Array
    status: tuple[str, ...]
    best_step: Int64Array
    stop_step: Int64Array
    weights: ReplicaWeights
    history: ReplicaHistory


def decode_statuses(state: Int32Array, best_step: Int64Array) -> tuple[str, ...]:
    """Words of the record for the states at the end of training."""

    def decode(code: int, best: int) -> str:
        if code == ReplicaState.QUARANTINED:
            return "quarantined"
        if best < 0:
            return "no_positivity"
        return "stopped" if code == ReplicaState.STOPPED else "max_steps"

    return tuple(decode(int(c), int(b)) for c, b in zip(state, best_step, strict=True))


def _apply_in_batches(function: Callable[..., Float64Array], *arrays: Float64Array) -> Float64Array:
    """function(*arrays) where all have the replicas first, as the result has, a few replicas at a time."""
    rows = [slice(i, i + TOGETHER) for i in range(0, len(arrays[0]), TOGETHER)]
    return np.concatenate([function(*(a[r] for a in arrays)) for r in rows])


def evaluate_pdf(card: Card, weights: ReplicaWeights, x: Float64Array) -> Float64Array:
    """x f (R, 8, X) in float64 at the pack's grid; zero at x = 1."""
    replicas = len(next(iter(weights.values())))
    model = PDF(card.model, replicas, "float64")
    model.assign_weights(weights)
    inside = x < 1
    out = np.zeros((replicas, 8, len(x)))
    out[..., inside] = model(x[inside]).numpy()
    return out


def _make_replicas(
    card: Card, problem: Problem, outcome: TrainingOutcome, pdf: Float64Array, predictions: Float64Array
) -> Replicas:
    white = build_whitening(problem.covariance, problem.sets)
    curves = evaluate_pdf(card, outcome.weights, VETO_X)
    masks = problem.training.astype(np.float64)
    residual = predictions - problem.data

    def compute_penalty(pdf: Float64Array) -> Float64Array:
        out: Float64Array = np.maximum(0, -problem.observables.predict_positive(pdf)).sum(axis=1)
        return out

    def divide_by_points(chi2: Float64Array, mask: Float64Array) -> Float64Array:
        n = mask.sum(axis=1)
        return np.where(n > 0, chi2 / np.maximum(n, 1), np.nan)

    return Replicas(
        id=outcome.ids, seed=np.full_like(outcome.ids, card.seed), attempt=outcome.attempts,
        status=outcome.status, best_step=outcome.best_step, stop_step=outcome.stop_step,
        chi2_training=divide_by_points(_apply_in_batches(white.compute_chi2, residual, masks), masks),
        chi2_validation=divide_by_points(_apply_in_batches(white.compute_chi2, residual, 1 - masks), 1 - masks),
        chi2_experimental=white.compute_chi2(predictions - problem.central) / predictions.shape[1],
        positivity=_apply_in_batches(compute_penalty, pdf), arc_length=compute_arc_lengths(curves[..., : ARC_X.size]),
        integrability=compute_integrability(curves[..., -len(INTEGRABILITY_X) :]),
    )  # fmt: skip


@one_thread
def evaluate(
    card: Card, problem: Problem, outcome: TrainingOutcome, before: FitResult | None = None,
    again: Sequence[FitResult] = (),
) -> FitResult:  # fmt: skip
    """Everything a run records but the timings, of the outcome's replicas and those of a result before.

    again: results of replicas that were fitted once more, which take the place of their own.
    The mean is over the converged replicas, or all when none is.
    """
    arrays = _evaluate_arrays(card, problem, outcome)
    if before is not None:
        arrays = merge(select_arrays(before), arrays)
    for one in again:
        arrays = merge(arrays, select_arrays(one))
    good = np.isin(arrays.replicas.status, CONVERGED)
    mean = problem.observables.predict(arrays.pdf[good if good.any() else slice(None)].mean(axis=0))
    datasets = make_datasets(problem, arrays, mean)
    return FitResult(
        title=card.title, q0=problem.pack.q0, x=problem.pack.x, pdf=arrays.pdf, weights=arrays.weights,
        replicas=arrays.replicas, datasets=datasets,
        history=arrays.history, summary=compute_chi2_summary(problem, datasets, mean),
    )  # fmt: skip


def _evaluate_arrays(card: Card, problem: Problem, outcome: TrainingOutcome) -> ReplicaArrays:
    pdf = evaluate_pdf(card, outcome.weights, problem.pack.x)
    predictions = _apply_in_batches(problem.observables.predict, pdf)
    weights = {name: np.asarray(w, np.float64) for name, w in outcome.weights.items()}
    replicas = _make_replicas(card, problem, outcome, pdf, predictions)
    return ReplicaArrays(
        pdf, predictions, weights, replicas, outcome.history, problem.data, problem.training
    )  # fmt: skip
