import os
import resource
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from tests.workloads.pdf.data.packs import ATTRIBUTES, X, groups, write_good
from tfperf.errors import PackError, StorageError
from tfperf.workloads.pdf.data.pack import LAYOUT, OPERATIONS, open_pack, read_dataset, read_positivity
from tfperf.workloads.pdf.data.validate import AXES, FLAVOURS, MEASURED, OPTIONAL, validate
from tfperf.workloads.pdf.data.write import StoredSet, write_pack, write_t0

REPOSITORY = Path(__file__).parents[4]


def content(path):
    """Every array and attribute of a file, as comparable values."""
    found = {}

    def note(name, item):
        if isinstance(item, h5py.Dataset):
            found[name] = (item.dtype, item.shape, item[()].tobytes())
        found.update({f"{name}@{k}": np.asarray(v).tolist() for k, v in item.attrs.items()})

    with h5py.File(path) as file:
        file.visititems(note)
        note("", file)
    return found


def test_what_is_written_is_read_bit_for_bit(good):
    stored = content(good)
    for group in groups():
        for name, values in group.arrays.items():
            assert stored[f"{group.name}/{name}"] == (values.dtype, values.shape, values.tobytes())
        for name, value in group.attributes.items():
            assert stored[f"{group.name}@{name}"] == value
    assert stored["@layout"] == 1 and stored["@Q0"] == 1.65


def test_the_reader_understands_what_the_writer_wrote(good):
    with open_pack(good) as file:
        datasets = [read_dataset(file, name) for name in ("TOY_DP", "TOY_F2")]
        positive = read_positivity(file, "TOY_POS")
    wanted = {g.name: g for g in groups()}
    for dataset in datasets:
        arrays = wanted[dataset.name].arrays
        assert dataset.tables[0].channels == (("sigma",), ("g",), ("t3",))
        assert dataset.sys_names == ("UNCORR", "CORR", "LUMI0")
        assert np.array_equal(dataset.sys, arrays["sys"]) and np.array_equal(dataset.cuts, arrays["cuts"])
    assert np.array_equal(datasets[0].tables[1].read_values(), wanted["TOY_DP"].arrays["fk_den"])
    assert np.array_equal(positive.table.read_values(), wanted["positivity/TOY_POS"].arrays["fk"])


def test_tables_are_compressed_and_checksummed(tmp_path):
    (group,) = (g for g in groups() if g.name == "TOY_F2")
    zeros = np.zeros((500, *group.arrays["fk"].shape[1:]))
    zeros[:, 0, 0] = 1.0  # a row of nothing else is refused
    pad = {k: np.resize(v, (500, *v.shape[1:])) for k, v in group.arrays.items() if k[:3] not in ("sys", "fla", "cut")}
    kept = {k: v for k, v in group.arrays.items() if k in ("flav", "sys_names", "sys_is_mult")}
    rows = {"fk": zeros, "sys": np.resize(group.arrays["sys"], (500, 3)), "cuts": np.arange(500)}
    path = tmp_path / "large.h5"
    write_pack(path, X, ATTRIBUTES, [StoredSet("BIG", pad | kept | rows, group.attributes, group.columns)])
    with h5py.File(path) as file:
        assert file["BIG/fk"].id.get_storage_size() < zeros.nbytes / 20
        assert file["BIG/fk"].fletcher32 and file["BIG/cv"].fletcher32


def test_a_faulty_pack_never_gets_the_name(good):
    before = good.read_bytes()
    broken = [g for g in groups() if g.name != "TOY_F2"]
    broken[0].arrays["stat"][1] = -1.0
    broken[0].arrays["cuts"][0] = 9
    with pytest.raises(PackError) as caught:
        write_pack(good, X, ATTRIBUTES, broken)
    assert [f.split(": ")[1] for f in caught.value.faults] == ["TOY_DP/stat", "TOY_DP/cuts"]
    assert all(f.startswith(f"{good}: ") for f in caught.value.faults)
    assert good.read_bytes() == before
    assert list(good.parent.iterdir()) == [good]


