import os
import sys
from functools import reduce
from pathlib import Path

import h5py
import numpy as np
import pytest

from tests.workloads.pdf.data.fk_writer import EVOLUTION, grid_nodes, pineappls_prediction, write_table, xf_evolution
from tfperf.errors import UserError
from tfperf.workloads.pdf.data.commondata import KinematicCuts
from tfperf.workloads.pdf.data.nnpdf import import_nnpdf
from tfperf.workloads.pdf.data.validate import FLAVOURS, validate

NINE = [(i,) for i in (21, 103, 108, 115, 100, 203, 208, 215, 200)]
X = grid_nodes(4)
SHARED = Path(os.environ.get("TFPERF_SHARED", "/nonexistent")) / "data"


def make(folder, name, bins, channels=NINE, seed=0, x=X, hadrons=(2212,), **more):
    rng = np.random.default_rng([seed, *name.encode()])
    values = rng.normal(size=(bins, len(channels), *[len(x)] * len(hadrons)))
    write_table(
        folder / f"{name}.pineappl.lz4", x, channels, values, rng.uniform(0.5, 2, bins), hadrons=hadrons, **more
    )


def predictions(path, name):
    """Prediction of the made-up proton from each table of a set: slow sums over the pack's definition, by table."""
    number = dict(zip(FLAVOURS, EVOLUTION, strict=True))
    with h5py.File(path) as file:
        proton = xf_evolution(file["x"][:])
        f = [proton[number[flavour]] for flavour in FLAVOURS]
        group = file[name]
        found = {}
        for table in (t for t in group if t.startswith("fk")):
            if "flav" in group:
                terms = [group[table][:, :, c] @ f[i] for c, i in enumerate(group["flav"][:])]
            else:
                terms = [group[table][:, c] @ f[j] @ f[i] for c, (i, j) in enumerate(group["channels"][:])]
            found[table] = reduce(np.add, terms)
        return found, group["cuts"][:] if "cuts" in group else slice(None)


def truth(folder, names):
    return np.concatenate([pineappls_prediction(folder / f"{n}.pineappl.lz4") for n in names])


def agree(got, want):
    return np.all(np.abs(got - want) <= 1e-12 * np.abs(want).max())


def test_a_deep_inelastic_set_predicts_what_pineappl_predicts(tables, tmp_path):
    make(tables, "HERA_CC_318GEV_EM_SIGMARED", 42)
    output = tmp_path / "pack.h5"
    assert import_nnpdf(tables, ["HERA_CC_318GEV_EM-SIGMARED:legacy"], output) == output
    found, rows = predictions(output, "HERA_CC_318GEV_EM-SIGMARED")
    assert agree(found["fk"], truth(tables, ["HERA_CC_318GEV_EM_SIGMARED"])[rows])
    with h5py.File(output) as file:
        assert len(file["x"]) == 50 and np.allclose(file["x"][-4:], X, rtol=1e-15)
        assert file.attrs["Q0"] == 1.65 and "nnpdf-data 4" in file.attrs["provenance"]
        attributes = file["HERA_CC_318GEV_EM-SIGMARED"].attrs
        assert attributes["experiment"] == "HERA" and attributes["process"] == "DIS_CC"
        assert "1506.06042" in attributes["arxiv"]
        assert list(attributes["tables"]) == ["HERA_CC_318GEV_EM_SIGMARED"]


def test_ratio_tables_in_parts_and_unequal_grids(tables, tmp_path):
    make(tables, "NMC_NC_EM_D_F2", 260)
    make(tables, "NMC_NC_EM_P_F2", 260, x=grid_nodes(6))
    for k, (energy, bins) in enumerate({"100": 99, "200": 79, "280": 76}.items()):
        make(tables, f"BCDMS_NC_{energy}GEV_EM_D_F2", bins, x=grid_nodes(3 + k))
    output = import_nnpdf(
        tables, ["NMC_NC_NOTFIXED_EM-F2:legacy_dw", "BCDMS_NC_NOTFIXED_D_EM-F2:legacy_dw"], tmp_path / "p.h5"
    )
    found, rows = predictions(output, "NMC_NC_NOTFIXED_EM-F2")
    assert len(rows) == 121  # NNPDF4.0, arXiv:2109.02653, table 2.1
    assert agree(found["fk_num"], truth(tables, ["NMC_NC_EM_D_F2"])[rows])
    assert agree(found["fk_den"], truth(tables, ["NMC_NC_EM_P_F2"])[rows])
    found, rows = predictions(output, "BCDMS_NC_NOTFIXED_D_EM-F2")
    assert len(rows) == 248
    assert agree(found["fk"], truth(tables, [f"BCDMS_NC_{e}GEV_EM_D_F2" for e in (100, 200, 280)])[rows])


