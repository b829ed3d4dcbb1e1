"""The constants of the losses of all replicas, in one of two forms.

`shared`: every point in `points`. `folded`: the deep-inelastic points without operation in a small matrix for each
replica and half, reduced to a basis where one is given; the others in `points`. R replicas, N points, X nodes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from tfperf.data.pack import Dataset
from tfperf.operators.folding import Folded, fold
from tfperf.operators.observables import Observables, compile_observables
from tfperf.operators.problem import Problem
from tfperf.operators.products import read_columns
from tfperf.operators.reduction import Basis, balanced, error_per_point, sufficient_rank
from tfperf.operators.woodbury import Whitened, whiten
from tfperf.runcard.config import FITTED

Array = NDArray[np.float64]
SAFETY = 0.5  # of the tolerance: fitted PDFs are not the samples


@dataclass(frozen=True)
class Points:
    """Points whose residuals are made in every step, all arrays in the order of training.

    data (R, n), central (n) and factor (n) in which predictions are multiplied: units of the error, times root_weight.
    """

    observables: Observables
    whitened: Whitened
    data: Array
    central: Array
    training: NDArray[np.bool_]  # (R, n)
    factor: Array
    root_weight: Array


@dataclass(frozen=True)
class Compiled:
    """What the losses are made of; restrict (k, 8 X): x f -> the p_k of `folded`."""

    points: Points
    folded: Folded | None = None
    restrict: Array | None = None


def is_linear(dataset: Dataset) -> bool:
    """True for predictions that are linear in the PDFs."""
    return dataset.operation == "NULL" and not dataset.tables[0].hadronic


def linear_operator(datasets: Sequence[Dataset], nodes: int) -> Array:
    """Tables of linear sets over all fitted flavours and nodes, (n, 8 X)."""
    tables = []
    for dataset in datasets:
        out = np.zeros((len(dataset.cv), len(FITTED), nodes))
        for (f,), column in read_columns(dataset.tables[0], nodes).items():
            out[:, f] = column
        tables.append(out.reshape(len(out), -1))
    return np.concatenate(tables) if tables else np.zeros((0, len(FITTED) * nodes))


def linear_points(problem: Problem) -> NDArray[np.bool_]:
    """Which points (N) belong to linear sets."""
    return np.concatenate([np.full(len(d.cv), is_linear(d)) for d in problem.datasets])


def whitened(problem: Problem, dtype: type[np.floating] = np.float64) -> Whitened:
    """The covariance of the fit in the problem's blocks."""
    return whiten(problem.covariance, problem.sets, dtype, problem.blocks)


def shared(problem: Problem, dtype: type[np.floating]) -> Compiled:
    """Every point on its own."""
    every = np.ones(len(problem.central), bool)
    return Compiled(_points(problem, every, problem.observables, whitened(problem, dtype)))


def folded(problem: Problem, dtype: type[np.floating], basis: Basis) -> Compiled:
    """Linear points folded, with PDFs reduced to a basis."""
    white, linear = whitened(problem, dtype), linear_points(problem)
    operator = linear_operator([d for d in problem.datasets if is_linear(d)], problem.observables.nodes)
    factor = (white.inverse_sigma * problem.root_weight)[linear]
    operator = (operator * factor[:, None]) @ basis.extend
    small = fold(white, linear, operator, problem.data[:, linear] * factor, problem.training, dtype)
    rest = [i for i, d in enumerate(problem.datasets) if not is_linear(d)]
    number = {i: k for k, i in enumerate(rest)}
    blocks = [[number[i] for i in block if i in number] for block in problem.blocks]
    observables = compile_observables(
        [problem.datasets[i] for i in rest],
        problem.pack.positivity,
        problem.observables.nodes,
        [b for b in blocks if b],
    )
    points = _points(problem, ~linear, observables, small.rest)
    return Compiled(points, small, basis.restrict)


def _points(problem: Problem, which: NDArray[np.bool_], observables: Observables, white: Whitened) -> Points:
    rows = np.flatnonzero(which)[observables.order]
    ordered = white.ordered(observables.order)
    weight = problem.root_weight[rows]
    factor = ordered.inverse_sigma * weight
    return Points(
        observables, ordered, problem.data[:, rows] * factor, problem.central[rows] * factor,
        problem.training[:, rows], factor, weight,
    )  # fmt: skip


def linear_basis(problem: Problem, samples: Array, tolerance: float) -> tuple[Basis, int]:
    """All directions that linear points can tell apart, and how many keep chi2 per point within the tolerance.

    By samples (S, 8, X): half of them make the basis, the others choose the rank, for the smaller half of the points.
    Tolerance 0 takes all.
    """
    linear = linear_points(problem)
    operator = linear_operator([d for d in problem.datasets if is_linear(d)], problem.observables.nodes)
    columns = problem.covariance.columns[linear]
    dense = np.diag(problem.covariance.diagonal[linear]) + columns @ columns.T
    white = solve_triangular(np.linalg.cholesky(dense), operator, lower=True)
    made, tested = samples[::2], samples[1::2].reshape(len(samples[1::2]), -1)
    basis = balanced(made, problem.pack.x[: problem.observables.nodes], white.T @ white)
    points = min(problem.training[:, linear].sum(axis=1).mean(), (~problem.training[:, linear]).sum(axis=1).mean())

    def error(rank: int) -> Array:
        return error_per_point(basis.first(rank).lost(tested) @ white.T, max(points, 1.0))

    return basis, basis.rank if tolerance == 0 else sufficient_rank(error, basis.rank, SAFETY * tolerance)
