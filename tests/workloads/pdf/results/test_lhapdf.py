import errno
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import yaml

from tests.make_result import make_result
from tfperf.errors import RunDirectoryError, StorageError, UserError
from tfperf.workloads.pdf.results import lhapdf, store
from tfperf.workloads.pdf.results.lhapdf import export
from tfperf.workloads.pdf.results.postfit import apply_postfit

PIDS = [-4, -3, -2, -1, 21, 1, 2, 3, 4]
THEORY = {"order": "NLO", "alphas_mz": 0.118, "mc": 1.51, "mb": 4.92}


def make_run(tmp_path, result=None, name="run"):
    run = tmp_path / name
    run.mkdir()
    store.write(run / "results.h5", result or make_result(replicas=6, failed=2))
    return run


def exported(tmp_path, result=None, name="a_set"):
    return export(make_run(tmp_path, result), tmp_path / "sets", name, say=lambda line: None)


def quarks(pdf):
    """pid -> x f (..., X) solved from the definitions of the evolution basis, not by their inverse."""
    # rows: sigma t3 t8 t15 of (u+, d+, s+, c+); the same with v15 = v for the differences
    basis = np.array([[1, 1, 1, 1], [1, -1, 0, 0], [1, 1, -2, 0], [1, 1, 1, -3]], float)
    sigma, g, v, v3, v8, t3, t8, t15 = np.moveaxis(pdf, -2, 0)
    plus = np.linalg.solve(basis, np.stack([sigma, t3, t8, t15]).reshape(4, -1)).reshape(4, *sigma.shape)
    minus = np.linalg.solve(basis, np.stack([v, v3, v8, v]).reshape(4, -1)).reshape(4, *sigma.shape)
    found = {21: g}
    for pid, p, m in zip((2, 1, 3, 4), plus, minus, strict=True):
        found[pid], found[-pid] = (p + m) / 2, (p - m) / 2
    return found


def parse(path):
    """A member's header, knots and x f (X, Q, pids), read by the rules of the format alone."""
    header, block, rest = path.read_text().split("---\n")
    lines = block.splitlines()
    x, q, pids = (np.array(line.split(), float) for line in lines[:3])
    assert rest == "" and len(lines) == 3 + len(x) * len(q)
    values = np.array([line.split() for line in lines[3:]], float)
    return yaml.safe_load(header), x, q, [int(p) for p in pids], values.reshape(len(x), len(q), len(pids))


def test_members_hold_the_fit_and_member_0_its_mean(tmp_path):
    result = make_result(replicas=6, failed=2)
    folder = exported(tmp_path, result)
    kept = [0, 2, 4, 5]  # the second was quarantined, the fourth broke positivity
    want = quarks(result.pdf[kept])
    for member in range(5):
        header, x, q, pids, values = parse(folder / f"a_set_{member:04d}.dat")
        assert header["Format"] == "lhagrid1" and header["PdfType"] == ("replica" if member else "central")
        assert header.get("FromMCReplica") == (kept[member - 1] + 1 if member else None)
        assert pids == PIDS and list(q) == [1.65, 1.65 * 1.001]
        assert x.tobytes() == result.x.tobytes()  # 17 digits bring every bit back
        assert np.array_equal(values[:, 0], values[:, 1])
        for column, pid in enumerate(pids):
            truth = want[pid][member - 1] if member else want[pid].mean(axis=0)
            np.testing.assert_allclose(values[:, 0, column], truth, rtol=1e-13, atol=1e-14)
    assert sorted(p.name for p in folder.iterdir()) == sorted(
        ["a_set.info", *(f"a_set_{m:04d}.dat" for m in range(5)), *(f"a_set_{m:04d}.exportgrid" for m in range(1, 5))]
    )


def test_only_those_that_passed_postfit_are_exported(tmp_path, capsys):
    result = make_result(replicas=30, failed=2)
    chi2 = result.replicas.chi2_experimental.copy()
    chi2[9] = 50.0
    run = make_run(tmp_path, replace(result, replicas=replace(result.replicas, chi2_experimental=chi2)))
    export(run, tmp_path / "sets", "before")
    assert "28 of 30 replicas converged (postfit has not been applied)" in capsys.readouterr().out
    apply_postfit(run)
    folder = export(run, tmp_path / "sets", "after")
    assert "27 of 30 replicas were chosen by postfit" in capsys.readouterr().out
    origins = [parse(folder / f"after_{m:04d}.dat")[0]["FromMCReplica"] for m in range(1, 28)]
    assert origins == [i for i in range(1, 31) if i not in (2, 4, 10)]
    assert yaml.safe_load((folder / "after.info").read_text())["NumMembers"] == 28


