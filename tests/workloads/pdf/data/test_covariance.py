import os
from pathlib import Path

import h5py
import numpy as np
import pytest

from tests import reference
from tests.make_pack import make_pack
from tfperf.errors import PackError
from tfperf.workloads.pdf.data.covariance import add_extra, compute_covariance, make_slices
from tfperf.workloads.pdf.data.pack import list_sets, open_pack, read_dataset


@pytest.fixture(scope="module")
def datasets(tmp_path_factory):
    path = make_pack(tmp_path_factory.mktemp("pack") / "pack.h5")
    with open_pack(path) as file:
        return [read_dataset(file, n) for n in list_sets(file)]


@pytest.mark.parametrize("with_t0", [False, True])
def test_covariance_is_that_of_the_published_errors_point_by_point(datasets, with_t0):
    t0 = [d.t0 for d in datasets] if with_t0 else None
    want = reference.covariance(datasets, t0)
    got = compute_covariance(datasets, t0).to_dense()
    np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-15 * want.max())
    rows = dict(zip([d.name for d in datasets], make_slices(datasets), strict=True))
    a, b = rows["AAA_F2"], rows["AAA_FL"]
    assert np.abs(want[a, b]).max() > 0  # sets of one experiment are correlated


@pytest.mark.skipif("TFPERF_SHARED" not in os.environ, reason="TFPERF_SHARED names no folder with larger packs")
def test_covariance_is_that_of_nnpdf_for_real_data():
    with open_pack(Path(os.environ["TFPERF_SHARED"]) / "data" / "dis_nnlo.h5") as file:
        for name in list_sets(file):
            got, want = compute_covariance([read_dataset(file, name)]).to_dense(), file[name]["covmat"][:]
            scale = np.sqrt(np.diag(want))
            assert np.abs((got - want) / np.outer(scale, scale)).max() < 1e-14


def write_extra(path, datasets, covmat):
    with h5py.File(path, "w") as file:
        file["covmat"] = covmat
        file["sets"] = [d.name for d in datasets for _ in d.cuts]
        file["rows"] = np.concatenate([d.cuts for d in datasets])
    return path


def test_extra_covariance_is_added_whatever_the_order_of_its_points(datasets, tmp_path):
    plain = compute_covariance(datasets)
    n = len(plain.diagonal)
    v = np.random.default_rng(1).normal(size=(n, 3))
    path = write_extra(tmp_path / "extra.h5", datasets[::-1], (flip := _flip(v, datasets)) @ flip.T)
    np.testing.assert_allclose(add_extra(plain, path, datasets).to_dense(), plain.to_dense() + v @ v.T, atol=1e-12)


def _flip(v, datasets):
    return np.concatenate([v[s] for s in make_slices(datasets)[::-1]])


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda c: c[:-1, :-1], "shape"),
        (lambda c: c - 5 * np.eye(len(c)), "semidefinite"),
        (lambda c: c + np.triu(np.ones_like(c), 1), "symmetric"),
    ],
)
def test_faulty_extra_covariance_is_refused(datasets, tmp_path, spoil, words):
    n = sum(len(d.cv) for d in datasets)
    path = write_extra(tmp_path / "extra.h5", datasets, spoil(np.eye(n)))
    with pytest.raises(PackError, match=words):
        add_extra(compute_covariance(datasets), path, datasets)


def test_extra_covariance_without_a_fitted_point_is_refused(datasets, tmp_path):
    n = sum(len(d.cv) for d in datasets[1:])
    path = write_extra(tmp_path / "extra.h5", datasets[1:], np.eye(n))
    with pytest.raises(PackError, match=f"{len(datasets[0].cv)} fitted points are not there"):
        add_extra(compute_covariance(datasets), path, datasets)


HOSTILE = {
    "zeros": lambda f: f.create_dataset("covmat", (10**5, 10**5), chunks=(1000, 1000), compression="gzip"),
    "another shape": lambda f: f.update({"covmat": np.eye(3)}),
    "texts": lambda f: f.update({"covmat": np.full((2, 2), b"x")}),
    "large": lambda f: f.update({"covmat": np.full((2, 2), 1e300)}),
    "link": lambda f: f.update({"covmat": h5py.SoftLink("/rows")}),
    "elsewhere": lambda f: f.update({"covmat": h5py.ExternalLink("/dev/zero", "/x")}),
    "group": lambda f: f.create_group("covmat"),
    "nothing": lambda f: None,
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_covariance_that_claims_too_much_is_refused(datasets, tmp_path, what):
    with h5py.File(tmp_path / "extra.h5", "w") as file:
        file["sets"], file["rows"] = ["A", "A"], [0, 1]
        HOSTILE[what](file)
    with pytest.raises(PackError, match=r"extra\.h5: (covmat: |has no covmat)"):
        add_extra(compute_covariance(datasets), tmp_path / "extra.h5", datasets)


def test_a_covariance_that_is_no_file_is_refused(datasets, tmp_path):
    os.mkfifo(tmp_path / "extra.h5")
    with pytest.raises(PackError, match="it is a pipe"):
        add_extra(compute_covariance(datasets), tmp_path / "extra.h5", datasets)
