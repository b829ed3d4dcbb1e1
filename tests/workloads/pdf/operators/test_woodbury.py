import numpy as np
import pytest

from tests import reference
from tests.make_pack import make_pack
from tfperf.errors import PackError
from tfperf.workloads.pdf.data.covariance import CovarianceMatrix, compute_covariance, make_slices
from tfperf.workloads.pdf.data.pack import list_sets, open_pack, read_dataset
from tfperf.workloads.pdf.operators.woodbury import build_whitening, find_components


@pytest.fixture(scope="module")
def ordered(tmp_path_factory):
    path = make_pack(tmp_path_factory.mktemp("pack") / "pack.h5")
    with open_pack(path) as file:
        datasets = [read_dataset(file, n) for n in list_sets(file)]
    components = find_components(compute_covariance(datasets).columns, make_slices(datasets))
    return components, [datasets[i] for g in components for i in g]


def by_name(datasets):
    return dict(zip([d.name for d in datasets], make_slices(datasets), strict=True))


def test_sets_that_share_a_systematic_form_one_group(ordered):
    components, datasets = ordered
    names = iter(d.name for d in datasets)
    found = [{next(names) for _ in g} for g in components]
    # AAA_F2 and AAA_FL share LUMI_A, AAA_F2 and CCC_ADD share NORM
    assert {"AAA_F2", "AAA_FL", "CCC_ADD"} in found
    assert {"BBB_RATIO"} in found and {"CCC_ASY"} in found


def test_masked_chi2_is_that_of_the_dense_submatrix(ordered):
    _, datasets = ordered
    covariance, sets = compute_covariance(datasets), by_name(datasets)
    dense = reference.covariance(datasets)
    rng = np.random.default_rng(0)
    masks = (rng.random((5, len(dense))) < 0.7).astype(float)
    residual = rng.normal(size=masks.shape) * np.sqrt(np.diag(dense))
    want = [reference.chi2(r, dense, m > 0) for r, m in zip(residual, masks, strict=True)]
    np.testing.assert_allclose(build_whitening(covariance, sets).compute_chi2(residual, masks), want, rtol=1e-12)


@pytest.mark.parametrize("share", [0.0, 1e-6])
def test_set_with_tiny_independent_errors_is_exact_too(share):
    rng = np.random.default_rng(2)
    n = 12
    own = np.linalg.cholesky(0.9 * np.exp(-np.abs(np.subtract.outer(range(n), range(n)))) + 0.1)
    common = rng.uniform(0.1, 0.3, (2 * n, 1))
    columns = np.hstack([np.vstack([own, np.zeros((n, n))]), common])
    diagonal = np.concatenate([np.full(n, share), rng.uniform(0.5, 1, n)])
    covariance = CovarianceMatrix(diagonal, columns)
    mask = (rng.random((1, 2 * n)) < 0.6).astype(float)
    residual = rng.normal(size=(1, 2 * n))
    want = reference.chi2(residual[0], covariance.to_dense(), mask[0] > 0)
    got = build_whitening(covariance, {"A": slice(0, n), "B": slice(n, 2 * n)}).compute_chi2(residual, mask)[0]
    assert got == pytest.approx(want, rel=1e-10)


def test_singular_covariance_is_refused():
    columns = np.ones((4, 1))
    with pytest.raises(PackError, match="AAA: its covariance is singular"):
        build_whitening(CovarianceMatrix(np.zeros(4), columns), {"AAA": slice(0, 4)})
    with pytest.raises(PackError, match="AAA: a point has no error at all"):
        build_whitening(CovarianceMatrix(np.array([0.0, 1.0]), np.zeros((2, 0))), {"AAA": slice(0, 2)})


def test_float32_drops_only_directions_below_its_rounding(ordered):
    _, datasets = ordered
    sets, plain = by_name(datasets), compute_covariance(datasets)
    small = np.sqrt(plain.diagonal)[:, None] * 1e-5 * np.random.default_rng(0).normal(size=(len(plain.diagonal), 3))
    covariance = CovarianceMatrix(plain.diagonal, np.hstack([plain.columns, small]))
    single, double = (build_whitening(covariance, sets, t) for t in (np.float32, np.float64))
    assert sum(b.u.shape[1] for b in single.blocks) < sum(b.u.shape[1] for b in double.blocks)
    residual = np.random.default_rng(1).normal(size=(3, len(plain.diagonal))) * np.sqrt(plain.diagonal)
    got, want = (whitening.compute_chi2(residual) for whitening in (single, double))
    np.testing.assert_allclose(got, want, rtol=float(np.finfo(np.float32).eps))


def test_whitened_changes_of_some_points_have_their_chi2_as_square(ordered):
    _, datasets = ordered
    dense, rng = reference.covariance(datasets), np.random.default_rng(3)
    which = rng.random(len(dense)) < 0.6
    change = rng.normal(size=(2, which.sum(), 3)) * np.sqrt(np.diag(dense))[which, None]
    got = build_whitening(compute_covariance(datasets), by_name(datasets)).whiten(change, which)
    every = np.zeros((2, len(dense), 3))
    every[:, which] = change
    want = [[reference.chi2(column, dense, which) for column in one.T] for one in every]
    np.testing.assert_allclose((got**2).sum(axis=1), want, rtol=1e-12)
