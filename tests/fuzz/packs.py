"""A data pack read with h5py and NumPy alone, as its layout says, and held against what a fit makes of it."""

from pathlib import Path

import h5py
import numpy as np

from tests.fuzz.hdf5 import edit
from tfperf.workloads.pdf.cards import load_card
from tfperf.workloads.pdf.inputs import read_inputs
from tfperf.workloads.pdf.operators.problem import build_problem

FITTED = ("sigma", "g", "v", "v3", "v8", "t3", "t8", "t15")
SAME = {"v15": "v", "v24": "v", "v35": "v", "t24": "sigma", "t35": "sigma"}
TABLES = {
    "NULL": ["fk"], "RATIO": ["fk_num", "fk_den"], "ASY": ["fk_a", "fk_b"], "ADD": ["fk_a", "fk_b"],
    "SMN": ["fk_a", "fk_b", "fk_c", "fk_d"], "COM": [f"fk_{c}" for c in "abcdefghijklmnopqrst"],
}  # fmt: skip
ROUNDING = 2e-6  # of sums over table entries in single precision, in units of the sum of their sizes


def text(value):
    return value.decode() if isinstance(value, bytes) else str(value)


def compare(card, steps):
    """Damage the pack of a card, then read both ways. Raises: UserError where tfperf refuses it."""
    card = Path(card)
    pack = card.with_name("pack.h5")
    edit(pack, steps)
    loaded = load_card(card)
    inputs = read_inputs(loaded)
    problem = build_problem(loaded, inputs.selection, (1, 2))
    with h5py.File(pack) as file, np.errstate(all="ignore"):
        hold(problem, file, loaded)


def hold(problem, file, card):
    """AssertionError where the problem is not what the file says."""
    wanted = [s.name for s in card.data.sets] or [n for n in file if n not in ("x", "positivity")]
    assert sorted(d.name for d in problem.datasets) == sorted(wanted)
    equal(problem.pack.x, file["x"], "x")
    assert problem.pack.q0 == float(file.attrs["Q0"])
    keep = {d.name: rows(file[d.name], card.data.cuts) for d in problem.datasets}
    for d in problem.datasets:
        group = file[d.name]
        for name in ("cv", "stat", "sys", "kin", "cuts"):
            equal(getattr(d, name), group[name][()][keep[d.name]], f"{d.name}/{name}")
        assert list(d.sys_names) == [text(one) for one in group["sys_names"][()]]
        equal(d.sys_is_mult, group["sys_is_mult"], f"{d.name}/sys_is_mult")
        assert d.operation == text(group.attrs["operation"])
    groups = [(d.name, file[d.name], keep[d.name]) for d in problem.datasets]
    close(problem.covariance.to_dense(), covariance(groups, card.data.t0 == "pack"), 1e-12)
    close(problem.covariance_no_t0.to_dense(), covariance(groups, False), 1e-12)
    equal(problem.central, np.concatenate([g["cv"][()].astype(float)[k] for _, g, k in groups]), "central")
    flavours = [text(f) for f in file.attrs["flavours"]]
    pdf = np.random.default_rng(1).uniform(0.5, 1.5, (8, len(problem.pack.x)))
    pdf[:, problem.pack.x == 1] = 0
    got = np.split(problem.observables.predict(pdf), np.cumsum([len(k) for *_, k in groups])[:-1])
    for (name, group, k), mine in zip(groups, got, strict=True):
        want, error = prediction(group, pdf, flavours)
        want, error = (np.broadcast_to(one, len(group["cv"]))[k] for one in (want, error))
        known = np.isfinite(want) & np.isfinite(error) & (error < 0.1 * np.abs(want))
        assert np.all(np.abs(mine - want)[known] <= error[known]), f"{name}: predictions {mine} for {want}"
    if "positivity" in file and card.positivity.sets == "all":
        # those of hadronic sets come last
        sets = sorted(file["positivity"].values(), key=lambda group: "channels" in group)
        found = [raw(group, "fk", pdf, flavours) for group in sets]
        want, error = (np.concatenate([one[i] for one in found]) if found else np.zeros(0) for i in range(2))
        # denominators of datasets, which come after them, are held against slow sums elsewhere
        assert np.all(np.abs(problem.observables.predict_positive(pdf)[: len(want)] - want) <= error)


