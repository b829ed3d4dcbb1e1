"""Small hadronic sets in memory, beside deep-inelastic ones, and their predictions the slow way."""

import numpy as np

from tfperf.data.pack import OPERATIONS, Dataset, PositivitySet, Table

FLAVOURS = ["photon", "sigma", "g", "v", "v3", "v8", "v15", "v24", "v35", "t3", "t8", "t15", "t24", "t35"]
SAME = {"v15": "v", "v24": "v", "v35": "v", "t24": "sigma", "t35": "sigma"}
FITTED = ["sigma", "g", "v", "v3", "v8", "t3", "t8", "t15"]
X = np.array([*np.geomspace(1e-4, 0.1, 6)[:-1], *np.linspace(0.1, 1, 6)])


def pairs_of(rng, count):
    every = [(FLAVOURS[a], FLAVOURS[b]) for a in range(14) for b in range(a, 14)]
    return [every[i] for i in rng.choice(len(every), count, replace=False)]


def table(rng, rows, channels, first=None):
    """Entries below a random first node of each row and leg are zero."""
    nodes, legs = len(X), len(channels[0])
    if legs == 1:
        values = rng.uniform(0.5, 1.5, (rows, nodes, len(channels)))
        for n in range(rows):
            values[n, : rng.integers(0, nodes - 1) if first is None else first] = 0
    else:
        values = rng.uniform(0.5, 1.5, (rows, len(channels), nodes, nodes))
        for n in range(rows):
            values[n, :, : rng.integers(0, nodes - 1)] = 0
            values[n, :, :, : rng.integers(0, nodes - 1)] = 0
    return Table(lambda: values, rows, tuple(channels))


def dataset(rng, name, operation, rows, hadronic, one_row=False):
    tables = []
    for k, _ in enumerate(OPERATIONS[operation]):
        channels = pairs_of(rng, 12) if hadronic else [(f,) for f in rng.choice(FLAVOURS, 9, replace=False)]
        tables.append(table(rng, 1 if one_row and k == 1 else rows, channels, first=0 if operation != "NULL" else None))
    none = np.zeros((rows, 0))
    stat = rng.uniform(0.1, 0.2, rows)
    return Dataset(
        name, operation, tuple(tables), rng.uniform(1, 2, rows), stat, none, (), np.zeros(0, bool), none, (),
        np.arange(rows), None,
    )  # fmt: skip


def sets(seed=5):
    """Deep-inelastic and hadronic sets, some with operations, and two positivity sets."""
    rng = np.random.default_rng(seed)
    datasets = [
        dataset(rng, "DIS", "NULL", 17, False), dataset(rng, "DY", "NULL", 9, True),
        dataset(rng, "DY_RATIO", "RATIO", 5, True, one_row=True), dataset(rng, "DIS_RATIO", "RATIO", 4, False),
        dataset(rng, "DY_ASY", "ASY", 6, True), dataset(rng, "DY2", "NULL", 7, True),
    ]  # fmt: skip
    positivity = [
        PositivitySet("POSF2", table(rng, 3, [("g",), ("t3",)])),
        PositivitySet("POSDY", table(rng, 4, pairs_of(rng, 8))),
    ]
    return datasets, positivity


def evaluate(one, pdf):
    """Raw predictions of a table for x f (8, X), over all 14 flavours, in float64."""
    named = dict(zip(FITTED, pdf, strict=True)) | {"photon": np.zeros(len(X))}
    named |= {k: named[v] for k, v in SAME.items()}
    values = one.values().astype(np.float64)
    if one.hadronic:
        return sum(np.einsum("nxz,x,z->n", values[:, c], named[a], named[b]) for c, (a, b) in enumerate(one.channels))
    return sum(values[:, :, c] @ named[f] for c, (f,) in enumerate(one.channels))


def predictions(datasets, pdf):
    """Predictions of all sets, one after the other."""
    out = []
    for d in datasets:
        t = [evaluate(one, pdf) for one in d.tables]
        out.append(
            {"NULL": lambda t: t[0], "RATIO": lambda t: t[0] / t[1], "ASY": lambda t: (t[0] - t[1]) / (t[0] + t[1])}[
                d.operation
            ](t)
        )
    return np.concatenate(out)


def pdf(rng, replicas=None):
    """x f (8, X), zero at x = 1; with replicas (R, 8, X)."""
    shape = (8, len(X)) if replicas is None else (replicas, 8, len(X))
    return rng.uniform(0.5, 1.5, shape) * (1 - X)
