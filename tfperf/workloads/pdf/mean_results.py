"""What the mean PDF of some replicas predicts, and how well that fits; with exact operators, without TensorFlow."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from tfperf.arrays import BoolMask, Float64Array, Indices
from tfperf.workloads.pdf.data.covariance import CovarianceMatrix
from tfperf.workloads.pdf.merge import ReplicaArrays, select_arrays
from tfperf.workloads.pdf.operators.problem import Problem
from tfperf.workloads.pdf.operators.threads import one_thread
from tfperf.workloads.pdf.operators.woodbury import find_components
from tfperf.workloads.pdf.results.record import DatasetResult, FitResult


def _compute_dense_chi2(covariance: CovarianceMatrix, residual: Float64Array) -> float:
    """r^T C^-1 r by Cholesky, with no form that the fit uses."""
    used = CovarianceMatrix(covariance.diagonal, covariance.columns[:, covariance.columns.any(axis=0)])
    # what is not finite goes through: it belongs to a fit that failed
    whitened = solve_triangular(np.linalg.cholesky(used.to_dense()), residual, lower=True, check_finite=False)
    return float(whitened @ whitened)


def _compute_chi2(covariance: CovarianceMatrix, rows: slice | Indices, residual: Float64Array) -> float:
    """chi2 of some of the points (N), with the covariance of these alone."""
    return _compute_dense_chi2(CovarianceMatrix(covariance.diagonal[rows], covariance.columns[rows]), residual[rows])


def _compute_total_chi2(covariance: CovarianceMatrix, sets: Sequence[slice], residual: Float64Array) -> float:
    """chi2 of all points; datasets that share no systematic are blocks of the matrix: made one by one."""
    components = find_components(covariance.columns, sets)
    rows = (np.concatenate([np.arange(sets[i].start, sets[i].stop) for i in component]) for component in components)
    return sum(_compute_chi2(covariance, r, residual) for r in rows)


def make_datasets(problem: Problem, arrays: ReplicaArrays, mean: Float64Array) -> tuple[DatasetResult, ...]:
    """Each dataset with what replicas and the mean PDF, whose predictions are `mean` (N), say of it."""
    residual = mean - problem.central
    plain = problem.covariance_no_t0
    sigma = np.sqrt(plain.diagonal + (plain.columns**2).sum(axis=1))
    return tuple(
        DatasetResult(
            name=d.name, experiment=d.attributes.get("experiment", ""), label=d.attributes.get("label", ""),
            kin_columns=d.kin_names, kin=d.kin, cv=d.cv, sigma=sigma[s], mean=mean[s],
            predictions=arrays.predictions[:, s],
            pseudodata=None if arrays.pseudodata is None else arrays.pseudodata[:, s],
            training=None if arrays.training is None else arrays.training[:, s],
            chi2=_compute_chi2(problem.covariance, s, residual) / len(d.cv),
            chi2_no_t0=_compute_chi2(plain, s, residual) / len(d.cv),
        )
        for d, s in zip(problem.datasets, problem.sets.values(), strict=True)
    )  # fmt: skip


def compute_chi2_summary(problem: Problem, datasets: Sequence[DatasetResult], mean: Float64Array) -> dict[str, Any]:
    """The chi2 entries of report.json, for the prediction of the mean PDF (N)."""
    sets, n = list(problem.sets.values()), len(mean)
    residual = mean - problem.central
    out: dict[str, Any] = {
        "points": n,
        "chi2_per_point": _compute_total_chi2(problem.covariance, sets, residual) / n,
        "chi2_no_t0_per_point": _compute_total_chi2(problem.covariance_no_t0, sets, residual) / n,
        "chi2_per_dataset": {
            d.name: {"ndata": len(d.cv), "chi2": d.chi2, "chi2_no_t0": d.chi2_no_t0} for d in datasets
        },
        "chi2_blocks_per_point": sum(d.chi2 * len(d.cv) for d in datasets) / n,
    }
    if problem.truth is not None:
        out["chi2_to_truth_per_point"] = _compute_total_chi2(problem.covariance, sets, mean - problem.truth) / n
    return out


@one_thread
def evaluate_survivors(problem: Problem, result: FitResult, survivors: BoolMask) -> FitResult:
    """The result whose mean and chi2 are those of some of its replicas (R); the rest of it as it is."""
    mean = problem.observables.predict(result.pdf[survivors].mean(axis=0))
    datasets = make_datasets(problem, select_arrays(result), mean)
    chi2 = compute_chi2_summary(problem, datasets, mean)
    to_truth = chi2.pop("chi2_to_truth_per_point", None)
    summary = {**result.summary, **chi2}
    if summary.get("closure"):
        summary["closure"] = {**summary["closure"], "chi2_to_truth_per_point": to_truth}
    return replace(result, datasets=datasets, summary=summary, survivors=survivors)