def test_exportgrid_has_fourteen_flavours(tmp_path):
    result = make_result(replicas=6, failed=2)
    grid = yaml.safe_load((exported(tmp_path, result) / "a_set_0002.exportgrid").read_text())
    assert grid["replica"] == 3 and grid["q20"] == pytest.approx(1.65**2) and grid["xgrid"] == result.x.tolist()
    assert " ".join(grid["labels"]) == "TBAR BBAR CBAR SBAR UBAR DBAR GLUON D U S C B T PHT"
    values = np.array(grid["pdfgrid"])
    assert values.shape == (50, 14) and not values[:, [0, 1, 11, 12, 13]].any()
    want = quarks(result.pdf[2])
    for column, pid in enumerate([-4, -3, -2, -1, 21, 1, 2, 3, 4], start=2):
        np.testing.assert_allclose(values[:, column], want[pid], rtol=1e-13, atol=1e-14)


def info_of(tmp_path, pack):
    result = make_result()
    return yaml.safe_load(lhapdf.format_info(replace(result, summary={**result.summary, "pack": pack}), 5))


def test_info_says_what_the_pack_says(tmp_path):
    theory = json.dumps({"MZ": "91.2", "mt": "173.0"})
    pack = {"Q0": 1.65, "alphas_mz": 0.12, "mc": 1.4, "mb": 4.75, "order": "NNLO (FONLL-C, TMC)", "theory": theory}
    info = info_of(tmp_path, pack)
    names = ("MCharm", "MBottom", "MTop", "MZ", "AlphaS_MZ", "OrderQCD", "AlphaS_OrderQCD", "NumMembers", "ErrorType")
    assert [info[n] for n in names] == [1.4, 4.75, 173.0, 91.2, 0.12, 2, 2, 6, "replicas"]
    assert info["Flavors"] == PIDS and info["QMin"] == 1.65 and info["QMax"] == 1.65 * 1.001
    assert info["XMin"] == 2e-7 and info["XMax"] == 1.0 and info["AlphaS_Type"] == "ipol"
    at_mz = np.interp(np.log(91.2), np.log(info["AlphaS_Qs"]), info["AlphaS_Vals"])
    assert at_mz == pytest.approx(0.12, rel=1e-3) and info["AlphaS_Qs"].count(4.75) == 2


@pytest.mark.parametrize("more", [{}, {"theory": "no JSON"}, {"theory": "[1]"}])
def test_only_masses_of_z_and_top_have_defaults(tmp_path, more):
    info = info_of(tmp_path, {**THEORY, **more})
    assert [info[n] for n in ("MZ", "MTop", "OrderQCD", "AlphaS_MZ")] == [91.1876, 172.5, 1, 0.118]


def test_info_refuses_a_mass_that_is_no_number(tmp_path):
    with pytest.raises(UserError, match=r"the data pack: mc: got '1\.5 GeV'; must be a positive number"):
        info_of(tmp_path, {**THEORY, "mc": "1.5 GeV"})


@pytest.mark.parametrize("name", ["", "a b", "a/b", "../a", ".a", "ä", "-a", "a\n"])
def test_unfit_names_are_refused(tmp_path, name):
    with pytest.raises(UserError, match="allowed are letters"):
        export(make_run(tmp_path), tmp_path, name)


def test_the_name_defaults_to_the_runs(tmp_path, capsys):
    assert export(make_run(tmp_path, name="run_7"), tmp_path / "new" / "sets") == tmp_path / "new" / "sets" / "run_7"


def test_an_existing_folder_is_not_touched(tmp_path):
    (tmp_path / "a_set").mkdir()
    with pytest.raises(UserError, match="exists already"):
        export(make_run(tmp_path), tmp_path, "a_set")
    assert not list((tmp_path / "a_set").iterdir())


def test_nothing_to_export_is_a_clear_error(tmp_path):
    result = make_result(replicas=2, failed=1)
    lost = replace(result, replicas=replace(result.replicas, status=("quarantined", "no_positivity")))
    with pytest.raises(UserError, match="none of the 2 replicas converged"):
        exported(tmp_path, lost)
    with pytest.raises(RunDirectoryError, match=r"results\.h5"):
        export(tmp_path / "sets", tmp_path, "b")


@pytest.mark.parametrize("call", [0, 3, 10])  # at the first of ten files, at the fourth, at their folder
def test_a_full_disk_leaves_nothing_behind(tmp_path, monkeypatch, call):
    done = []

    def sync(path):
        done.append(path)
        if len(done) > call:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    run = make_run(tmp_path)
    monkeypatch.setattr(lhapdf, "sync", sync)
    with pytest.raises(StorageError, match="No space left on device"):
        export(run, tmp_path / "sets", "a_set")
    assert list((tmp_path / "sets").iterdir()) == []


def knots_and_between(result):
    """(pid, x, Q) at the first Q knot and between the two."""
    return [(pid, x, q) for q in (result.q0, result.q0 * 1.0005) for pid in PIDS for x in result.x]


def read_by_module(folder, member, points):
    """x f by the Python module `lhapdf`, in a process of its own: it reads LHAPDF_DATA_PATH only once."""
    code = (
        "import json, sys, lhapdf\nlhapdf.setVerbosity(0)\nname, member, points = json.loads(sys.stdin.read())\n"
        "pdf = lhapdf.mkPDF(name, member)\nprint(json.dumps([pdf.xfxQ(p, x, q) for p, x, q in points]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps([folder.name, member, points]), capture_output=True, text=True,
        check=True, env={**os.environ, "LHAPDF_DATA_PATH": str(folder.parent)},
    )  # fmt: skip
    return np.array(json.loads(done.stdout.splitlines()[-1]))