def test_flavours_that_do_not_evolve_freely_are_folded(tables, tmp_path):
    make(tables, "HERA_CC_318GEV_EM_SIGMARED", 42, [(i,) for i in EVOLUTION if i != 22])
    output = import_nnpdf(tables, ["HERA_CC_318GEV_EM-SIGMARED:legacy"], tmp_path / "pack.h5")
    found, rows = predictions(output, "HERA_CC_318GEV_EM-SIGMARED")
    assert agree(found["fk"], truth(tables, ["HERA_CC_318GEV_EM_SIGMARED"])[rows])
    with h5py.File(output) as file:
        kept = [FLAVOURS[i] for i in file["HERA_CC_318GEV_EM-SIGMARED/flav"][:]]
    assert kept == ["sigma", "g", "v", "v3", "v8", "v15", "t3", "t8", "t15"]


def test_positivity_sets(tables, tmp_path):
    make(tables, "NNPDF_POS_F2U_40", 20)
    make(tables, "HERA_CC_318GEV_EM_SIGMARED", 42)
    names = ["NNPDF_POS_2P24GEV_F2U", "HERA_CC_318GEV_EM-SIGMARED:legacy"]
    output = import_nnpdf(tables, names, tmp_path / "pack.h5")
    found, rows = predictions(output, "positivity/NNPDF_POS_2P24GEV_F2U")
    assert agree(found["fk"], truth(tables, ["NNPDF_POS_F2U_40"])[rows])
    with h5py.File(output) as file:
        kin = file["positivity/NNPDF_POS_2P24GEV_F2U/kin"]
        assert list(kin.attrs["columns"]) == ["x", "Q2"] and np.all(kin[:, 1] == 5.0) and kin[0, 0] == 5e-7


def test_hadronic_tables_of_proton_and_antiproton_with_one_denominator(tables, tmp_path):
    channels = [(21, 21), (100, 200), (200, 100), (203, 203), (208, 115), (235, 124)]
    make(tables, "D0ZRAP-D0_ZRAP_MCgrid_500M", 28, channels, hadrons=(2212, -2212))
    make(tables, "D0ZRAP-D0_ZNORM_MCgrid_500M", 1, channels[::-1], hadrons=(2212, -2212))
    output = import_nnpdf(tables, ["D0_Z0_1P96TEV_ZRAP:legacy"], tmp_path / "pack.h5")
    found, rows = predictions(output, "D0_Z0_1P96TEV_ZRAP")
    assert agree(found["fk_num"], truth(tables, ["D0ZRAP-D0_ZRAP_MCgrid_500M"])[rows])
    assert found["fk_den"].shape == (1,)
    assert agree(found["fk_den"], truth(tables, ["D0ZRAP-D0_ZNORM_MCgrid_500M"]))
    with h5py.File(output) as file:
        channels = file["D0_Z0_1P96TEV_ZRAP/channels"][:]
        assert np.all(channels[:, 0] <= channels[:, 1])


def test_normalisations_and_conversion_factors_of_the_metadata(tables, tmp_path):
    widths = (0.025, 0.035714286, 0.045454545, 0.045454545, 0.035714286, 0.014705882, 0.01)
    names = [f"ATLAS_DY_2D_8TEV_LOWMASS-ATLAS_DY_2D_8TEV-BIN{k}_rapidity" for k in range(1, 8)]
    for name in names:
        make(tables, name, 12, [(100, 100), (21, 103)], x=grid_nodes(3), hadrons=(2212, 2212))
    make(tables, "ATLAS_DY_7TEV_CF", 15, [(100, 100)], x=grid_nodes(3), hadrons=(2212, 2212))
    sets = ["ATLAS_Z0_8TEV_LOWMASS_M-Y:legacy", "ATLAS_Z0_7TEV_46FB_CF-Y:legacy"]
    output = import_nnpdf(tables, sets, tmp_path / "pack.h5")
    found, rows = predictions(output, "ATLAS_Z0_8TEV_LOWMASS_M-Y")
    assert agree(found["fk"], (truth(tables, names).reshape(7, 12) * np.array(widths)[:, None]).ravel()[rows])
    found, rows = predictions(output, "ATLAS_Z0_7TEV_46FB_CF-Y")
    assert agree(found["fk"], 1000 * truth(tables, ["ATLAS_DY_7TEV_CF"])[rows])


