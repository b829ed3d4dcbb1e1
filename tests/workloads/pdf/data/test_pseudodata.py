from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi2

from tests import reference
from tests.make_pack import make_pack
from tests.workloads.pdf.data.test_covariance import write_extra
from tfperf.data.keys import Purpose, make_generator
from tfperf.errors import PackError
from tfperf.workloads.pdf.data.closure import replace_data
from tfperf.workloads.pdf.data.covariance import compute_extra_root, make_slices
from tfperf.workloads.pdf.data.pack import list_sets, open_pack, read_dataset
from tfperf.workloads.pdf.data.pseudodata import sample_pseudodata
from tfperf.workloads.pdf.data.splits import choose_fraction, sample_split


@pytest.fixture(scope="module")
def datasets(tmp_path_factory):
    path = make_pack(tmp_path_factory.mktemp("pack") / "pack.h5")
    with open_pack(path) as file:
        return [read_dataset(file, n) for n in list_sets(file)]


def draws(datasets, count, seed=1):
    return np.stack([sample_pseudodata(datasets, make_generator(seed, i, Purpose.NOISE)) for i in range(1, count + 1)])


def test_pseudodata_have_the_experimental_covariance(datasets):
    count = 4000
    values = draws(datasets, count)
    want = reference.covariance(datasets)
    scale = np.sqrt(np.diag(want))
    # an entry of a sample correlation matrix scatters by at most 1/sqrt(n); products of the two kinds of error add
    # terms of the order of the square of relative errors, here at most 3 % each
    got = np.cov(values.T) / np.outer(scale, scale)
    assert np.abs(got - want / np.outer(scale, scale)).max() < 5 / np.sqrt(count) + 0.01
    mean = (values.mean(axis=0) - np.concatenate([d.cv for d in datasets])) / scale
    assert np.abs(mean).max() < 5 / np.sqrt(count)


def make_theory(datasets):
    """5 % of all points together, and 3 % of each set apart."""
    central = np.concatenate([d.cv for d in datasets])
    columns = np.zeros((len(central), 1 + len(datasets)))
    columns[:, 0] = 0.05 * central
    for number, rows in enumerate(make_slices(datasets), 1):
        columns[rows, number] = 0.03 * central[rows]
    return columns @ columns.T