def equal(got, stored, what):
    stored = stored[()] if isinstance(stored, h5py.Dataset) else stored
    assert got.shape == stored.shape and np.array_equal(got, stored.astype(got.dtype)), f"{what}: {got} for {stored}"
    assert not stored.size or stored.dtype.kind in "biu" or np.all(np.isfinite(stored)), what


def close(got, want, relative):
    """Two covariances, element by element in units of their diagonals."""
    scale = np.sqrt(np.outer(np.diag(want), np.diag(want)))
    assert np.all(np.isfinite(want)) and np.all(np.abs(got - want) <= relative * scale), "covariance"


def rows(group, cuts):
    """Which points pass the cuts; hadronic sets have none."""
    kin = group["kin"][()].astype(float)
    if "channels" in group:
        return np.arange(len(kin))
    x, q2 = kin[:, 0], kin[:, 1]
    w2 = q2 * (1 - x) / x
    passed = np.ones(len(kin), bool)
    for value, low, high in ((x, cuts.x_min, cuts.x_max), (q2, cuts.q2_min, cuts.q2_max), (w2, cuts.w2_min, None)):
        passed &= (value >= low if low is not None else True) & (value <= high if high is not None else True)
    return np.flatnonzero(passed)


def covariance(groups, with_t0):
    """C (N, N), one systematic after the other."""
    sizes = np.cumsum([0, *(len(k) for *_, k in groups)])
    out = np.zeros((sizes[-1], sizes[-1]))
    common = {}
    for (_, group, k), begin in zip(groups, sizes[:-1], strict=True):
        mine = slice(begin, begin + len(k))
        out[mine, mine] += np.diag(group["stat"][()].astype(float)[k] ** 2)
        errors = group["sys"][()].astype(float)[k]
        factor = (group["t0"][()].astype(float)[k] / group["cv"][()].astype(float)[k]) if with_t0 else np.ones(len(k))
        for j, (label, scales) in enumerate(zip(group["sys_names"][()], group["sys_is_mult"][()], strict=True)):
            column = np.zeros(len(out))
            column[mine] = errors[:, j] * (factor if scales else 1)
            label = text(label)
            if label.endswith("UNCORR"):
                out += np.diag(column**2)
            elif label.endswith("CORR"):
                out += np.outer(column, column)
            else:
                common[label] = common.get(label, 0) + column
    return out + sum(np.outer(one, one) for one in common.values())


def raw(group, name, pdf, flavours):
    """Predictions (N) of one table, and how far rounding may take them."""
    table = group[name][()].astype(float)

    def of(index):
        flavour = SAME.get(flavours[index], flavours[index])
        return pdf[FITTED.index(flavour)] if flavour in FITTED else np.zeros(pdf.shape[1])

    if "channels" in group:
        both = np.stack([np.outer(of(a), of(b)) for a, b in group["channels"][()]])
        terms = (table * both).reshape(len(table), -1)
    else:
        terms = (table * np.stack([of(f) for f in group["flav"][()]], axis=1)).reshape(len(table), -1)
    return terms.sum(1), ROUNDING * np.abs(terms).sum(1) + 1e-30


def prediction(group, pdf, flavours):
    """Predictions (N) of a set, and how far rounding may take them."""
    operation = text(group.attrs["operation"])
    parts, errors = zip(*(raw(group, name, pdf, flavours) for name in TABLES[operation]), strict=True)
    if operation in ("NULL", "ADD"):
        return sum(parts), sum(errors)
    half = len(parts) // 2
    above, below = sum(parts[:half]), sum(parts[half:])
    slack, under = sum(errors[:half]), sum(errors[half:])
    if operation == "ASY":
        above, below = parts[0] - parts[1], parts[0] + parts[1]
        slack = under = sum(errors)
    error = 2 * (slack + np.abs(above / below) * under) / np.abs(below)
    return above / below, np.where(np.abs(below) > 10 * under, error, np.inf)