def test_a_folder_that_does_not_exist_is_a_clear_error(tmp_path):
    with pytest.raises(StorageError, match="folder does not exist"):
        write_good(tmp_path / "nowhere" / "pack.h5")


def limit_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))


def test_a_full_disk_keeps_the_old_pack(good):
    before = good.read_bytes()
    assert len(before) > 2000
    code = (
        "import sys; from pathlib import Path; from tests.workloads.pdf.data.packs import write_good; "
        "write_good(Path(sys.argv[1]))"
    )
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONDONTWRITEBYTECODE": "1"}
    run = subprocess.run(
        [sys.executable, "-c", code, str(good)], preexec_fn=limit_files, env=environment, capture_output=True, text=True
    )
    assert run.returncode == 1 and "StorageError" in run.stderr, run.stderr
    assert good.read_bytes() == before


def test_t0_is_set_and_all_else_is_kept(good, tmp_path):
    target = tmp_path / "t0.h5"
    values = {"TOY_DP": np.array([1.0, 2.0, 3.0, 4.0]), "TOY_F2": np.array([5, 6, 7, 8], np.float32)}
    write_t0(good, target, values, "two iterations")
    old, new = content(good), content(target)
    changed = {k for k in old | new if old.get(k) != new.get(k)}
    added = {f"TOY_{s}{k}" for s in ("DP", "F2") for k in ("/t0", "@t0_provenance")}
    assert changed == added
    with h5py.File(target) as file:
        for name, wanted in values.items():
            t0 = read_dataset(file, name).t0
            assert t0 is not None and np.array_equal(t0, wanted)
            assert file[name].attrs["t0_provenance"] == "two iterations"


def test_t0_in_place_does_not_let_the_file_grow(good):
    values = {"TOY_F2": np.ones(4)}
    write_t0(good, good, values, "first")
    size = good.stat().st_size
    for _ in range(5):
        write_t0(good, good, values, "first")
    assert good.stat().st_size < size + 1000  # a t0 left behind takes over 2000 bytes


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"TOY_F3": np.ones(4)}, "TOY_F3: no such dataset, did you mean TOY_F2?"),
        ({"TOY_F2": np.ones(3)}, "TOY_F2/t0: got shape (3,)"),
        ({"TOY_F2": np.array([1, 1, np.nan, 1])}, "TOY_F2/t0: 1 of 4 values are not finite"),
        ({"TOY_F2": np.zeros(4)}, "TOY_F2/t0: zero at point 0 (4 of 4)"),
    ],
)
def test_useless_t0_is_refused(good, tmp_path, values, text):
    target = tmp_path / "t0.h5"
    with pytest.raises(PackError) as caught:
        write_t0(good, target, values, "bad")
    assert text in caught.value.faults[0] and not target.exists()


def test_the_example_of_the_documentation_makes_a_pack(tmp_path, monkeypatch):
    text = (REPOSITORY / "data" / "README.md").read_text()
    (code,) = (part.split("```")[0] for part in text.split("```python\n")[1:])
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})
    validate(tmp_path / "mine.h5")
    with open_pack(tmp_path / "mine.h5") as file:
        assert read_dataset(file, "MY_NC_F2").sys_names == ("MY_LUMINOSITY", "UNCORR")


def test_the_documented_layout_names_every_field_and_operation():
    text = (REPOSITORY / "data" / "README.md").read_text()
    for field in (*MEASURED, *OPTIONAL, *AXES, "fk"):
        assert f"`<set>/{field}`" in text, field
    for operation, tables in OPERATIONS.items():
        assert f"| {operation} | `{tables[0]}`" in text and f"`{tables[-1]}` |" in text, operation
    assert f"version {LAYOUT}" in text and " ".join(FLAVOURS) in text
