import math
import time
from dataclasses import fields, is_dataclass, replace

import h5py
import numpy as np
import pytest

from tests.make_result import make_result
from tfperf.errors import RunDirectoryError
from tfperf.workloads.pdf.results import store


def assert_same_bits(got, want, rtol=0.0):
    """rtol: of floating-point numbers that were computed on another machine."""
    assert type(got) is type(want)
    if is_dataclass(want):
        for f in fields(want):
            assert_same_bits(getattr(got, f.name), getattr(want, f.name), rtol)
    elif isinstance(want, np.ndarray):
        assert got.dtype == want.dtype and got.shape == want.shape
        if rtol and got.dtype.kind == "f":
            np.testing.assert_allclose(got, want, rtol=rtol, atol=0)
            return
        assert got.tobytes() == want.tobytes()  # nan payloads and signed zeros count
    elif isinstance(want, dict):
        assert list(got) == list(want)
        for key in want:
            assert_same_bits(got[key], want[key], rtol)
    elif isinstance(want, tuple | list):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            assert_same_bits(g, w, rtol)
    else:
        assert got == want or (got != got and want != want) or (rtol and math.isclose(got, want, rel_tol=rtol))


def round_trip(tmp_path, result):
    store.write(tmp_path / "results.h5", result)
    return store.read(tmp_path / "results.h5")


def test_every_bit_comes_back(tmp_path):
    result = make_result(replicas=7, sets=3, points=90, failed=2, title="Übung «1» & <x>")
    result.weights["odd"] = np.resize(np.array([0.0, -0.0, np.inf, np.nan], dtype=np.float32), (7, 2))
    assert_same_bits(round_trip(tmp_path, result), result)


@pytest.mark.parametrize("change", [
    {"title": ""}, {"datasets": ()}, {"weights": {}}, {"summary": {"a": None, "b": ["ü", 1.5, True]}},
])  # fmt: skip
def test_empty_parts_come_back(tmp_path, change):
    assert_same_bits(round_trip(tmp_path, got := replace(make_result(), **change)), got)


def test_a_fit_without_replicas_points_or_history_comes_back(tmp_path):
    result = make_result(replicas=0, sets=1, points=0, rows=1, failed=0)
    assert_same_bits(round_trip(tmp_path, result), result)


def test_chi2_of_nan_comes_back(tmp_path):
    result = make_result(sets=1)
    result = replace(result, datasets=(replace(result.datasets[0], chi2=float("nan"), experiment="", kin_columns=()),))
    assert_same_bits(round_trip(tmp_path, result), result)


def test_the_same_result_gives_the_same_file(tmp_path):
    time.sleep(1 - time.time() % 1)  # HDF5 notes in which second a group was made
    for name in ("a.h5", "b.h5"):
        store.write(tmp_path / name, make_result())
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()


def test_units_text_and_checksums_are_in_the_file(tmp_path):
    path = tmp_path / "results.h5"
    store.write(path, make_result(replicas=30))
    with h5py.File(path) as file:
        plain = []
        file.visititems(lambda n, d: plain.append(n) if isinstance(d, h5py.Dataset) and not d.fletcher32 else None)
        assert plain == []
        assert file["replicas/chi2_training"].attrs["unit"] == "per point"
        assert file["pdf"].compression == "gzip"
        assert b" ".join(file["pdf"].attrs["flavours"]) == b"sigma g v v3 v8 t3 t8 t15"
        assert file.attrs["title"][0].decode() == make_result().title
        assert file["replicas/status"][1].decode() == "quarantined"
        assert file["weights/dense/kernel"].shape == (30, 2, 25)


def written(tmp_path):
    path = tmp_path / "results.h5"
    store.write(path, make_result())
    return path


@pytest.mark.parametrize("edit", [
    lambda f: f.attrs.__setitem__("layout", 2),
    lambda f: f.attrs.__setitem__("kind", "something else"),
    lambda f: f.attrs.__delitem__("layout"),
    lambda f: f.attrs.__delitem__("q0"),
    lambda f: f.__delitem__("pdf"),
    lambda f: f.__delitem__("replicas/status"),
    lambda f: f["datasets"].attrs.__setitem__("names", ["none"]),
    lambda f: f.attrs.__setitem__("title", 1.0),
    lambda f: f["summary"].__setitem__(0, b"{"),
])  # fmt: skip
def test_another_layout_or_a_missing_part_is_refused(tmp_path, edit):
    path = written(tmp_path)
    with h5py.File(path, "r+") as file:
        edit(file)
    with pytest.raises(RunDirectoryError, match=r"results\.h5: (got|damaged)"):
        store.read(path)


def test_a_flipped_bit_is_refused(tmp_path):
    path = written(tmp_path)
    with h5py.File(path) as file:
        where = file["x"].id.get_chunk_info(0).byte_offset
    content = bytearray(path.read_bytes())
    content[where + 3] ^= 1
    path.write_bytes(content)
    with pytest.raises(RunDirectoryError, match="damaged"):
        store.read(path)


def test_no_flipped_bit_changes_a_result_unseen(tmp_path):
    result = make_result(replicas=2, sets=1, rows=3)
    path = tmp_path / "results.h5"
    store.write(path, result)
    content, refused = path.read_bytes(), 0
    rng = np.random.default_rng(5)
    for position in rng.integers(len(content), size=150):
        damaged = bytearray(content)
        damaged[position] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        try:
            assert_same_bits(store.read(path), result)  # the bit was one that HDF5 does not use
        except RunDirectoryError:
            refused += 1
    assert refused > 75


def test_missing_foreign_and_cut_files_are_refused(tmp_path):
    with pytest.raises(RunDirectoryError, match="no such file"):
        store.read(tmp_path / "results.h5")
    path = written(tmp_path)
    path.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(RunDirectoryError, match="damaged"):
        store.read(path)
    path.write_text("no HDF5")
    with pytest.raises(RunDirectoryError, match="damaged"):
        store.read(path)
