import numpy as np
import pytest

from tests import reference
from tests.make_pack import make_pack
from tfperf.data.keys import Purpose, make_generator
from tfperf.errors import PackError
from tfperf.workloads.pdf.data.pack import list_sets, open_pack, read_dataset
from tfperf.workloads.pdf.data.pseudodata import sample_pseudodata
from tfperf.workloads.pdf.data.splits import sample_split


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


def test_replica_has_the_same_noise_whatever_else_is_drawn(datasets):
    alone = sample_pseudodata(datasets, make_generator(1, 17, Purpose.NOISE))
    np.testing.assert_array_equal(draws(datasets, 20)[16], alone)
    assert not np.array_equal(alone, sample_pseudodata(datasets, make_generator(2, 17, Purpose.NOISE)))
    assert not np.array_equal(alone, sample_pseudodata(datasets, make_generator(1, 18, Purpose.NOISE)))


def test_streams_differ_by_purpose_and_attempt():
    firsts = {make_generator(1, 5, p, a).random() for p in Purpose for a in (0, 1)}
    assert len(firsts) == 2 * len(Purpose)


def test_draw_with_a_negative_cross_section_is_drawn_again(datasets):
    from dataclasses import replace

    wide = [replace(d, stat=np.abs(d.cv) * 0.4) for d in datasets]
    values = draws(wide, 30)
    positive = np.concatenate([np.full(len(d.cv), d.operation != "ASY") for d in wide])
    assert values[:, positive].min() >= 0
    hopeless = [replace(d, stat=np.abs(d.cv) * 20) for d in datasets]
    with pytest.raises(PackError, match="1000 draws in a row"):
        sample_pseudodata(hopeless, make_generator(1, 1, Purpose.NOISE))


def test_split_takes_the_fraction_of_each_set_and_all_of_a_small_one():
    mask = sample_split([40, 9, 10], [0.75, 0.75, 0.33], make_generator(1, 1, Purpose.SPLIT))
    assert [mask[:40].sum(), mask[40:49].sum(), mask[49:].sum()] == [30, 9, 3]
    other = sample_split([40, 9, 10], [0.75, 0.75, 0.33], make_generator(1, 2, Purpose.SPLIT))
    assert not np.array_equal(mask, other)


def test_split_never_leaves_a_set_without_training_points():
    assert sample_split([10], [0.01], make_generator(1, 1, Purpose.SPLIT)).sum() == 1
