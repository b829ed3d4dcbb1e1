"""The builder of the shipped pack, on a few points: 20 s with its packages installed, a minute more the first time."""

import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
POSITIVITY = ("NNPDF_POS_2P24GEV_FLL", "NNPDF_POS_2P24GEV_F2C-17PTS", "NNPDF_POS_2P24GEV_XSB", "NNPDF_POS_2P24GEV_XGL")
SETS = (
    "NMC_NC_NOTFIXED_EM-F2",
    "NMC_NC_NOTFIXED_P_EM-SIGMARED",
    "SLAC_NC_NOTFIXED_P_EM-F2",
    "HERA_CC_318GEV_EM-SIGMARED",
    "HERA_NC_318GEV_EAVG_CHARM-SIGMARED",
    "HERA_NC_318GEV_EAVG_BOTTOM-SIGMARED",
)
REASON = "the packages of tools/build_dis_pack.py are not installed"


@pytest.fixture(scope="module")
def builder():
    for package in ("yadism", "eko", "nnpdf_data"):
        pytest.importorskip(package, reason=REASON)
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import build_dis_pack
    finally:
        sys.path.remove(str(ROOT / "tools"))
    return build_dis_pack


def close_in_float32(got, want):
    """Equal but for the last bits of float32, of the entry or, where terms cancel, of the row's largest one."""
    axes = tuple(range(1, want.ndim))
    ulp = np.finfo(np.float32).eps
    return np.all(np.abs(got - want) <= 2 * ulp * np.abs(want) + ulp / 64 * np.abs(want).max(axis=axes, keepdims=True))


@pytest.mark.filterwarnings("default")  # the packages' own
def test_a_few_points_of_every_kind_equal_the_shipped_pack(builder, tmp_path, capsys):
    output = tmp_path / "few.h5"
    builder.build_pack(output, tmp_path / "cache", [*SETS, *POSITIVITY], points=3)
    with h5py.File(ROOT / "data" / "dis_nlo" / "dis_nlo.h5") as shipped, h5py.File(output) as built:
        assert np.allclose(built["x"][:], shipped["x"][:], rtol=1e-12, atol=0)
        assert plain(built) == plain(shipped)
        assert set(built) == {"x", "positivity", *SETS}
        for name in SETS:
            same_set(built[name], shipped[name])
        assert set(built["positivity"]) == set(POSITIVITY)
        for name in POSITIVITY:
            ours, theirs = (file["positivity"][name] for file in (built, shipped))
            rows = np.flatnonzero(np.isin(theirs["kin"][:, 0], ours["kin"][:, 0]))
            assert len(rows) == 3 and close_in_float32(ours["fk"][:], theirs["fk"][rows]), name
            assert plain(ours) == plain(theirs)


def plain(item):
    """Attributes but those that depend on the number of points, or were added later."""
    return {k: np.asarray(v).tolist() for k, v in item.attrs.items() if k not in ("ndata", "t0_provenance")}


def same_set(ours, theirs):
    rows = np.flatnonzero(np.isin(theirs["cuts"][:], ours["cuts"][:]))
    assert len(rows) == 3
    tables = [field for field in ours if field.startswith("fk")]
    assert tables == [field for field in theirs if field.startswith("fk")]
    for table in tables:
        assert ours[table].dtype == np.float32 and close_in_float32(ours[table][:], theirs[table][rows])
    for field in ("cv", "stat", "kin", "cuts"):
        assert np.array_equal(ours[field][:], theirs[field][rows]), field
    names = {n for n in ours["sys_names"].asstr()[:] if not n.endswith("CORR")}
    for name in names:  # columns of zeros are left out, so that a few points may have fewer of them
        column, same = (list(group["sys_names"].asstr()[:]).index(name) for group in (ours, theirs))
        assert np.array_equal(ours["sys"][:, column], theirs["sys"][rows, same]), name
    assert np.allclose((ours["sys"][:] ** 2).sum(1), (theirs["sys"][rows] ** 2).sum(1), rtol=1e-6)
    assert plain(ours) == plain(theirs)


def test_finished_tables_are_taken_from_the_cache(builder, tmp_path, capsys, monkeypatch):
    computed = []

    def compute(observable, kin, evolution):
        computed.append(observable.name)
        return {"fk": np.ones((len(kin), 50, 9), np.float32)}

    monkeypatch.setattr(builder, "compute_tables", compute)
    monkeypatch.setattr(builder, "Evolution", lambda: None)
    for points in (2, 2, 3):
        builder.build_pack(tmp_path / f"{points}.h5", tmp_path / "cache", ["SLAC_NC_NOTFIXED_P"], points)
    assert computed == ["F2_total", "F2_total"]  # the second build needed none, other points are other tables


@pytest.mark.parametrize("pid", [2, -3, 4, 21])
def test_tables_of_a_density_are_the_density_itself_where_nothing_evolves(builder, pid):
    from dis_pack.evolution import Evolution
    from dis_pack.parameters import ACTIVE, Q0, X
    from dis_pack.tables import Density, compute_tables

    x = np.array([1e-5, 3e-4, 0.02, 0.3, 0.74])
    partons = {i: (2 + 0.3 * i, 0.8 - 0.03 * i, 3.0 + 0.1 * i) for i in (-4, -3, -2, -1, 1, 2, 3, 4)}
    partons[21] = (30.0, 0.9, 5.0)

    def compute(i, x):
        factor, low, high = partons[i]
        return factor * x**low * (1 - x) ** high

    plus, minus = ({i: compute(i, X) + sign * compute(-i, X) for i in range(1, 5)} for sign in (1, -1))
    ends = {"": plus, "v": minus}

    def rotate(name):
        if name == "g":
            return compute(21, X)
        d, u, s, c = (ends["v" if name.startswith("v") else ""][i] for i in range(1, 5))
        combined = {"0": u + d + s + c, "3": u - d, "8": u + d - 2 * s, "15": u + d + s - 3 * c}
        return combined[name.lstrip("tv") if name not in ("sigma", "v") else "0"]

    fk = compute_tables(Density(pid), np.stack([x, np.full(5, Q0**2 * (1 + 1e-6)), 0 * x], axis=1), Evolution())["fk"]
    found = np.einsum("nxf,fx->n", fk.astype(np.float64), np.array([rotate(name) for name in ACTIVE]))
    assert np.allclose(found, compute(pid, x), rtol=3e-3)
