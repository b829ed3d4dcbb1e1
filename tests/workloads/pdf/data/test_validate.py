import os
from pathlib import Path

import h5py
import numpy as np
import pytest

from tests.workloads.pdf.data.packs import faults, replace
from tfperf.workloads.pdf.data.validate import validate

SHIPPED = Path(__file__).parents[4] / "data" / "dis_nlo" / "dis_nlo.h5"


def test_good_packs_pass(good):
    validate(good)
    validate(SHIPPED)


def put(place, index, value):
    def change(file):
        values = file[place][()]
        values[index] = value
        replace(file, place, values)

    return change


def attribute(place, name, value):
    def change(file):
        file[place].attrs[name] = value

    return change


def no_attribute(place, name):
    def change(file):
        del file[place].attrs[name]

    return change


def together(*changes):
    def change(file):
        for c in changes:
            c(file)

    return change


SINGLE = {
    "x falls": ("x", "increase", put("x", 1, 1e-5)),
    "x doubled": ("x", "increase", put("x", 1, 1e-4)),
    "x zero": ("x", "(0, 1]", put("x", 0, 0.0)),
    "x above one": ("x", "(0, 1]", put("x", 4, 1.5)),
    "flavour unknown": ("TOY_F2/flav", "0 to 13", put("TOY_F2/flav", 0, 14)),
    "flavour negative": ("TOY_F2/flav", "-1", put("TOY_F2/flav", 0, -1)),
    "flavour twice": ("TOY_F2/flav", "once", put("TOY_F2/flav", 0, 2)),
    "channel unknown": ("TOY_PP/channels", "0 to 13", put("TOY_PP/channels", (0, 1), 14)),
    "channel twice": ("TOY_PP/channels", "once", put("TOY_PP/channels", (0, 1), 2)),
    "channel falling": ("TOY_PP/channels", "falling", put("TOY_PP/channels", 1, (2, 1))),
    "positivity flavour": ("positivity/TOY_POS/flav", "0 to 13", put("positivity/TOY_POS/flav", 0, 99)),
    "operation": ("TOY_DP/operation", "did you mean RATIO", attribute("TOY_DP", "operation", "RATO")),
    "operation number": ("TOY_DP/operation", "must be one of", attribute("TOY_DP", "operation", 3)),
    "no operation": ("TOY_DP/operation", "must be one of", no_attribute("TOY_DP", "operation")),
    "tables of another operation": ("TOY_F2/fk_a", "missing", attribute("TOY_F2", "operation", "ADD")),
    "stat negative": ("TOY_F2/stat", "point 2 (1 of 4)", put("TOY_F2/stat", 2, -0.1)),
    "no error": (
        "TOY_F2/stat", "no error at all", together(put("TOY_F2/stat", 1, 0.0), put("TOY_F2/sys", 1, 0.0))
    ),
    "cuts fall": ("TOY_F2/cuts", "increase", put("TOY_F2/cuts", 2, 0)),
    "cuts doubled": ("TOY_F2/cuts", "increase", put("TOY_F2/cuts", 2, 3)),
    "cuts negative": ("TOY_F2/cuts", "from 0", put("TOY_F2/cuts", 0, -1)),
    "no kin columns": ("TOY_F2/kin", "columns", no_attribute("TOY_F2/kin", "columns")),
    "kin columns short": ("TOY_F2/kin", "columns", attribute("TOY_F2/kin", "columns", ["x", "Q2"])),
    "kin columns swapped": ("TOY_F2/kin", "x and Q2 first", attribute("TOY_F2/kin", "columns", ["Q2", "x", "y"])),
    "kin x": ("TOY_F2/kin", "point 3", put("TOY_F2/kin", (3, 0), 1.5)),
    "kin q2": ("TOY_F2/kin", "Q2", put("TOY_F2/kin", (3, 1), -2.0)),
    "t0 zero": ("TOY_F2/t0", "multiplicative", put("TOY_F2/t0", 0, 0.0)),
    "cv zero": ("TOY_F2/cv", "multiplicative", put("TOY_F2/cv", 0, 0.0)),
    "name twice": ("TOY_F2/sys_names", "LUMI0 twice", put("TOY_F2/sys_names", 1, b"LUMI0")),
    "name empty": ("TOY_F2/sys_names", "empty", put("TOY_F2/sys_names", 1, b"")),
    "name no text": ("TOY_F2/sys_names", "UTF-8", put("TOY_F2/sys_names", 1, b"\xff\xfe")),
    "label": ("TOY_F2/label", "text", attribute("TOY_F2", "label", 3)),
    "unknown field": ("TOY_F2/satt", "did you mean stat", lambda f: f.move("TOY_F2/stat", "TOY_F2/satt")),
    "q0": ("/Q0", "positive", attribute("/", "Q0", 0.0)),
    "no q0": ("/Q0", "positive", no_attribute("/", "Q0")),
    "provenance": ("/provenance", "text", no_attribute("/", "provenance")),
    "flavour names": ("/flavours", "photon sigma", attribute("/", "flavours", ["g", "sigma"])),
    "set is a link": ("NEW", "SoftLink", lambda f: f.update({"NEW": h5py.SoftLink("/TOY_DP")})),
    "set elsewhere": ("NEW", "ExternalLink", lambda f: f.update({"NEW": h5py.ExternalLink("a.h5", "/TOY_F2")})),
    "set is an array": ("NEW", "an array", lambda f: f.update({"NEW": np.ones(3)})),
    "positivity is an array": (
        "positivity", "an array", lambda f: (f.pop("positivity"), f.update({"positivity": np.ones(3)}))
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SINGLE)
def test_faulty_values_are_named(good, case):
    place, text, change = SINGLE[case]
    with h5py.File(good, "r+") as file:
        change(file)
    wanted = [line for line in faults(good) if line.startswith(f"{good}: {place}: ")]
    assert wanted, faults(good)
    assert any(text in line for line in wanted), wanted


def test_all_faults_come_at_once(good):
    with h5py.File(good, "r+") as file:
        for case in ("x falls", "operation", "stat negative", "channel unknown", "positivity flavour"):
            SINGLE[case][2](file)
    assert len(faults(good)) == 5


@pytest.mark.parametrize("kind", ["c16", "V4", "i4,f8"])
def test_an_empty_array_of_no_number_is_refused(good, kind):
    with h5py.File(good, "r+") as file:
        replace(file, "TOY_PP/sys", np.zeros((3, 0), kind))
    (line,) = faults(good)
    assert "TOY_PP/sys: got type" in line


def test_empty_pack_is_refused(good):
    with h5py.File(good, "r+") as file:
        for name in ("TOY_F2", "TOY_DP", "TOY_PP"):
            del file[name]
    assert "no dataset" in faults(good)[0]


@pytest.mark.parametrize("layout", [2, 0, "1", 1.0])
def test_other_layouts_are_refused_without_further_judgement(good, layout):
    with h5py.File(good, "r+") as file:
        file.attrs["layout"] = layout
        del file["TOY_F2/stat"]
    (line,) = faults(good)
    assert "/layout" in line and "layout 1" in line


def test_a_file_without_layout_counts_as_version_1(good):
    with h5py.File(good, "r+") as file:
        del file.attrs["layout"]
    validate(good)


def test_a_flipped_byte_in_an_array_is_found(good):
    place = "TOY_DP/fk_num"
    with h5py.File(good) as file:
        offset = file[place].id.get_chunk_info(0).byte_offset
    content = bytearray(good.read_bytes())
    content[offset + 3] ^= 16
    good.write_bytes(content)
    (line,) = faults(good)
    assert f"{place}: cannot be read" in line


def test_a_flipped_byte_in_the_list_of_a_group_is_found(good):
    content = bytearray(good.read_bytes())
    content[content.index(b"FHDB") + 30] ^= 16  # HDF5's signature of the block that holds the names
    good.write_bytes(content)
    (line,) = faults(good)
    assert "cannot be read" in line and "undamaged group" in line


@pytest.mark.parametrize("content", [b"", b"no pack", None])
def test_what_is_no_whole_hdf5_file_is_refused(good, content):
    good.write_bytes(good.read_bytes()[:-100] if content is None else content)
    (line,) = faults(good)
    assert str(good) in line and "cannot be read as an HDF5 data pack" in line


def test_a_missing_file_is_refused(tmp_path):
    assert "none.h5" in faults(tmp_path / "none.h5")[0]


@pytest.mark.skipif("TFPERF_SHARED" not in os.environ, reason="TFPERF_SHARED names no folder with larger packs")
@pytest.mark.parametrize("name", ["dis_nnlo.h5", "dy_nnlo.h5"])
def test_larger_packs_pass(name):
    validate(Path(os.environ["TFPERF_SHARED"]) / "data" / name)