def test_points_before_a_shifted_table_have_no_prediction_and_are_left_out(tables, tmp_path):
    bins = {f"ATLASZPT8TEVMDIST-ATLASZPT8TEV-MLLBIN{k}_ptZ": n for k, n in {1: 8, 2: 8, 3: 8, 4: 10, 6: 10}.items()}
    for name, count in bins.items():
        make(tables, name, count, [(100, 21)], x=grid_nodes(3), hadrons=(2212, 2212))
    output = import_nnpdf(tables, ["ATLAS_Z0J_8TEV_PT-M:legacy"], tmp_path / "pack.h5")
    found, rows = predictions(output, "ATLAS_Z0J_8TEV_PT-M")
    assert rows.tolist() == [*range(24), *range(34, 44), *range(54, 64)]
    assert agree(found["fk"], truth(tables, bins))


def test_measurements_are_those_of_nnpdf_data(tables, tmp_path):
    from nnpdf_data.commondataparser import DEFAULT_PATH_VPDATA, load_commondata, parse_new_metadata

    make(tables, "SLAC_NC_EM_D_F2", 211)
    output = import_nnpdf(tables, ["SLAC_NC_NOTFIXED_D_EM-F2:legacy_dw"], tmp_path / "pack.h5")
    folder = DEFAULT_PATH_VPDATA / "SLAC_NC_NOTFIXED_D"
    theirs = load_commondata(parse_new_metadata(folder / "metadata.yaml", "EM-F2", variant="legacy_dw"))
    with h5py.File(output) as file:
        group = file["SLAC_NC_NOTFIXED_D_EM-F2"]
        rows, sys = group["cuts"][:], group["sys"][:]
        names, mult = group["sys_names"].asstr()[:].tolist(), group["sys_is_mult"][:]
        assert len(rows) == 34 and agree(group["cv"][:], theirs.central_values.to_numpy()[rows])
        assert agree(group["stat"][:], theirs.stat_errors.to_numpy()[rows])
        assert agree(group["kin"][:], theirs.kinematics.to_numpy(float)[rows])
    kinds = theirs.systype_table
    assert sorted(names) == sorted(kinds["name"])
    assert sum(mult) == sum(kinds["treatment"] == "MULT")
    percent = theirs.central_values.to_numpy()[rows, None] / 100
    for wanted, ours in (
        (theirs.additive_errors.to_numpy(float)[rows], sys[:, ~mult]),
        (theirs.multiplicative_errors.to_numpy(float)[rows] * percent, sys[:, mult]),
    ):
        assert agree(ours @ ours.T, wanted @ wanted.T)


def test_cuts_are_those_asked_for(tables, tmp_path):
    make(tables, "HERA_NC_318GEV_EAVG_SIGMARED_CHARM", 52)
    make(tables, "HERA_CC_318GEV_EM_SIGMARED", 42)
    charm, other = "HERA_NC_318GEV_EAVG_CHARM-SIGMARED", "HERA_CC_318GEV_EM-SIGMARED"
    for limits, points in ((None, (37, 42)), (KinematicCuts(500, 1e4, 12), (23, 22))):
        path = tmp_path / f"{points}.h5"
        import_nnpdf(tables, [f"{charm}:legacy", f"{other}:legacy"], path, limits)
        with h5py.File(path) as file:
            assert (len(file[charm]["cv"]), len(file[other]["cv"])) == points
            q2, x = file[other]["kin"][:, 1], file[other]["kin"][:, 0]
            assert not limits or (q2.min() > 500 and (q2 * (1 - x) / x).min() > 1e4)


REQUESTS = {
    "HERA_CC_318GEV_EM-SIGMARED:legacy": "HERA_CC_318GEV_EM_SIGMARED.pineappl.lz4: missing",
    "HERA_CC_318GVE_EM-SIGMARED:legacy": "did you mean HERA_CC_318GEV?",
    "HERA_CC_318GEV_EM-F2": "allowed: HERA_CC_318GEV_EM-SIGMARED, HERA_CC_318GEV_EP-SIGMARED",
    "HERA_CC_318GEV_EP-SIGMARED:new": "no variant 'new'; allowed: legacy",
    "SLAC_NC_NOTFIXED_D_EM-F2": "needs a variant, SLAC_NC_NOTFIXED_D_EM-F2:VARIANT; allowed: legacy, legacy_dw",
    "NNPDF_INTEG_3GEV_XT3": "runcard",
    "nothing": "no measurements",
}


