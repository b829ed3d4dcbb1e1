"""The plain float64 form of the peer's losses: against loops, and against the peer itself where it is installed."""

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from benchmarks.peer import cache, problem, process, reference

ROOT = Path(__file__).parents[2]
R = 2


@pytest.fixture
def dump():
    """A dump like the peer's, with random weights and 400 nodes of the sum rules."""
    rng = np.random.default_rng(0)
    sizes = (2, 25, 20, 8)
    found = {}
    for i, (a, b) in enumerate(pairwise(sizes)):
        found |= {f"kernel{i}": rng.normal(size=(R, a, b)) / np.sqrt(a + b), f"bias{i}": rng.normal(size=(R, b)) / 10}
    rotation = np.zeros((8, 14))
    for column, flavour in {1: 0, 2: 1, 3: 2, 4: 3, 5: 4, 6: 2, 7: 2, 8: 2, 9: 5, 10: 6, 11: 7, 12: 0, 13: 0}.items():
        rotation[flavour, column] = 1.0
    nodes, weights = np.polynomial.legendre.leggauss(400)
    return found | {
        "alphas": rng.uniform(0.1, 0.9, (R, 8)), "betas": rng.uniform(1.5, 4.0, (R, 8)), "rotation": rotation,
        "x_integration": (1 + nodes) / 2, "weights_integration": weights / 2, "x_fit": problem.make_xgrid(),
        "meta": {"basis": "exp", "activations": ["tanh", "tanh", "linear"]},
    }  # fmt: skip


def small_problem():
    """Two sets of one experiment, a positivity and an integrability penalty."""
    rng = np.random.default_rng(1)
    found = {"xgrid": problem.make_xgrid(), "meta": {"experiments": [], "penalties": []}}
    problem._add_experiment(found, rng, "E", "DIS", [5, 7])
    problem._add_experiment(found, rng, "H", "DY", [4])
    problem._add_penalties(found, rng)
    return found


def test_sum_rules_hold(dump):
    x, weights = dump["x_integration"], dump["weights_integration"]
    p = reference.evaluate_pdf(dump, x)
    np.testing.assert_allclose((p[..., 1] + p[..., 2]) @ weights, 1.0, rtol=1e-10)
    numbers = p / x[:, None]
    for flavour, value in ((3, 3.0), (4, 1.0), (5, 3.0), (6, 3.0), (7, 3.0), (8, 3.0)):
        np.testing.assert_allclose(numbers[..., flavour] @ weights, value, rtol=1e-10)


def test_the_pdf_is_network_times_prefactor_up_to_its_normalisation(dump):
    x = np.array([1e-3, 0.3])
    p = reference.evaluate_pdf(dump, x)
    for r in range(R):
        for k, node in enumerate(x):
            h = np.array([node, np.log(node)])
            for i in range(3):
                h = h @ dump[f"kernel{i}"][r] + dump[f"bias{i}"][r]
                h = np.tanh(h) if i < 2 else h
            f = h * node ** (1 - dump["alphas"][r]) * (1 - node) ** dump["betas"][r]
            want = np.array([0, f[0], f[5], f[6], f[7], f[0], f[0]])
            np.testing.assert_allclose(p[r, k, [0, 1, 9, 10, 11, 12, 13]], want, rtol=1e-12, atol=1e-300)


def test_losses_are_the_written_formulas(dump):
    data = small_problem()
    dump |= {
        f"lambda/{p['name']}": np.array([10.0 if p["integrability"] else 184.8]) for p in data["meta"]["penalties"]
    }
    found, values = reference.evaluate_losses(dump, data), reference.evaluate_pdf(dump, problem.make_xgrid())
    for e in data["meta"]["experiments"]:
        y = [reference._predict_dataset(data, d, values) for d in e["datasets"]]
        for r in range(R):
            mask = data[f"exp/{e['name']}/trmask"][r]
            residual = np.concatenate([part[r] for part in y]) - data[f"exp/{e['name']}/data"][r]
            for split, m in (("training", mask), ("validation", ~mask)):
                cov = data[f"exp/{e['name']}/cov"][np.ix_(m, m)]
                want = residual[m] @ np.linalg.solve(cov, residual[m])
                np.testing.assert_allclose(found[f"loss/{split}/{e['name']}"][r], want, rtol=1e-9)
    positive = reference._predict_dataset(data, data["meta"]["penalties"][0], values)
    want = [sum(-184.8 * v if v < 0 else 1e-7 * (np.exp(-184.8 * v) - 1) for v in row) for row in positive]
    np.testing.assert_allclose(found["loss/validation/POSF2U"], want, rtol=1e-9)
    np.testing.assert_allclose(found["loss/training/INTEGXT8"], (10 * values[:, 0, 10]) ** 2, rtol=1e-12)
    assert "loss/validation/INTEGXT8" not in found
    total = sum(v for k, v in found.items() if k.startswith("loss/training/") and not k.endswith("total"))
    np.testing.assert_allclose(found["loss/training/total"], total, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.skipif(process.PEER_PYTHON not in os.environ, reason=f"{process.PEER_PYTHON} names no peer")
@pytest.mark.parametrize("precision, bound", [("float32", 1e-5), ("float64", 1e-11)])
def test_the_peers_own_losses_are_reproduced(tmp_path, monkeypatch, precision, bound):
    monkeypatch.setenv("TFPERF_CACHE", str(tmp_path))
    path, dump = cache.make_problem_file("dis"), tmp_path / "dump.npz"
    double = ["--double"] if precision == "float64" else []
    record = process.run_module(
        process.prepare_peer_python(), "benchmarks.peer.n3fit_side", "--problem", str(path), "--replicas", str(R),
        "--steps", "8", "--dump", str(dump), *double,
    )  # fmt: skip
    found = reference.read_dump(dump)
    assert found["meta"]["precision"] == precision and record["n_steps"] == 8
    assert record["loss_first"] == pytest.approx(found["loss/training/total"].sum(), rel=1e-6)
    worst = reference.compute_deviations(found, problem.load_problem(path))
    assert len(worst) == 15 and max(worst.values()) < bound, worst


def test_what_the_peers_process_takes_from_here_needs_numpy_and_h5py_at_most():
    code = (
        "import sys; import benchmarks.peer.layers_side, benchmarks.peer.n3fit_side, tfperf.measure.environment; "
        "print(sorted({m.split('.')[0] for m in sys.modules} & {'tensorflow', 'keras', 'pydantic', 'rich', 'click'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