def write_probe(path, points, alphas=0):
    """A PineAPPL grid whose n-th bin is x f(x, Q) at the n-th point, times alpha_s^alphas."""
    from pineappl import boc, convolutions, grid, interpolation, pids, subgrid

    scale, none = boc.ScaleFuncForm.Scale(0), boc.ScaleFuncForm.NoScale(0)
    probe = grid.Grid(
        pids.PidBasis.Pdg, [boc.Channel([([p], 1.0)]) for p in PIDS], [boc.Order(alphas, 0, 0, 0, 0)],
        boc.BinsWithFillLimits.from_fill_limits([float(b) for b in range(len(points) + 1)]),
        [convolutions.Conv(convolutions.ConvType(False, False), 2212)],
        [interpolation.Interp(1.0, 1e4), interpolation.Interp(1e-7, 1.0)],
        [boc.Kinematics.Scale(0), boc.Kinematics.X(0)], boc.Scales(scale, scale, none),
    )  # fmt: skip
    for b, (pid, x, q) in enumerate(points):
        node = subgrid.ImportSubgridV1(np.array([[x]]), [np.array([q * q]), np.array([x])])
        probe.set_subgrid(0, b, PIDS.index(pid), node.into())
    probe.write(str(path))


def pineappl_program():
    """Beside this Python, or on the PATH."""
    return shutil.which("pineappl", path=os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]]))


def read_by_pineappl(folder, member, points, alphas=0):
    """x f by the LHAPDF library inside the program `pineappl`."""
    probe = folder.parent / f"{folder.name}_{member}_{alphas}.pineappl"
    write_probe(probe, points, alphas)
    (folder.parent / "pdfsets.index").touch()  # or it asks the network for one
    done = subprocess.run(
        [pineappl_program(), "convolve", "--digits-abs=16", "--digits-rel=16", probe, f"{folder.name}/{member}"],
        capture_output=True, text=True, check=True, env={
            **os.environ, "LHAPDF_DATA_PATH": str(folder.parent), "XDG_CONFIG_HOME": str(folder.parent),
            "XDG_DATA_HOME": str(folder.parent),
        },
    )  # fmt: skip
    rows = [line.split() for line in done.stdout.splitlines()]
    return np.array([float(row[3]) for row in rows if row and row[0].isdigit()])


@pytest.fixture(params=["module", "pineappl"])
def read(request):
    if request.param == "module":
        if importlib.util.find_spec("lhapdf") is None:
            pytest.skip("the Python module lhapdf is not installed; PyPI has none")
        return read_by_module
    if importlib.util.find_spec("pineappl") is None or pineappl_program() is None:
        pytest.skip("pineappl and pineappl-cli, which has LHAPDF inside, are not installed")
    return read_by_pineappl


def test_lhapdf_reads_back_the_fit(tmp_path, read):
    result = make_result(replicas=6, failed=2)
    folder = exported(tmp_path, result)
    points = knots_and_between(result)
    replicas = quarks(result.pdf[[0, 2, 4, 5]])
    for member in range(5):
        truth = {p: v[member - 1] if member else v.mean(axis=0) for p, v in replicas.items()}
        want = np.tile(np.concatenate([truth[p] for p in PIDS]), 2)
        got = read(folder, member, points)
        assert got.shape == want.shape == (900,)
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)


def test_lhapdf_gives_the_coupling(tmp_path):
    if importlib.util.find_spec("pineappl") is None or pineappl_program() is None:
        pytest.skip("pineappl and pineappl-cli, which has LHAPDF inside, are not installed")
    result = make_result(replicas=3)
    folder, points = exported(tmp_path, result), [(21, 0.1, 1.65), (21, 0.1, 1.65 * 1.0005)]
    alpha = read_by_pineappl(folder, 1, points, alphas=1) / read_by_pineappl(folder, 1, points)
    # eko 0.15.7, exact, NLO; the second from its slope there, -2 alpha^2 (25 / 12 pi + 77 / 24 pi^2 alpha) per log Q
    slope = -2 * 0.32744077**2 * (25 / (12 * np.pi) + 77 / (24 * np.pi**2) * 0.32744077)
    np.testing.assert_allclose(alpha, [0.32744077, 0.32744077 + slope * np.log(1.0005)], rtol=1e-5)


def test_a_failing_folder_sync_does_not_claim_that_nothing_is_there(tmp_path, monkeypatch):
    def sync(path):
        if path == tmp_path / "sets":
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    run = make_run(tmp_path)
    monkeypatch.setattr(lhapdf, "sync", sync)
    with pytest.raises(StorageError, match="may not outlive a crash"):
        export(run, tmp_path / "sets", "a_set")
    assert (tmp_path / "sets" / "a_set" / "a_set.info").exists()
