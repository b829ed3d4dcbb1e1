import os
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest

from tests.data.packs import groups, write_good
from tfperf.data.validate import validate
from tfperf.errors import PackError

OPTIONAL = {"t0", "covmat"}
SHIPPED = Path(__file__).parents[2] / "data" / "dis_nlo" / "dis_nlo.h5"


def paths_of_arrays():
    """set/field of every array of the good pack."""
    with h5py.File.in_memory() as file:
        for group in groups():
            for name, values in group.arrays.items():
                file[f"{group.name}/{name}"] = values
        found = {"x": np.zeros(5)}
        file.visititems(lambda path, item: found.update({path: item[()]} if isinstance(item, h5py.Dataset) else {}))
        return found


ARRAYS = paths_of_arrays()


def faults(path):
    with pytest.raises(PackError) as caught:
        validate(path)
    return list(caught.value.faults)


def replace(file, place, values):
    attributes = dict(file[place].attrs)
    del file[place]
    file[place] = values
    file[place].attrs.update(attributes)


def names(lines, place):
    """Whether a fault names the set and the field."""
    group, _, field = place.rpartition("/")
    told = [line.split(": ", 1)[1] for line in lines]
    return any((line.startswith(f"{group}/") or not group) and field in line for line in told)


def remove(file, place, values):
    if place.rpartition("/")[2] in OPTIONAL or place == "positivity/TOY_POS/kin":
        raise StillGoodError
    del file[place]


def make_group(file, place, values):
    del file[place]
    file.create_group(place)


def change_type(file, place, values):
    if not values.size:
        raise StillGoodError
    replace(file, place, np.ones(values.shape, np.int8 if values.dtype.kind in "fS" else float))


def make_nan(file, place, values):
    if values.dtype.kind != "f" or not values.size:
        raise StillGoodError
    values.flat[values.size // 2] = np.nan
    replace(file, place, values)


def leave_unwritten(file, place, values):
    if not values.size:
        raise StillGoodError
    del file[place]
    file.create_dataset(place, values.shape, values.dtype)


def link_to(target):
    def change(file, place, values):
        del file[place]
        file[place] = target

    return change


def store_elsewhere(file, place, values):
    if values.dtype.kind not in "fi" or not values.size:
        raise StillGoodError
    del file[place]
    file.create_dataset(place, values.shape, values.dtype, external=[("/etc/hostname", 0, values.nbytes)])


def shorten(axis):
    def change(file, place, values):
        alone = (place, axis) == ("positivity/TOY_POS_PP/fk", 0)  # nothing else there has points to disagree with
        if axis >= values.ndim or values.shape[axis] < 2 or alone:
            raise StillGoodError
        replace(file, place, np.delete(values, -1, axis))

    return change


class StillGoodError(Exception):
    """The mutation would leave a good pack."""


MUTATIONS = {
    "missing": remove,
    "extra dimension": lambda file, place, values: replace(file, place, values[None]),
    "group": make_group,
    "type": change_type,
    "not finite": make_nan,
    "never written": leave_unwritten,
    "soft link": link_to(h5py.SoftLink("/TOY_F2/fk")),
    "external link": link_to(h5py.ExternalLink("other.h5", "/fk")),
    "external storage": store_elsewhere,
    **{f"shorter axis {axis}": shorten(axis) for axis in range(4)},
}


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return write_good(tmp_path_factory.mktemp("pack") / "good.h5")


@pytest.fixture
def good(original, tmp_path):
    return Path(shutil.copy(original, tmp_path))


def test_good_packs_pass(good):
    validate(good)
    validate(SHIPPED)


@pytest.mark.parametrize("how", MUTATIONS)
@pytest.mark.parametrize("place", ARRAYS)
def test_every_spoiled_array_is_named(good, place, how):
    with h5py.File(good, "r+") as file:
        try:
            MUTATIONS[how](file, place, file[place][()])
        except StillGoodError:
            return
    lines = faults(good)
    assert all(line.startswith(f"{good}: ") for line in lines)
    if (place, how) == ("positivity/TOY_POS/fk", "shorter axis 0"):
        place = "positivity/TOY_POS/kin"  # one against one: the table is believed
    assert names(lines, place), lines


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
