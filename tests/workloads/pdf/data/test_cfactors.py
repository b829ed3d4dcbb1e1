"""Correction factors of tables: rows that they multiply, errors that they add, files that are none."""

import h5py
import numpy as np
import pytest

from tests.workloads.pdf.data.fk_writer import grid_nodes
from tests.workloads.pdf.data.test_nnpdf import agree, make, predictions, truth
from tfperf.errors import UserError
from tfperf.workloads.pdf.data.commondata import KinematicCuts
from tfperf.workloads.pdf.data.nnpdf import import_nnpdf
from tfperf.workloads.pdf.data.validate import validate


def write_factor(folder, name, table, values, errors):
    folder.mkdir(exist_ok=True)
    rows = "\n".join(f"{value:.8f} {error:.8f}" for value, error in zip(values, errors, strict=True))
    path = folder / f"CF_{name}_{table}.dat"
    path.write_text(f"{'*' * 60}\nSetName: made up\nAuthor: nobody\n{'*' * 60}\n{rows}\n")
    return path


@pytest.mark.slow
def test_correction_factors_multiply_rows_and_their_errors_enter_the_covariance(tables, tmp_path):
    rng, name, each = np.random.default_rng(8), "NMC_NC_NOTFIXED_EM-F2", {}
    for table in ("NMC_NC_EM_D_F2", "NMC_NC_EM_P_F2"):
        make(tables, table, 260)
        for factor in ("QCD", "EWK"):
            each[table, factor] = rng.uniform(0.9, 1.2, 260).round(6), rng.uniform(0.01, 0.03, 260).round(6)
            write_factor(tables / "cfactor", factor, table, *each[table, factor])
    bare = import_nnpdf(tables, [f"{name}:legacy_dw"], tmp_path / "bare.h5")
    output = import_nnpdf(tables, [f"{name}:legacy_dw+QCD+EWK"], tmp_path / "pack.h5")
    found, rows = predictions(output, name)
    relative = 0.0
    for table, operand in (("NMC_NC_EM_D_F2", "fk_num"), ("NMC_NC_EM_P_F2", "fk_den")):
        product = each[table, "QCD"][0] * each[table, "EWK"][0]
        assert agree(found[operand], truth(tables, [table])[rows] * product[rows])
        relative = relative + sum(
            (error / value)[rows] ** 2 for value, error in (each[table, f] for f in ("QCD", "EWK"))
        )
    with h5py.File(output) as file, h5py.File(bare) as plain:
        group, before = file[name], plain[name]
        assert group["sys_names"].asstr()[-1] == f"{name}_CFACTORS_UNCORR" and group["sys_is_mult"][-1]
        np.testing.assert_allclose(group["sys"][:, -1] / group["cv"][:], np.sqrt(relative), rtol=1e-4)
        np.testing.assert_array_equal(group["sys"][:, :-1], before["sys"][:])
        kept = group.attrs["cfactor QCD NMC_NC_EM_D_F2"]
        np.testing.assert_array_equal(kept.T, each["NMC_NC_EM_D_F2", "QCD"])
    validate(output)


def test_factors_that_nnpdf_data_has_are_found_there(tables, tmp_path):
    make(tables, "LHCB_DY_7TEV", 17, [(100, 100)], x=grid_nodes(3), hadrons=(2212, 2212))
    output = import_nnpdf(tables, ["LHCB_Z0_7TEV_MUON_Y+NRM"], tmp_path / "pack.h5")
    found, rows = predictions(output, "LHCB_Z0_7TEV_MUON_Y")
    with h5py.File(output) as file:
        factors = file["LHCB_Z0_7TEV_MUON_Y"].attrs["cfactor NRM LHCB_DY_7TEV"][:, 0]
    scale = found["fk"] / (truth(tables, ["LHCB_DY_7TEV"]) * factors)[rows]
    np.testing.assert_allclose(scale, scale[0], rtol=1e-10)  # the metadata's conversion factor


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "CF_QCD_HERA_CC_318GEV_EM_SIGMARED.dat: missing; looked for in"),
        ("1.0 0.0\n" * 42, "must begin with a description"), ("***\n***\n1.0 0.0\n", r"must be \(42, 2\)"),
        ("***\n***\n" + "-1.0 0.0\n" * 42, "neither factors nor uncertainties may be below 0"),
        ("***\n***\nnothing\n", "could not convert"),
    ],
)  # fmt: skip
def test_faulty_factors_are_refused(tables, tmp_path, text, words):
    make(tables, "HERA_CC_318GEV_EM_SIGMARED", 42)
    if text is not None:
        (tables / "CF_QCD_HERA_CC_318GEV_EM_SIGMARED.dat").write_text(text)
    with pytest.raises(UserError, match=words):
        import_nnpdf(tables, ["HERA_CC_318GEV_EM-SIGMARED:legacy+QCD"], tmp_path / "pack.h5")
    assert not (tmp_path / "pack.h5").exists()


def test_a_factor_of_zero_stands_for_a_row_that_no_fit_takes(tables, tmp_path):
    """HERA's charged currents begin at Q2 = 300 GeV2: cuts take out those below 1000."""
    name = "HERA_CC_318GEV_EM_SIGMARED"
    make(tables, name, 42)
    cuts = KinematicCuts(q2_min=1000.0)
    plain = import_nnpdf(tables, ["HERA_CC_318GEV_EM-SIGMARED:legacy"], tmp_path / "plain.h5", cuts)
    with h5py.File(plain) as file:
        kept = file["HERA_CC_318GEV_EM-SIGMARED/cuts"][:]
    factors = np.zeros((42, 2))
    factors[kept] = 1.1, 0.01
    lines = "\n".join(f"{value} {error}" for value, error in factors)
    (tables / f"CF_QCD_{name}.dat").write_text(f"***\n***\n{lines}\n")
    chosen = ["HERA_CC_318GEV_EM-SIGMARED:legacy+QCD"]
    with h5py.File(import_nnpdf(tables, chosen, tmp_path / "pack.h5", cuts)) as file, h5py.File(plain) as before:
        mine, old = file["HERA_CC_318GEV_EM-SIGMARED"], before["HERA_CC_318GEV_EM-SIGMARED"]
        np.testing.assert_allclose(mine["fk"][:], 1.1 * old["fk"][:], rtol=1e-6)
        np.testing.assert_allclose(mine["sys"][:, -1], 0.01 / 1.1 * np.abs(mine["cv"][:]), rtol=1e-6)
    with pytest.raises(UserError, match="zero"):
        import_nnpdf(tables, chosen, tmp_path / "all.h5")