def check_moments(values, mean, covariance):
    """chi2 tests of the mean and of the covariance of draws (n, N); normal ones pass 999 times of 1000 each."""
    n, size = values.shape
    lower = np.linalg.cholesky(covariance)
    white = np.linalg.solve(lower, (values - mean).T)
    moved = n * float((white.mean(axis=1) ** 2).sum())
    entries = n * (np.cov(white, ddof=0) - np.eye(size)) ** 2 / (1 + np.eye(size))
    spread = float(np.tril(entries).sum())
    assert chi2.sf(moved, size) > 1e-3 and chi2.sf(spread, size * (size + 1) // 2) > 1e-3, (moved, spread, size)


def test_pseudodata_fluctuate_by_the_theory_too(datasets, tmp_path):
    theory = make_theory(datasets)
    root = compute_extra_root(write_extra(tmp_path / "theory.h5", datasets, theory), datasets)
    np.testing.assert_allclose(root @ root, theory, atol=1e-12 * theory.max())
    np.testing.assert_allclose(root, root.T, atol=1e-13 * np.abs(root).max())
    small = [replace(d, sys=0.1 * d.sys) for d in datasets]  # products of errors are beyond a covariance
    generators = (make_generator(1, i, Purpose.NOISE) for i in range(1, 1001))
    values = np.stack([sample_pseudodata(small, one, root) for one in generators])
    central = np.concatenate([d.cv for d in datasets])
    check_moments(values, central, reference.covariance(small) + theory)
    with pytest.raises(AssertionError):
        check_moments(draws(small, 1000), central, reference.covariance(small) + theory)


def test_the_truth_of_a_closure_test_of_level_2_fluctuates_by_the_theory_too(datasets, tmp_path):
    theory = make_theory(datasets)
    root = compute_extra_root(write_extra(tmp_path / "theory.h5", datasets, theory), datasets)
    small = [replace(d, sys=0.1 * d.sys) for d in datasets]
    truth = [1.02 * d.cv for d in datasets]  # so near that errors relative to it are still small

    def sample(one):
        """Of 1000 closure tests, each with a noise of its own, the data of the whole."""
        generators = (make_generator(noise, 0, Purpose.TRUTH) for noise in range(1000))
        return np.stack([np.concatenate([d.cv for d in replace_data(small, truth, rng, one)]) for rng in generators])

    covariance = reference.covariance(replace_data(small, truth, None)) + theory
    check_moments(sample(root), np.concatenate(truth), covariance)
    with pytest.raises(AssertionError):
        check_moments(sample(None), np.concatenate(truth), covariance)


def test_noise_of_the_data_is_the_same_with_that_of_the_theory(datasets, tmp_path):
    additive = [replace(d, sys_is_mult=np.zeros_like(d.sys_is_mult)) for d in datasets]
    root = compute_extra_root(write_extra(tmp_path / "theory.h5", datasets, make_theory(datasets)), datasets)
    plain, more = (sample_pseudodata(additive, make_generator(1, 1, Purpose.NOISE), one) for one in (None, root))
    assert np.all(plain != more)
    rng = make_generator(1, 1, Purpose.NOISE)
    sample_pseudodata(additive, rng)
    np.testing.assert_allclose(more - plain, root @ rng.standard_normal(len(plain)), rtol=1e-9, atol=1e-12)


def test_replica_has_the_same_noise_whatever_else_is_drawn(datasets):
    alone = sample_pseudodata(datasets, make_generator(1, 17, Purpose.NOISE))
    np.testing.assert_array_equal(draws(datasets, 20)[16], alone)
    assert not np.array_equal(alone, sample_pseudodata(datasets, make_generator(2, 17, Purpose.NOISE)))
    assert not np.array_equal(alone, sample_pseudodata(datasets, make_generator(1, 18, Purpose.NOISE)))


def test_streams_differ_by_purpose_and_attempt():
    firsts = {make_generator(1, 5, p, a).random() for p in Purpose for a in (0, 1)}
    assert len(firsts) == 2 * len(Purpose)


def test_draw_with_a_negative_cross_section_is_drawn_again(datasets):
    wide = [replace(d, stat=np.abs(d.cv) * 0.4) for d in datasets]
    values = draws(wide, 30)
    positive = np.concatenate([np.full(len(d.cv), d.operation != "ASY") for d in wide])
    assert values[:, positive].min() >= 0
    hopeless = [replace(d, stat=np.abs(d.cv) * 20) for d in datasets]
    with pytest.raises(PackError, match="1000 draws in a row"):
        sample_pseudodata(hopeless, make_generator(1, 1, Purpose.NOISE))


def test_split_takes_the_fraction_of_each_set_and_all_of_a_small_one_that_has_none_of_its_own():
    sizes = [40, 9, 10, 9]
    fractions = [choose_fraction(n, own, 0.75) for n, own in zip(sizes, (None, None, 0.33, 0.5), strict=True)]
    mask = sample_split(sizes, fractions, make_generator(1, 1, Purpose.SPLIT))
    assert [mask[:40].sum(), mask[40:49].sum(), mask[49:59].sum(), mask[59:].sum()] == [30, 9, 3, 4]
    other = sample_split(sizes, fractions, make_generator(1, 2, Purpose.SPLIT))
    assert not np.array_equal(mask, other)


def test_split_never_leaves_a_set_without_training_points():
    assert sample_split([10], [0.01], make_generator(1, 1, Purpose.SPLIT)).sum() == 1
