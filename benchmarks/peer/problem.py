"""Synthetic fit problems of realistic shape, NumPy only, fixed seed: `dis` (1300 points) and `global` (4600 points).

The tables are noisy on purpose: they have full rank, so the problems test exact contraction and not rank reduction.
A problem is a mapping of arrays. X = 50 grid nodes, N points of a set or experiment, R_MAX = 100 replicas:

    xgrid                       (X) shared by every table
    meta                        experiments: name, ndata, datasets (each name, kind, ndata, basis);
                                penalties: as a dataset, with integrability and lambda
    fk/<dataset>                float32, DIS (N, F, X), basis: FK-basis indices f of the active flavours, ascending;
                                DY (N, C, X, X), basis: 14 f + g of the active channels, ascending
    exp/<experiment>/data0      (N) central data, in the unit of the predictions
    exp/<experiment>/data       (R_MAX, N) the replicas' own data
    exp/<experiment>/trmask     (R_MAX, N) True: trains, False: validates
    exp/<experiment>/stat, sys  (N), (N, 3) errors
    exp/<experiment>/cov        (N, N) = diag(stat^2) + sys sys^T

Prediction: DIS y[n] = sum over F, x of fk[n, F, x] p[x, f];
DY y[n] = sum over C, x, z of fk[n, C, x, z] p[x, f] p[z, g].
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Float64Array = NDArray[np.float64]  # as in tfperf/arrays.py: the environment of the peer has no tfperf
Problem = dict[str, Any]

FORM = 1  # of the generated numbers; raise it when they change
SIZES = ("dis", "global")
R_MAX = 100
NX, NFL = 50, 14
SEED = 20250
TRAINING_SHARE = 0.75

DIS_LAYOUT = {
    "NMC": [121, 139], "SLAC": [34, 33], "BCDMS": [233, 140],
    "CHORUS": [150, 150], "NTV": [39, 37], "HERA": [110, 114],
}  # 12 datasets, 1300 points  # fmt: skip
GLOBAL_DIS = {
    "NMC": [121, 204], "SLAC": [34, 33], "BCDMS": [333, 248], "CHORUS": [416, 416],
    "NTV": [39, 37], "HERA": [159, 204, 254, 70, 37, 42, 39, 74],
}  # 18 datasets, 2760 points  # fmt: skip
GLOBAL_DY = {
    "DYFT": [85, 89, 15], "TEV": [28, 28, 9, 10],
    "ATLAS": [34, 30, 22, 11, 15, 15, 48, 64, 44, 30, 170, 90, 53, 15, 59],
    "CMS": [11, 11, 110, 22, 28, 54, 185, 25, 20, 16, 7, 11, 10, 10, 100],
    "LHCB": [9, 17, 29, 30, 31, 16, 15, 50, 59],
}  # 46 datasets, 1840 points  # fmt: skip
POSITIVITY = {**dict.fromkeys(["POSF2U", "POSF2D", "POSF2S", "POSFLL", "POSXGL"], "DIS"), "POSDYU": "DY"}
POSITIVITY_POINTS = 20
INTEGRABILITY = {"INTEGXT8": 10, "INTEGXT3": 9}  # name -> FK-basis index
LEADING = (1 * NFL + 1, 1 * NFL + 2, 2 * NFL + 1, 2 * NFL + 2)  # channels of Sigma and g


def make_xgrid() -> Float64Array:
    """The nodes (X): logarithmic below 0.1, linear above, the last one 1."""
    return np.concatenate([np.geomspace(2e-7, 0.1, 26)[:-1], np.linspace(0.1, 1.0, 25)])


def compute_toy_pdf(x: Float64Array) -> Float64Array:
    """x f(x) in the 14-flavour FK basis, (X, 14).

    Source: the initial conditions of the Les Houches benchmark, hep-ph/0204316, with some charm added.
    """
    uv = 5.107200 * x**0.8 * (1 - x) ** 3
    dv = 3.064320 * x**0.8 * (1 - x) ** 4
    g = 1.700000 * x**-0.1 * (1 - x) ** 5
    db = 0.1939875 * x**-0.1 * (1 - x) ** 6
    ub = (1 - x) * db
    s = sb = 0.2 * (ub + db)
    c = cb = 0.05 * (ub + db)
    u, d = uv + ub, dv + db
    sigma = u + ub + d + db + s + sb + c + cb
    v = uv + dv
    v3, v8, v15 = uv - dv, uv + dv, v
    t3 = u + ub - d - db
    t8 = u + ub + d + db - 2 * (s + sb)
    t15 = u + ub + d + db + s + sb - 3 * (c + cb)
    return np.stack([0 * x, sigma, g, v, v3, v8, v15, v, v, t3, t8, t15, sigma, sigma], axis=-1)


def predict(table: Float64Array, kind: str, basis: list[int], pdf: Float64Array) -> Float64Array:
    """Predictions of one table for one PDF (X, 14): (N)."""
    indices = np.asarray(basis)
    if kind == "DIS":
        return np.asarray(np.einsum("nFx,xF->n", table, pdf[:, indices]))
    luminosity = np.einsum("xF,yF->Fxy", pdf[:, indices // NFL], pdf[:, indices % NFL])
    return np.asarray(np.tensordot(table, luminosity, axes=3))


def invert_covariance(cov: Float64Array, mask: NDArray[np.bool_] | None = None) -> Float64Array:
    """Inverse of the (masked) covariance through its correlation matrix, as the peer's data layer makes it."""
    c = cov if mask is None else cov[mask].T[mask]
    d = 1 / np.sqrt(np.diag(c))
    return np.asarray(d[:, None] * np.linalg.inv(d[:, None] * c * d[None]) * d[None])


