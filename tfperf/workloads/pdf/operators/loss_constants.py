"""The constants of the losses of all replicas, in one of two forms.

`shared`: every point in `points`. `folded`: the deep-inelastic points without operation in a small matrix for each
replica and half, over a basis of PDFs; the others in `points`, hadronic ones over a basis of their own where one
is given. R replicas, N points, X nodes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from tfperf.arrays import BoolMask, Float64Array
from tfperf.workloads.pdf.card import FITTED
from tfperf.workloads.pdf.data.closure import compute_toy_pdf
from tfperf.workloads.pdf.data.pack import Dataset
from tfperf.workloads.pdf.operators.folding import FoldedPoints, fold_points
from tfperf.workloads.pdf.operators.hadronic import HadronicCore, compute_jacobian, factorise, reduce_observables
from tfperf.workloads.pdf.operators.observables import Observables, compile_observables
from tfperf.workloads.pdf.operators.problem import Memo, Problem
from tfperf.workloads.pdf.operators.products import read_columns
from tfperf.workloads.pdf.operators.reduction import Basis, build_balanced_basis, estimate_chi2_error, find_rank
from tfperf.workloads.pdf.operators.threads import one_thread
from tfperf.workloads.pdf.operators.woodbury import Whitening

SAFETY = 0.5  # of the tolerance: fitted PDFs are not the samples
HADRONIC_SLACK = 10.0  # a fit to real tables errs 20 to 30 times less than this estimate
REFERENCES = 16  # PDFs around which hadronic predictions are taken as linear


@dataclass(frozen=True)
class PointConstants:
    """Points whose residuals are made in every step, all arrays in the order of training.

    data (R, n), central (n) and factor (n) in which predictions are multiplied: units of the error, times root_weight.
    """

    observables: Observables
    whitening: Whitening
    data: Float64Array
    central: Float64Array
    training: BoolMask  # (R, n)
    factor: Float64Array
    root_weight: Float64Array
    core: HadronicCore | None = None  # makes the raw predictions that no product makes


@dataclass(frozen=True)
class LossConstants:
    """What the losses are made of; restrict (k, 8 X): x f -> the p_k of `folded`."""

    points: PointConstants
    folded: FoldedPoints | None = None
    restrict: Float64Array | None = None


def is_linear(dataset: Dataset) -> bool:
    """True for predictions that are linear in the PDFs."""
    return dataset.operation == "NULL" and not dataset.tables[0].hadronic


def build_linear_operator(datasets: Sequence[Dataset], nodes: int) -> Float64Array:
    """Tables of linear sets over all fitted flavours and nodes, (n, 8 X)."""
    tables = []
    for dataset in datasets:
        out = np.zeros((len(dataset.cv), len(FITTED), nodes))
        for (f,), column in read_columns(dataset.tables[0], nodes).items():
            out[:, f] = column
        tables.append(out.reshape(len(out), -1))
    return np.concatenate(tables) if tables else np.zeros((0, len(FITTED) * nodes))


def make_linear_mask(problem: Problem) -> BoolMask:
    """Which points (N) belong to linear sets."""
    return np.concatenate([np.full(len(d.cv), is_linear(d)) for d in problem.datasets])


def truncate_whitening(problem: Problem, dtype: type[np.floating] = np.float64) -> Whitening:
    """The covariance of the fit in the problem's blocks, exact to the rounding of `dtype`."""
    return problem.whitening.truncate(dtype)


@one_thread
def build_shared(problem: Problem, dtype: type[np.floating]) -> LossConstants:
    """Every point on its own."""
    every = np.ones(len(problem.central), bool)
    return LossConstants(_make_points(problem, every, problem.observables, truncate_whitening(problem, dtype)))


def is_hadronic(dataset: Dataset) -> bool:
    """True for predictions that are bilinear in the PDFs, or an operation between such."""
    return dataset.tables[0].hadronic


@one_thread
def build_folded(
    problem: Problem, dtype: type[np.floating], basis: Basis, hadronic: Basis | None = None, tolerance: float = 0.0
) -> LossConstants:
    """Linear points folded over `basis`; with another one hadronic points go over a core."""
    white, linear = truncate_whitening(problem, dtype), make_linear_mask(problem)
    operator = build_linear_operator([d for d in problem.datasets if is_linear(d)], problem.observables.nodes)
    factor = (white.inverse_sigma * problem.root_weight)[linear]
    operator = (operator * factor[:, None]) @ basis.extend
    small = fold_points(
        white, linear, operator, problem.data[:, linear] * factor, problem.training,
        max(0.1 * tolerance, float(np.finfo(dtype).eps) / 2),
    )  # fmt: skip
    rest = [i for i, d in enumerate(problem.datasets) if not is_linear(d)]
    number = {i: k for k, i in enumerate(rest)}
    blocks = [[number[i] for i in block if i in number] for block in problem.blocks]
    is_watched = problem.observables.has_watched_denominators

    def compile_rest() -> Observables:
        found = compile_observables(
            [problem.datasets[i] for i in rest], problem.pack.positivity, problem.observables.nodes,
            [b for b in blocks if b],
        )  # fmt: skip
        return found.watch_denominators(compute_toy_pdf(problem.pack.x)) if is_watched else found

    observables = problem.memo.get("rest", (problem.datasets, problem.pack, is_watched), compile_rest)
    points = _make_points(problem, ~linear, observables, small.rest)
    if hadronic is not None:
        points = _add_core(
            problem.memo,
            points,
            [is_hadronic(problem.datasets[i]) for i in rest],
            [len(problem.datasets[i].cv) for i in rest],
            hadronic,
            tolerance,
        )
    return LossConstants(points, small, basis.restrict)


