"""Bases of PDFs against the best ones that there are, and ranks against trying them all."""

from itertools import pairwise

import numpy as np
import pytest

from tfperf.workloads.pdf.operators.reduction import (
    SMOOTH_AMPLITUDE,
    SMOOTH_LENGTH,
    STEP,
    build_balanced_basis,
    estimate_chi2_error,
    find_rank,
)

X = np.geomspace(1e-4, 0.9, 12)
FLAVOURS, POINTS = 4, 90
SIZE = FLAVOURS * len(X)


def _samples(rng, count):
    """Smooth functions of log x that are larger for the first flavours: (S, F, X)."""
    t = np.log(X)
    modes = np.stack([np.cos(k * np.pi * (t - t[0]) / np.ptp(t)) / (1 + k) ** 2 for k in range(8)])
    weights = rng.normal(size=(count, FLAVOURS, len(modes))) / np.arange(1, FLAVOURS + 1)[:, None]
    return weights @ modes


def _operator(rng):
    """Whitened predictions that see a window of x: (N, D)."""
    centre = rng.uniform(np.log(X[0]), 0, POINTS)
    window = np.exp(-0.5 * ((np.log(X) - centre[:, None]) / 1.5) ** 2)
    return (rng.normal(size=(POINTS, FLAVOURS, 1)) * window[:, None]).reshape(POINTS, SIZE)


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(0)
    samples, operator, tested = _samples(rng, 400), _operator(rng), _samples(rng, 200).reshape(200, SIZE)
    return samples, operator, build_balanced_basis(samples, X, operator.T @ operator), tested


def covariance(samples):
    """What the basis is made for, entry by entry: that of the samples and of smooth functions beside them."""
    out = np.zeros((SIZE, SIZE))
    size = np.sqrt((samples**2).mean(axis=0))
    for f in range(FLAVOURS):
        for i in range(len(X)):
            for j in range(len(X)):
                away = (np.log(X[i]) + 5 * X[i] - np.log(X[j]) - 5 * X[j]) / SMOOTH_LENGTH
                smooth = SMOOTH_AMPLITUDE**2 * np.exp(-(away**2) / 2) * size[f, i] * size[f, j]
                out[f * len(X) + i, f * len(X) + j] += smooth
    flat = samples.reshape(-1, SIZE)
    return out + sum(np.outer(p, p) for p in flat) / len(flat)


@pytest.mark.parametrize("rank", [1, 3, 10, 20])
def test_no_basis_of_that_rank_loses_less_of_the_predictions(case, rank):
    samples, operator, basis, _ = case
    # Eckart and Young: of A C^1/2 a product of that rank leaves at least the singular values beyond it
    root = np.linalg.cholesky(covariance(samples) + 1e-14 * np.eye(SIZE))
    singular = np.linalg.svd(operator @ root, compute_uv=False)
    first = basis.truncate(rank)
    assert first.rank == rank
    left = operator @ (np.eye(SIZE) - first.extend @ first.restrict) @ root
    assert (left**2).sum() == pytest.approx((singular[rank:] ** 2).sum(), rel=1e-6)


def test_error_falls_with_the_rank_to_nothing(case):
    _, operator, basis, tested = case
    errors = [
        np.median(estimate_chi2_error(basis.truncate(rank).compute_remainder(tested) @ operator.T, POINTS))
        for rank in range(1, basis.rank + 1)
    ]
    assert errors[0] > 1 and errors[STEP] < errors[0] / 100 and errors[3 * STEP] < errors[STEP] / 1000
    assert all(b <= a * 1.01 for a, b in pairwise(errors) if a > 1e-6)
    assert errors[-1] < 1e-6


def test_error_is_that_of_chi2_for_a_residual_in_the_same_direction():
    rng = np.random.default_rng(1)
    lost, points = rng.normal(size=(5, 30)), 30
    for d, error in zip(lost, estimate_chi2_error(lost, points), strict=True):
        residual = d / np.linalg.norm(d)  # of length 1: chi2 = 1, and as aligned as can be
        worst = np.sum((residual + d) ** 2) - np.sum(residual**2)
        assert error == pytest.approx(worst / points)


@pytest.mark.parametrize("tolerance", [1e-1, 1e-2, 1e-3, 1e-5, 1e-12, 0.0])
def test_rank_is_the_one_that_trying_them_all_finds(case, tolerance):
    _, operator, basis, tested = case

    def error(rank):
        return estimate_chi2_error(basis.truncate(rank).compute_remainder(tested) @ operator.T, POINTS)

    ranks = [*range(STEP, basis.rank, STEP), basis.rank]
    want = next((r for r in ranks if np.quantile(error(r), 0.95) <= tolerance), basis.rank)
    assert find_rank(error, basis.rank, tolerance) == want