def generate(size: str) -> Problem:
    """The problem of one of SIZES; the same numbers every time."""
    rng = np.random.default_rng(SEED + (size == "global"))
    layout = [(e, "DIS", n) for e, n in (DIS_LAYOUT if size == "dis" else GLOBAL_DIS).items()]
    if size == "global":
        layout += [(e, "DY", n) for e, n in GLOBAL_DY.items()]
    problem: Problem = {"xgrid": make_xgrid(), "meta": {"experiments": [], "penalties": []}}
    for name, kind, sizes in layout:
        _add_experiment(problem, rng, name, kind, sizes)
    if size == "global":
        _add_penalties(problem, rng)
    return problem


def save_problem(problem: Problem, path: Path) -> None:
    """Write a problem to `path`."""
    with path.open("wb") as file:
        np.savez(file, **{**problem, "meta": np.array(json.dumps(problem["meta"]))})


def load_problem(path: Path) -> Problem:
    """Read a problem that `save_problem` wrote."""
    with np.load(path) as file:
        return {k: (json.loads(str(file[k])) if k == "meta" else file[k]) for k in file.files}


def _add_experiment(problem: Problem, rng: np.random.Generator, name: str, kind: str, sizes: list[int]) -> None:
    pdf = compute_toy_pdf(problem["xgrid"])
    datasets, predictions, masks = [], [], []
    for i, n in enumerate(sizes):
        entry = _add_table(problem, rng, f"{name}_{i}", kind, n)
        table = problem[f"fk/{entry['name']}"].astype(np.float64)
        predictions.append(predict(table, kind, entry["basis"], pdf))
        datasets.append(entry)
        masks.append(_sample_masks(rng, n))
    measured = _sample_measurement(rng, np.concatenate(predictions)) | {"trmask": np.concatenate(masks, axis=1)}
    problem.update({f"exp/{name}/{key}": value for key, value in measured.items()})
    problem["meta"]["experiments"].append({"name": name, "ndata": sum(sizes), "datasets": datasets})


def _sample_measurement(rng: np.random.Generator, truth: Float64Array) -> dict[str, Float64Array]:
    """Errors of 3 and 1-2 percent, central data and R_MAX replicas of them, drawn around the truth (N)."""
    n = len(truth)
    stat, sys = 0.03 * truth, np.stack([0.02 * truth * rng.uniform(0.5, 1.0, n) for _ in range(3)], axis=1)
    cov = np.diag(stat**2) + sys @ sys.T
    lower = np.linalg.cholesky(cov)
    data0 = truth + lower @ rng.standard_normal(n)
    data = data0 + rng.standard_normal((R_MAX, n)) @ lower.T
    return {"data0": data0, "cov": cov, "stat": stat, "sys": sys, "data": data}


