"""Small hadronic sets in memory, beside deep-inelastic ones, and their predictions the slow way."""

from dataclasses import replace

import numpy as np

from tfperf.workloads.pdf.data.closure import compute_toy_pdf
from tfperf.workloads.pdf.data.pack import OPERATIONS, Dataset, PositivitySet, Table
from tfperf.workloads.pdf.data.write import StoredSet, write_pack

FLAVOURS = ["photon", "sigma", "g", "v", "v3", "v8", "v15", "v24", "v35", "t3", "t8", "t15", "t24", "t35"]
SAME = {"v15": "v", "v24": "v", "v35": "v", "t24": "sigma", "t35": "sigma"}
FITTED = ["sigma", "g", "v", "v3", "v8", "t3", "t8", "t15"]
# LUMI_A and LUMI_B are common to deep-inelastic and other sets, the rest stays inside its set
SYSTEMATICS = {
    "DIS": ("UNCORR", "CORR", "LUMI_A"), "DY": ("LUMI_A", "CORR"), "DY_RATIO": ("CORR", "CORR"),
    "DIS_RATIO": ("LUMI_B", "UNCORR"), "DY_ASY": (), "DY2": ("LUMI_B", "CORR", "LUMI_A"), "DIS2": ("CORR", "LUMI_B"),
}  # fmt: skip
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
    """Central values scatter around the predictions of the toy law."""
    tables = []
    channels = pairs_of(rng, 12) if hadronic else [(FLAVOURS[i],) for i in np.sort(rng.choice(14, 9, replace=False))]
    for k, _ in enumerate(OPERATIONS[operation]):
        tables.append(table(rng, 1 if one_row and k == 1 else rows, channels, first=0 if operation != "NULL" else None))
    if operation == "ASY":  # far from its pole
        large = 3 * tables[0].read_values()
        tables[0] = Table(lambda: large, rows, tables[0].channels)
    names = SYSTEMATICS[name]
    size = rng.uniform(1, 2, rows)
    bare = Dataset(
        name=name, operation=operation, tables=tuple(tables), cv=size, stat=size, sys=np.zeros((rows, 0)), sys_names=(),
        sys_is_mult=np.zeros(0, bool), kin=np.zeros((rows, 0)),
        kin_names=(), cuts=np.arange(rows), t0=None,
    )  # fmt: skip
    truth = predictions([bare], compute_toy_pdf(X))
    size = np.abs(truth)
    return replace(
        bare, cv=truth + 0.03 * size * rng.standard_normal(rows), stat=rng.uniform(0.02, 0.04, rows) * size,
        sys=rng.uniform(0.01, 0.04, (rows, len(names))) * size[:, None], sys_names=names,
        sys_is_mult=np.arange(len(names)) % 2 == 1, t0=truth * 1.02,
    )  # fmt: skip


def sets(seed=5) -> tuple[list[Dataset], list[PositivitySet]]:
    """Deep-inelastic and hadronic sets, some with operations, and two positivity sets."""
    rng = np.random.default_rng(seed)
    datasets = [
        dataset(rng, "DIS", "NULL", 17, False), dataset(rng, "DY", "NULL", 9, True),
        dataset(rng, "DY_RATIO", "RATIO", 5, True, one_row=True), dataset(rng, "DIS_RATIO", "RATIO", 4, False),
        dataset(rng, "DY_ASY", "ASY", 6, True), dataset(rng, "DY2", "NULL", 7, True),
        dataset(rng, "DIS2", "NULL", 8, False),
    ]  # fmt: skip
    positivity = [
        PositivitySet("POSF2", table(rng, 3, [("g",), ("t3",)])),
        PositivitySet("POSDY", table(rng, 4, pairs_of(rng, 8))),
    ]
    return datasets, positivity


def _axes(one):
    """`flav` or `channels` of a table as a pack has them."""
    numbers = np.array([[FLAVOURS.index(f) for f in channel] for channel in one.channels])
    return {"channels": numbers} if one.hadronic else {"flav": numbers[:, 0]}


def make_pack(path, seed=5):
    """Write the sets as a pack and return its path."""
    rng = np.random.default_rng(seed)
    datasets, positivity = sets(seed)
    groups = []
    for d in datasets:
        first, hadronic = d.tables[0], d.tables[0].hadronic
        kin = np.stack([rng.uniform(1e-2, 0.6, len(d.cv)), rng.uniform(30, 90, len(d.cv)), np.zeros(len(d.cv))], 1)
        arrays = dict(zip(OPERATIONS[d.operation], (t.read_values() for t in d.tables), strict=True)) | _axes(first)
        arrays |= {
            "cv": d.cv, "stat": d.stat, "sys": d.sys, "sys_names": np.array(d.sys_names, "S16"), "t0": d.t0,
            "sys_is_mult": d.sys_is_mult, "cuts": d.cuts, "kin": kin[:, :2] if hadronic else kin,
        }  # fmt: skip
        columns = ("rapidity", "mass") if hadronic else ("x", "Q2", "y")
        groups.append(StoredSet(d.name, arrays, {"operation": d.operation, "experiment": d.name[:3]}, columns))
    groups += [StoredSet(f"positivity/{p.name}", {"fk": p.table.read_values(), **_axes(p.table)}) for p in positivity]
    write_pack(path, X, {"Q0": 1.65, "provenance": "toy law"}, groups)
    return path


def evaluate(one, pdf):
    """Raw predictions of a table for x f (8, X), over all 14 flavours, in float64."""
    named = dict(zip(FITTED, pdf, strict=True)) | {"photon": np.zeros(len(X))}
    named |= {k: named[v] for k, v in SAME.items()}
    values = one.read_values().astype(np.float64)
    if one.hadronic:
        return sum(np.einsum("nxz,x,z->n", values[:, c], named[a], named[b]) for c, (a, b) in enumerate(one.channels))
    return sum(values[:, :, c] @ named[f] for c, (f,) in enumerate(one.channels))


DIVISORS = {"RATIO": (1,), "ASY": (0, 1), "SMN": (2, 3), "COM": range(10, 20)}  # tables that are added and divided by


def sum_negative_denominators(datasets, pdf, reference):
    """By how much denominators are below zero, in units of those of a reference, by slow sums."""
    total = 0.0
    for dataset in (one for one in datasets if one.operation in DIVISORS):
        tables = [dataset.tables[number] for number in DIVISORS[dataset.operation]]
        value, unit = (sum(evaluate(table, one) for table in tables) for one in (pdf, reference))
        unit = np.abs(unit)
        total += (np.maximum(0, -value) / np.maximum(unit, 1e-6 * unit.max())).sum()
    return total


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