def test_all_faults_of_a_request_come_at_once(tables, tmp_path):
    make(tables, "HERA_CC_318GEV_EM_SIGMARE", 1)
    with pytest.raises(UserError) as caught:
        import_nnpdf(tables, list(REQUESTS), tmp_path / "pack.h5")
    faults = list(caught.value.faults)
    assert len(faults) == len(REQUESTS)
    for text in REQUESTS.values():
        assert any(text in fault for fault in faults), (text, faults)
    assert "did you mean HERA_CC_318GEV_EM_SIGMARE" in "".join(faults)
    assert not (tmp_path / "pack.h5").exists()


def refused(tables, tmp_path, *sets):
    with pytest.raises(UserError) as caught:
        import_nnpdf(tables, sets or ["HERA_CC_318GEV_EM-SIGMARED:legacy"], tmp_path / "pack.h5")
    assert not (tmp_path / "pack.h5").exists()
    return "\n".join(caught.value.faults)


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"bins": 41}, "have 41 rows; the published set has 42 points"),
        ({"polarised": True}, "polarised True"),
        ({"hadrons": (211,)}, "hadron 211"),
        ({"q0": 5.0}, "must be below the bottom mass"),
        ({"evolution": False, "channels": [(1,)]}, "evolution basis"),
    ],
)
def test_tables_of_another_kind_are_refused(tables, tmp_path, more, text):
    make(tables, "HERA_CC_318GEV_EM_SIGMARED", **{"bins": 42, **more})
    told = refused(tables, tmp_path)
    assert "HERA_CC_318GEV_EM_SIGMARED" in told and text in told


def test_damaged_tables_are_refused(tables, tmp_path, capfd):
    (tables / "HERA_CC_318GEV_EM_SIGMARED.pineappl.lz4").write_bytes(b"no table")
    assert "cannot be read as a PineAPPL FK table" in refused(tables, tmp_path)


def test_tables_of_two_input_scales_are_refused(tables, tmp_path):
    make(tables, "HERA_CC_318GEV_EM_SIGMARED", 42)
    make(tables, "HERA_CC_318GEV_EP_SIGMARED", 39, q0=1.3)
    told = refused(tables, tmp_path, *(f"HERA_CC_318GEV_{e}-SIGMARED:legacy" for e in ("EM", "EP")))
    assert "HERA_CC_318GEV_EP_SIGMARED" in told and "Q0 is 1.3" in told


def test_an_existing_file_is_not_overwritten(tables, tmp_path):
    (tmp_path / "pack.h5").write_text("precious")
    with pytest.raises(UserError, match="exists"):
        import_nnpdf(tables, ["HERA_CC_318GEV_EM-SIGMARED:legacy"], tmp_path / "pack.h5")
    assert (tmp_path / "pack.h5").read_text() == "precious"


@pytest.mark.parametrize("module", ["pineappl", "nnpdf_data"])
def test_a_missing_package_names_the_command_that_installs_it(monkeypatch, tmp_path, module):
    for name in ("pineappl", "nnpdf_data"):
        monkeypatch.setitem(sys.modules, name, None if name == module else sys)
    with pytest.raises(UserError, match=r'pip install "tfperf\[nnpdf\]"'):
        import_nnpdf(tmp_path, ["any"], tmp_path / "pack.h5")


QUICK = ("HERA_CC_318GEV_EM-SIGMARED", "SLAC_NC_NOTFIXED_P_EM-F2")


@pytest.mark.skipif(not SHARED.is_dir(), reason="TFPERF_SHARED names no folder with real tables")
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_real_tables_give_the_known_pack(tables, tmp_path, every):
    with h5py.File(SHARED / "dis_nnlo.h5") as known:
        names = [n for n in known if n not in ("x", "positivity") and (every or n in QUICK)]
        positive = list(known["positivity"])[: None if every else 1]
        sets = [f"{n}:{known[n].attrs['variant']}" for n in names] + positive
        output = import_nnpdf(SHARED / "fk_pineappl", sets, tmp_path / "pack.h5")
        validate(output)
        with h5py.File(output) as made:
            assert agree(made["x"][:], known["x"][:])
            for place in (*names, *(f"positivity/{p}" for p in positive)):
                for field in set(known[place]) - {"sys", "sys_names", "sys_is_mult", "covmat"}:
                    assert agree(made[place][field][:], known[place][field][:]), (place, field)
            for name in names:
                sys, kinds = made[name]["sys"][:], made[name]["sys_names"].asstr()[:].tolist()
                alone = np.array([k.endswith("UNCORR") for k in kinds])
                covmat = (
                    np.diag(made[name]["stat"][:] ** 2 + (sys[:, alone] ** 2).sum(1))
                    + sys[:, ~alone] @ sys[:, ~alone].T
                )
                assert agree(covmat, known[name]["covmat"][:]), name
                assert sorted(kinds) == sorted(known[name]["sys_names"].asstr()[:].tolist())