def _add_core(
    memo: Memo, points: PointConstants, which: Sequence[bool], sizes: Sequence[int], basis: Basis, tolerance: float
) -> PointConstants:
    """Points whose datasets `which` go over a core; `sizes` are those of the datasets."""
    observables = points.observables
    mine = np.repeat(which, sizes)[observables.order]
    ends = np.cumsum([0, *(t.rows[0].stop - t.rows[0].start for t in observables.segments)])
    own = [(s, slice(a, b)) for s, (a, b) in zip(observables.segments, pairwise(ends), strict=True) if mine[a]]
    plain = [(s.rows[0], where) for s, where in own if s.operation == "NULL"]
    direct = [rows for s, _ in own if s.operation != "NULL" for rows in s.rows]
    inverse_errors = np.concatenate([np.zeros(0), *(points.factor[where] for _, where in plain)])
    # a tenth of the tolerance is left to it, for the smaller half of the points
    half = min(points.training[:, mine].sum(axis=1).mean(), (~points.training[:, mine]).sum(axis=1).mean())
    negligible = 0.1 * tolerance * max(half, 1.0) / 2
    outputs = [rows for rows, _ in plain]
    directions = memo.get(
        "directions",
        (observables, basis.extend, inverse_errors),
        lambda: factorise(observables, outputs, direct, basis, inverse_errors),
    )
    left, core = reduce_observables(observables, outputs, direct, basis, directions, negligible)
    return replace(points, observables=left, core=core)


def _make_points(problem: Problem, which: BoolMask, observables: Observables, whitening: Whitening) -> PointConstants:
    rows = np.flatnonzero(which)[observables.order]
    ordered = whitening.reorder(observables.order)
    weight = problem.root_weight[rows]
    factor = ordered.inverse_sigma * weight
    return PointConstants(
        observables, ordered, problem.data[:, rows] * factor, problem.central[rows] * factor,
        problem.training[:, rows], factor, weight,
    )  # fmt: skip


@one_thread
def build_linear_basis(problem: Problem, samples: Float64Array, tolerance: float) -> tuple[Basis, int]:
    """All directions that linear points can tell apart, and how many keep chi2 per point within the tolerance.

    By samples (S, 8, X): half of them make the basis, the others choose the rank, for the smaller half of the points.
    Tolerance 0 takes all.
    """
    linear = make_linear_mask(problem)
    operator = build_linear_operator([d for d in problem.datasets if is_linear(d)], problem.observables.nodes)
    return _build_basis(problem, samples, linear, [problem.whitening.whiten(operator, linear)], tolerance)


@one_thread
def build_hadronic_basis(problem: Problem, samples: Float64Array, tolerance: float) -> tuple[Basis, int]:
    """The same for hadronic points, linear around some of the samples; fitted PDFs err far less than samples do."""
    which = np.concatenate([np.full(len(d.cv), is_hadronic(d)) for d in problem.datasets])
    found = np.empty((REFERENCES, which.sum(), samples[0].size))
    for i, pdf in enumerate(samples[:: max(1, len(samples) // REFERENCES)][:REFERENCES]):
        slope = np.empty((len(which), pdf.size))
        slope[problem.observables.order] = compute_jacobian(problem.observables, pdf)
        found[i] = slope[which]
    # a sample next to a pole of a ratio must not decide alone
    size = np.linalg.norm(found, axis=2)
    found *= np.minimum(1, 3 * np.median(size, axis=0) / np.maximum(size, np.finfo(float).tiny))[..., None]
    whitened = list(problem.whitening.whiten(found, which))
    return _build_basis(problem, samples, which, whitened, HADRONIC_SLACK * tolerance)


def _build_basis(
    problem: Problem, samples: Float64Array, which: BoolMask, operators: Sequence[Float64Array], tolerance: float
) -> tuple[Basis, int]:
    """The basis for whitened operators around different PDFs, and the sufficient rank."""
    made, tested = samples[::2], samples[1::2].reshape(len(samples[1::2]), -1)
    # no more rows than columns: what is lost has the same size, in a fraction of the time
    operators = [np.asarray(np.linalg.qr(a, mode="r")) if len(a) > 2 * a.shape[1] else a for a in operators]
    gram = sum(a.T @ a for a in operators) / len(operators)
    basis = build_balanced_basis(made, problem.pack.x[: problem.observables.nodes], np.asarray(gram))
    training = problem.training[:, which]
    points = max(1.0, min(training.sum(axis=1).mean(), (~training).sum(axis=1).mean()))

    def estimate_errors(rank: int) -> Float64Array:
        lost = basis.truncate(rank).compute_remainder(tested)
        each = [estimate_chi2_error(lost[i :: len(operators)] @ a.T, points) for i, a in enumerate(operators)]
        return np.concatenate(each)

    return basis, basis.rank if tolerance == 0 else find_rank(estimate_errors, basis.rank, SAFETY * tolerance)
