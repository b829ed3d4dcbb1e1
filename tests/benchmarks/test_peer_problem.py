"""The synthetic problems, their cache, and the cut of real tables to what they use."""

import numpy as np
import pytest

from benchmarks.peer import cache, layers_side, problem
from tfperf.errors import StorageError


@pytest.fixture(scope="module")
def dis():
    return problem.generate("dis")


@pytest.mark.parametrize("kind, shape, basis", [("DIS", (4, 2, 5), [1, 9]), ("DY", (4, 3, 5, 5), [15, 30, 40])])
def test_predictions_are_the_written_sums(kind, shape, basis):
    rng = np.random.default_rng(0)
    table, pdf = rng.normal(size=shape), rng.normal(size=(5, 14))
    want = np.zeros(4)
    for n, c, *nodes in np.ndindex(*shape):
        flavours = [basis[c]] if kind == "DIS" else divmod(basis[c], 14)
        want[n] += table[n, c, *nodes] * np.prod([pdf[x, f] for x, f in zip(nodes, flavours, strict=True)])
    np.testing.assert_allclose(problem.predict(table, kind, basis, pdf), want, rtol=1e-13)


def test_a_problem_is_the_same_every_time_and_consistent(dis):
    again = problem.generate("dis")
    assert dis.keys() == again.keys() and all(np.array_equal(dis[k], again[k]) for k in dis if k != "meta")
    assert dis["meta"] == again["meta"]
    assert sum(e["ndata"] for e in dis["meta"]["experiments"]) == 1300
    for e in dis["meta"]["experiments"]:
        data0, stat, sys, cov, data, mask = (
            dis[f"exp/{e['name']}/{k}"] for k in ("data0", "stat", "sys", "cov", "data", "trmask")
        )
        np.testing.assert_allclose(cov, np.diag(stat**2) + np.einsum("ik,jk->ij", sys, sys), rtol=1e-14)
        assert np.all(mask.sum(axis=1) == sum(int(0.75 * d["ndata"]) for d in e["datasets"]))
        # chi2 of a replica's data around the central data has expectation n and variance 2 n, here over 100 replicas
        pulls = np.linalg.solve(np.linalg.cholesky(cov), (data - data0).T)
        n = len(data0)
        assert abs(np.mean(np.sum(pulls**2, axis=0)) - n) < 5 * np.sqrt(2 * n / problem.R_MAX)


def test_the_inverse_covariance_is_that_of_the_masked_points(dis):
    cov, mask = dis["exp/SLAC/cov"], dis["exp/SLAC/trmask"][3]
    identity = problem.invert_covariance(cov, mask) @ cov[np.ix_(mask, mask)]
    np.testing.assert_allclose(identity, np.eye(mask.sum()), atol=1e-9)


def test_a_problem_is_generated_once_and_read_back(dis, tmp_path, monkeypatch):
    monkeypatch.setenv("TFPERF_CACHE", str(tmp_path / "new"))
    first = cache.load_problem("dis")
    monkeypatch.setattr(problem, "generate", lambda size: pytest.fail("generated again"))
    second = cache.load_problem("dis")
    for found in (first, second):
        assert found.keys() == dis.keys() and found["meta"] == dis["meta"]
        assert all(found[k].dtype == dis[k].dtype and np.array_equal(found[k], dis[k]) for k in dis if k != "meta")


def test_a_problem_that_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    def full_disk(found, path):
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setenv("TFPERF_CACHE", str(tmp_path))
    monkeypatch.setattr(problem, "save_problem", full_disk)
    with pytest.raises(StorageError, match=r"no space left on the device.*no part of it was left behind"):
        cache.make_problem_file("dis")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("hadronic", [False, True])
def test_a_cut_table_predicts_what_the_whole_one_does(hadronic):
    rng = np.random.default_rng(1)
    x, channels = np.geomspace(1e-3, 1, 6), np.array([40, 16, 15, 30]) if hadronic else np.array([9, 2, 1, 4])
    table = rng.normal(size=(3, 4, 6, 6) if hadronic else (3, 4, 6))
    table[:, 2] = 0.0
    table[:, :, [0, 3]] = 0.0
    if hadronic:
        table[:, :, :, [0, 1]] = 0.0  # node 1 has entries on the first leg only: it stays, for both
    cut, nodes, basis = layers_side.trim_table(table, channels, x)
    assert basis == sorted(basis) and channels[2] not in basis and len(basis) == 3
    assert nodes.tolist() == x[[1, 2, 3, 4, 5] if hadronic else [1, 2, 4, 5]].tolist()
    pdf, kind = rng.normal(size=(6, 14)), "DY" if hadronic else "DIS"
    want = problem.predict(table, kind, channels.tolist(), pdf)
    np.testing.assert_allclose(problem.predict(cut, kind, basis, pdf[np.isin(x, nodes)]), want, rtol=1e-12)
