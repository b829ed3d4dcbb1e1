"""What an import takes of the theory of tables: order, coupling, masses, and no photon."""

import json

import h5py
import pytest

from tests.workloads.pdf.data.fk_writer import grid_nodes
from tests.workloads.pdf.data.test_nnpdf import make
from tfperf.errors import UserError
from tfperf.workloads.pdf.data.nnpdf import import_nnpdf


@pytest.mark.parametrize(
    ("name", "table", "bins", "channels", "hadrons"),
    [
        ("HERA_CC_318GEV_EM-SIGMARED", "HERA_CC_318GEV_EM_SIGMARED", 42, [(22,), (21,)], (2212,)),
        ("ATLAS_Z0_7TEV_46FB_CF-Y", "ATLAS_DY_7TEV_CF", 15, [(22, 100), (100, 100)], (2212, 2212)),
    ],
)
def test_a_photon_is_refused_unless_it_is_dropped(tables, tmp_path, name, table, bins, channels, hadrons):
    make(tables, table, bins, channels, x=grid_nodes(3), hadrons=hadrons)
    with pytest.raises(UserError, match="need a photon density, and fits have none; --drop-photon takes it as zero"):
        import_nnpdf(tables, [f"{name}:legacy"], tmp_path / "pack.h5")
    with h5py.File(import_nnpdf(tables, [f"{name}:legacy"], tmp_path / "pack.h5", drop_photon=True)) as file:
        group = file[name]
        assert 0 not in group["flav" if len(hadrons) == 1 else "channels"][:] and group["fk"][:].any()


def test_order_coupling_and_masses_are_those_of_the_tables(tables, tmp_path):
    theory = {"PTO": 2, "alphas": 0.118, "Qref": 91.2, "MZ": 91.1876, "mc": 1.51, "mb": 4.92, "mt": 172.5}
    make(tables, "HERA_CC_318GEV_EM_SIGMARED", 42, theory=theory)
    make(tables, "HERA_CC_318GEV_EP_SIGMARED", 39, theory=theory)
    names = ["HERA_CC_318GEV_EM-SIGMARED:legacy", "HERA_CC_318GEV_EP-SIGMARED:legacy"]
    with h5py.File(import_nnpdf(tables, names, tmp_path / "pack.h5")) as file:
        said = dict(file.attrs)
    assert said["order"] == "NNLO" and json.loads(said["theory"]) == theory
    assert [said[key] for key in ("alphas_mz", "mc", "mb", "mt", "mz")] == [0.118, 1.51, 4.92, 172.5, 91.1876]
    make(tables, "HERA_CC_318GEV_EP_SIGMARED", 39, theory={**theory, "alphas": 0.12, "PTO": 1})
    with pytest.raises(UserError, match=r"order is NLO; must be NNLO.*\n?.*alphas_mz is 0.12; must be 0.118"):
        import_nnpdf(tables, names, tmp_path / "other.h5")
    make(tables, "HERA_CC_318GEV_EP_SIGMARED", 39)  # one without a theory says nothing
    import_nnpdf(tables, names, tmp_path / "third.h5")
