"""Packs that claim more than a pack may hold, or hold nonsense, are refused before it is read."""

import os
import resource
import zlib

import h5py
import numpy as np
import pytest

from tests.workloads.pdf.data.packs import faults, replace
from tfperf.workloads.pdf.data import limits
from tfperf.workloads.pdf.data.validate import validate


def memory():
    """Largest memory of this process so far, bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def put_large(place, shape, chunks, written=1, dtype=np.float32, **more):
    """An array of that shape of which only some chunks are written."""

    def change(file):
        attributes = dict(file[place].attrs) if place in file else {}
        if place in file:
            del file[place]
        array = file.create_dataset(place, shape, dtype, chunks=chunks, **{"compression": "gzip", **more})
        content = zlib.compress(bytes(int(np.prod(chunks)) * array.dtype.itemsize), 1)
        for i in range(written):
            array.id.write_direct_chunk((i * chunks[0], *(0 for _ in chunks[1:])), content)
        array.attrs.update(attributes)

    return change


def inflate(file):
    """A small array whose only chunk becomes 60 MB, of which HDF5 takes the first four numbers without a word."""
    rows = file["TOY_F2/cv"].shape
    del file["TOY_F2/cv"]
    array = file.create_dataset("TOY_F2/cv", rows, np.float64, chunks=rows, compression="gzip")
    array.id.write_direct_chunk((0,), zlib.compress(np.ones(4).tobytes() + bytes(6 * 10**7)))


def widen(file):
    """A table of 80 MB for each point, on as many nodes as may be."""
    replace(file, "x", np.linspace(0.001, 1, 1000))
    replace(file, "positivity/TOY_POS_PP/channels", np.array([[1, i] for i in range(1, 11)]))
    put_large("positivity/TOY_POS_PP/fk", (3, 10, 1000, 1000), (1, 1, 1000, 1000), 3, np.float64)(file)


def list_often(file):
    for i in range(45):
        file[f"SET{i}"] = file["TOY_F2"]


def same_text_often(file):
    del file["TOY_F2/sys_names"]
    file.create_dataset("TOY_F2/sys_names", (3,), h5py.string_dtype(), data=["x" * 10**6] * 3)


def attribute(place, name, value):
    def change(file):
        file[place].attrs[name] = value

    return change


def put(place, value, index=0):
    def change(file):
        values = file[place][()]
        values[index] = value
        replace(file, place, values)

    return change


def filtered(**how):
    def change(file):
        values = file["TOY_F2/cv"][()]
        del file["TOY_F2/cv"]
        file.create_dataset("TOY_F2/cv", data=values, chunks=True, **how)

    return change


CLAIMS = {
    "x of 4e8 zeros": ("x", "at most 1000 nodes", put_large("x", (4 * 10**8,), (10**7,), 40)),
    "one array of many points": ("TOY_F2/cv", "must be (4)", put_large("TOY_F2/cv", (10**9,), (10**6,))),
    "points": (
        "positivity/TOY_POS_PP/fk", "at most 10000 points",
        put_large("positivity/TOY_POS_PP/fk", (10**6, 2, 5, 5), (10**4, 2, 5, 5), 100),
    ),
    "wide rows": ("positivity/TOY_POS_PP/fk", "80000000 bytes for each point", widen),
    "chunk that inflates": ("TOY_F2/cv", "longer than its values", inflate),
    "chunks that were not written": (
        "TOY_F2/fk", "1 of 4 chunks were written", put_large("TOY_F2/fk", (4, 5, 3), (1, 5, 3))
    ),
    "large chunks": (
        "TOY_F2/cv", "1 chunks of 80000000 bytes", put_large("TOY_F2/cv", (4,), (10**7,), 1, float, maxshape=(None,))
    ),
    "hard links": ("SET9/cv", "each array once", list_often),
    "long names of errors": ("TOY_F2/sys_names", "at most 200", same_text_often),
    "wide texts": ("TOY_F2/sys_names", "bytes", lambda f: replace(f, "TOY_F2/sys_names", np.full(3, b"x", "S50000"))),
    "large attribute": ("/", "attribute more", attribute("/", "more", np.zeros(10**6))),
    "many texts": ("TOY_F2", "attribute more", attribute("TOY_F2", "more", ["x"] * 1000)),
    "reference": ("TOY_F2", "attribute more", lambda f: attribute("TOY_F2", "more", f["x"].ref)(f)),
    "filter of one's own": ("TOY_F2/cv", "filter 32000", filtered(compression="lzf")),
    "scale and offset": ("TOY_F2/cv", "filter 6", filtered(scaleoffset=3)),
    "fields": ("TOY_F2", "at most 100", lambda f: [f["TOY_F2"].create_group(f"g{i}") for i in range(200)]),
    "sets": ("/", "at most 1000 sets", lambda f: [f.create_group(f"g{i}") for i in range(1010)]),
}  # fmt: skip
NONSENSE = {
    "cv": ("TOY_F2/cv", "beyond 1e+15", put("TOY_F2/cv", 1e308)),
    "stat": ("TOY_F2/stat", "beyond 1e+15", put("TOY_F2/stat", 1e16)),
    "sys": ("TOY_F2/sys", "beyond 1e+15", put("TOY_F2/sys", -1e20)),
    "t0": ("TOY_F2/t0", "beyond 1e+15", put("TOY_F2/t0", 1e300)),
    "table": ("TOY_F2/fk", "beyond 1e+15", put("TOY_F2/fk", 1e300)),
    "kin": ("TOY_F2/kin", "beyond 1e+15", put("TOY_F2/kin", 1e300, (0, 1))),
    "q0": ("/Q0", "0.1 to 10000", attribute("/", "Q0", 1e300)),
    "complex q0": ("/", "Q0 of type complex", attribute("/", "Q0", 1 + 1j)),
    "tiny x": ("x", "from 1e-12", put("x", 1e-300)),
    "tiny error": ("TOY_F2/stat", "errors below", lambda f: (put("TOY_F2/stat", 1e-300)(f), put("TOY_F2/sys", 0.0)(f))),
    "tiny cv": ("TOY_F2/cv", "nearly zero at point 0", put("TOY_F2/cv", 1e-300)),
    "row of a published set": ("TOY_F2/cuts", "up to 1000000000", put("TOY_F2/cuts", 2**62, 3)),
    "table of zeros": ("TOY_F2/fk", "zeros at point 0 (4 of 4)", put("TOY_F2/fk", 0.0, slice(None))),
    "row of zeros": ("TOY_F2/fk", "zeros at point 2 (1 of 4)", put("TOY_F2/fk", 0.0, 2)),
    "denominator of zeros": ("TOY_DP/fk_den", "zeros at point 0 (1 of 1)", put("TOY_DP/fk_den", 0.0, 0)),
    "numerator of zeros": ("TOY_DP/fk_num", "zeros at point 1 (1 of 4)", put("TOY_DP/fk_num", 0.0, 1)),
    "sum of zeros": (
        "TOY_PP/fk_a", "zeros at point 1", lambda f: (put("TOY_PP/fk_a", 0.0, 1)(f), put("TOY_PP/fk_b", 0.0, 1)(f))
    ),
    "positivity of zeros": ("positivity/TOY_POS/fk", "zeros at point 3", put("positivity/TOY_POS/fk", 0.0, 3)),
    "escape in a label": ("TOY_F2/label", "printable", attribute("TOY_F2", "label", "\x1b[2J")),
    "escape in an error": ("TOY_F2/sys_names", "printable", put("TOY_F2/sys_names", b"\x1b[2J")),
    "escape in a name": ("TOY_F2\\x1b[2J", "printable", lambda f: f.move("TOY_F2", "TOY_F2\x1b[2J")),
    "wide float": ("TOY_F2/cv", "beyond", lambda f: replace(f, "TOY_F2/cv", np.full(4, np.longdouble("1e4000")))),
}  # fmt: skip


@pytest.mark.parametrize("case", [*CLAIMS, *NONSENSE])
def test_what_no_pack_may_hold_is_named_and_not_read(good, case):
    place, text, change = {**CLAIMS, **NONSENSE}[case]
    with h5py.File(good, "r+") as file:
        change(file)
    before = memory()
    lines = faults(good)
    assert memory() - before < 1e8
    wanted = [line for line in lines if line.startswith((f"{good}: {place}: ", f"{good}: '{place}"))]
    assert wanted and any(text in line for line in wanted), lines
    assert sum(map(len, lines)) < 64_000 and "\x1b" not in "".join(lines)


def test_sums_of_which_one_table_is_zero_are_no_fault(good):
    with h5py.File(good, "r+") as file:
        put("TOY_PP/fk_a", 0.0, 1)(file)
    validate(good)


def test_faults_are_told_up_to_a_number(good):
    with h5py.File(good, "r+") as file:
        for i in range(300):
            file.create_group(f"EMPTY{i}")
    lines = faults(good)
    assert len(lines) == limits.FAULTS + 1 and "not listed" in lines[-1]


@pytest.mark.parametrize("what", ["pipe", "device", "folder", "loop"])
def test_what_is_no_file_is_refused(tmp_path, what):
    path = tmp_path / "pack.h5"
    {
        "pipe": os.mkfifo, "device": lambda p: p.symlink_to("/dev/zero"), "folder": lambda p: p.mkdir(),
        "loop": lambda p: p.symlink_to(p),
    }[what](path)  # fmt: skip
    (line,) = faults(path)
    assert line.startswith(f"{path}: cannot be read as an HDF5 data pack")
