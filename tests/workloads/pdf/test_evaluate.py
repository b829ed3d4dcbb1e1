import numpy as np
import pytest

from tests import reference
from tfperf.workloads.pdf.data.covariance import CovarianceMatrix
from tfperf.workloads.pdf.mean_results import _compute_chi2, _compute_total_chi2
from tfperf.workloads.pdf.operators.woodbury import build_whitening, find_components

SETS = [slice(0, 4), slice(4, 9), slice(9, 11), slice(11, 14)]


@pytest.fixture(scope="module")
def covariance():
    """Sets 0 and 2 share a systematic, 1 and 3 another; set 1 has one of its own, and one column is empty."""
    rng = np.random.default_rng(3)
    columns = np.zeros((14, 4))
    for column, sets in enumerate([(0, 2), (1, 3), (1,)]):
        for i in sets:
            columns[SETS[i], column] = rng.uniform(0.5, 2, SETS[i].stop - SETS[i].start)
    return CovarianceMatrix(rng.uniform(0.5, 1, 14), columns)


def test_chi2_of_all_points_is_that_of_the_whole_matrix(covariance):
    assert find_components(covariance.columns, SETS) == [[0, 2], [1, 3]]
    residual = np.random.default_rng(4).normal(size=14)
    want = reference.chi2(residual, covariance.to_dense(), np.ones(14, bool))
    assert _compute_total_chi2(covariance, SETS, residual) == pytest.approx(want, rel=1e-12)


def test_chi2_of_a_set_is_that_of_its_own_block(covariance):
    residual = np.random.default_rng(5).normal(size=14)
    for rows in SETS:
        mask = np.zeros(14, bool)
        mask[rows] = True
        want = reference.chi2(residual, covariance.to_dense(), mask)
        assert _compute_chi2(covariance, rows, residual) == pytest.approx(want, rel=1e-12)


def test_points_without_systematics_are_independent():
    covariance = CovarianceMatrix(np.full(14, 4.0), np.zeros((14, 2)))
    assert _compute_total_chi2(covariance, SETS, np.full(14, 2.0)) == pytest.approx(14.0)


def test_what_is_not_finite_stays_with_its_replica(covariance):
    ordered = np.concatenate([np.arange(14)[SETS[i]] for i in (0, 2, 1, 3)])
    sets = {"a": slice(0, 6), "b": slice(6, 14)}
    white = build_whitening(CovarianceMatrix(covariance.diagonal[ordered], covariance.columns[ordered]), sets)
    residual = np.random.default_rng(6).normal(size=(3, 14))
    residual[1, 2] = np.nan
    for masks in (None, np.ones((3, 14))):
        chi2 = white.compute_chi2(residual, masks)
        assert np.isnan(chi2).tolist() == [False, True, False]
    assert np.isnan(_compute_total_chi2(covariance, SETS, residual[1]))