def _sample_masks(rng: np.random.Generator, n: int) -> NDArray[np.bool_]:
    masks = np.zeros((R_MAX, n), bool)
    for mask in masks:
        mask[: int(TRAINING_SHARE * n)] = True
        rng.shuffle(mask)
    return masks


def _add_penalties(problem: Problem, rng: np.random.Generator) -> None:
    penalties = problem["meta"]["penalties"]
    for name, kind in POSITIVITY.items():
        entry = _add_table(problem, rng, name, kind, POSITIVITY_POINTS)
        penalties.append({**entry, "integrability": False, "lambda": 1e6})
    for name, flavour in INTEGRABILITY.items():
        table = np.zeros((1, 1, NX), np.float32)
        table[0, 0, 0] = 1.0
        problem[f"fk/{name}"] = table
        entry = {"name": name, "kind": "DIS", "ndata": 1, "basis": [flavour]}
        penalties.append({**entry, "integrability": True, "lambda": 1e2})


def _add_table(problem: Problem, rng: np.random.Generator, name: str, kind: str, n: int) -> dict[str, Any]:
    """Add a table of n points to the problem; returns its entry for `meta`."""
    basis = _sample_basis(rng, kind)
    make = _sample_dis_table if kind == "DIS" else _sample_dy_table
    problem[f"fk/{name}"] = make(rng, n, np.array(basis))
    return {"name": name, "kind": kind, "ndata": n, "basis": basis}


def _sample_basis(rng: np.random.Generator, kind: str) -> list[int]:
    """9 active flavours of 13 or 30-40 channels of 169; Sigma and g are always in."""
    if kind == "DIS":
        return sorted([1, 2, *rng.choice(np.arange(3, NFL), 7, replace=False).tolist()])
    pool = [f * NFL + g for f in range(1, NFL) for g in range(1, NFL) if f * NFL + g not in LEADING]
    return sorted([*LEADING, *rng.choice(pool, int(rng.integers(26, 37)), replace=False).tolist()])


def _compute_kernel(lx: Float64Array, centre: Float64Array, width: float) -> Float64Array:
    """Bumps in log x, cut off one unit below their centres, of sum one: (N, X)."""
    d = (lx[None] - centre[:, None]) / width
    k = np.exp(-0.5 * d**2) * (lx[None] >= centre[:, None] - 1.0)
    return np.asarray(k / k.sum(axis=1, keepdims=True))


def _sample_dis_table(rng: np.random.Generator, n: int, basis: NDArray[np.int64]) -> NDArray[np.float32]:
    lx = np.log(make_xgrid())
    centre = rng.uniform(np.log(1e-4), np.log(0.6), n)
    amp = np.where(np.isin(basis, [1, 2]), 1.0, 0.25) * rng.uniform(0.5, 1.5, len(basis))
    k = _compute_kernel(lx, centre, 0.8)
    noise = rng.uniform(0.7, 1.3, (n, len(basis), NX))
    return np.asarray(amp[None, :, None] * k[:, None, :] * noise, np.float32)


def _sample_dy_table(rng: np.random.Generator, n: int, basis: NDArray[np.int64]) -> NDArray[np.float32]:
    lx = np.log(make_xgrid())
    y = rng.uniform(-2.0, 2.0, n)
    tau = rng.uniform(np.log(1e-3), np.log(0.1), n)
    first = _compute_kernel(lx, np.minimum(tau / 2 + y / 2, np.log(0.7)), 0.7)
    second = _compute_kernel(lx, np.minimum(tau / 2 - y / 2, np.log(0.7)), 0.7)
    amp = np.where(np.isin(basis, LEADING), 1.0, 0.1) * rng.uniform(0.5, 1.5, len(basis))
    out = np.empty((n, len(basis), NX, NX), np.float32)
    for i in range(n):
        noise = rng.uniform(0.7, 1.3, (len(basis), NX, NX)).astype(np.float32)
        out[i] = amp[:, None, None] * (first[i][:, None] * second[i][None, :])[None] * noise
    return out
