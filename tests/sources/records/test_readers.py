"""Records of all formats by their numbers, against the same files read whole."""

import gzip
import os
import random
import resource

import h5py
import numpy as np
import pytest

from tfperf.errors import UserError
from tfperf.sources.records.files import list_files, make_natural_key
from tfperf.sources.records.opening import open_records
from tfperf.sources.records.readers import STRIDE


def check_ranges(records, whole, ids=None):
    """Any range is the same part of the whole."""
    count = len(next(iter(whole.values())))
    ids = np.arange(count) if ids is None else ids
    assert records.records == count and set(records.columns) == set(whole)
    draws = random.Random(1)
    drawn = [sorted(draws.sample(range(count + 1), 2)) for _ in range(30)]
    for first, last in [(0, count), (0, 1), (count - 1, count), *drawn]:
        columns, found = records.read(first, last)
        for name, values in whole.items():
            assert [*map(np.ndarray.tolist, map(np.asarray, columns[name]))] == [
                *map(np.ndarray.tolist, map(np.asarray, values[first:last]))
            ]
        assert list(found) == list(ids[first:last])


@pytest.mark.parametrize("count", [1, STRIDE - 1, STRIDE, STRIDE + 1, 3 * STRIDE + 7])
@pytest.mark.parametrize("ends_line", [True, False])
def test_lines(tmp_path, count, ends_line):
    texts = [f"line {number} ä {'x' * (number % 13)}" for number in range(count)]
    texts[count // 2] = ""
    (tmp_path / "part-2.txt").write_text("\n".join(texts) + ("\n" if ends_line or not texts[-1] else ""))
    (tmp_path / "part-10.txt").write_text("after\r\nit\n")
    found = open_records("lines", list_files([str(tmp_path / "part-*.txt")], "source.lines"))
    check_ranges(found, {"text": [*texts, "after", "it"]})


def test_bytes_that_are_no_text_stay_bytes(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"good\n\xff\xfe\nalso\n")
    columns, _ = open_records("lines", [tmp_path / "a.txt"]).read(0, 3)
    assert columns["text"] == ["good", b"\xff\xfe", "also"]


def test_parquet(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    names, scores, whole = [], [], 0
    for part, rows in ((2, 5), (10, 7)):
        text, score = [f"text {part} {row}" for row in range(rows)], np.arange(rows) * 0.5
        table = pa.table({"key": [f"k{whole + row}" for row in range(rows)], "text": text, "score": score})
        parquet.write_table(table, tmp_path / f"p{part}.parquet", row_group_size=3)
        names, scores, whole = names + text, [*scores, *score], whole + rows
    files = list_files([str(tmp_path / "*.parquet")], "source.parquet")
    keys = [f"k{number}".encode() for number in range(whole)]
    found = open_records("parquet", files, (), "key")
    check_ranges(found, {"text": names, "score": scores}, keys)
    assert found.find_id_type(4) == "|S3"
    with pytest.raises(UserError, match="no column words; it has: key, text, score"):
        open_records("parquet", files, ("words",))


def test_hdf5_of_groups_one_after_the_other(tmp_path):
    texts, numbers = [], []
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for group in (1, 2, 10):
            rows = [f"text {group} {row}" for row in range(group + 2)]
            file[f"batches/{group}/text"] = rows
            file[f"batches/{group}/id"] = np.arange(len(rows)) + 100 * group
            file[f"batches/{group}/x"] = np.full((len(rows), 2), group)
            texts, numbers = texts + rows, [*numbers, *(np.arange(len(rows)) + 100 * group)]
    found = open_records("hdf5", [tmp_path / "a.h5"], ("batches/*/text",), "batches/*/id")
    check_ranges(found, {"batches/*/text": texts}, numbers)
    assert found.find_id_type(3) == "<i8"
    faults = {("batches/*/words",): "has no dataset", ("batches/*/text", "batches/1/x"): "different numbers"}
    for columns, said in faults.items():
        with pytest.raises(UserError, match=said):
            open_records("hdf5", [tmp_path / "a.h5"], columns)


def test_npy(tmp_path):
    first, last = np.arange(12.0).reshape(4, 3), -np.arange(6.0).reshape(2, 3)
    np.save(tmp_path / "1.npy", first)
    np.save(tmp_path / "2.npy", last)
    found = open_records("npy", list_files([str(tmp_path / "*.npy")], "source.npy"))
    check_ranges(found, {"values": np.concatenate([first, last])})
    np.save(tmp_path / "3.npy", last[:, :2])
    with pytest.raises(UserError, match="rows differ"):
        open_records("npy", list_files([str(tmp_path / "*.npy")], "source.npy"))


def test_files_are_in_natural_order_and_each_once(tmp_path):
    for name in ("b10", "b9", "b1", "a2"):
        (tmp_path / name).touch()
    found = list_files([str(tmp_path / "b*"), str(tmp_path / "*")], "source.lines")
    assert [one.name for one in found] == ["b1", "b9", "b10", "a2"]
    with pytest.raises(UserError, match=r"source.lines.1: .*none.*: no such file"):
        list_files([str(tmp_path / "*"), str(tmp_path / "none*")], "source.lines")
    assert sorted(["1.10", "1.9", "01.9"], key=make_natural_key)[-1] == "1.10"


def test_files_without_records_and_damaged_ones_are_refused(tmp_path):
    (tmp_path / "a").touch()
    with pytest.raises(UserError, match="no records in"):
        open_records("lines", [tmp_path / "a"])
    for form in ("hdf5", "npy", "parquet"):
        with pytest.raises(UserError, match=f"source.{form}: .*cannot be read"):
            open_records(form, [tmp_path / "a"], ("x",) if form != "npy" else ())


def write_ids(path, ids, pa, parquet):
    parquet.write_table(pa.table({"key": ids, "x": pa.array([0.0] * len(ids))}), path)
    return path


def test_ids_of_all_files_are_of_one_kind(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    numbers = write_ids(tmp_path / "numbers.parquet", pa.array([1, 2]), pa, parquet)
    texts = write_ids(tmp_path / "texts.parquet", pa.array(["a", "longer"]), pa, parquet)
    large = write_ids(tmp_path / "large.parquet", pa.array([1, 2**63], pa.uint64()), pa, parquet)
    missing = write_ids(tmp_path / "missing.parquet", pa.array(["a", None]), pa, parquet)
    for files, told in (
        ([numbers, texts], "whole numbers in .*numbers.parquet, texts in .*texts.parquet; must be of one kind"),
        ([numbers, large], "large.parquet: has 9223372036854775808; must be at most"),
        ([texts, missing], "missing.parquet: got None; must be whole numbers, or texts"),
    ):
        with pytest.raises(UserError, match=told):
            open_records("parquet", files, ("x",), "key").find_id_type(1)
    assert open_records("parquet", [numbers], ("x",), "key").find_id_type(1) == "<i8"
    assert open_records("parquet", [texts], ("x",), "key").find_id_type(1) == "|S6"


def test_more_parquet_files_than_may_be_open(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    files = [write_ids(tmp_path / f"{n:03}.parquet", pa.array([n]), pa, parquet) for n in range(100)]
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 20, limits[1]))
    try:
        _, ids = open_records("parquet", files, ("x",), "key").read(0, 100)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert list(ids) == list(range(100))


def test_compressed_lines_are_refused(tmp_path):
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"one\ntwo\n"))
    with pytest.raises(UserError, match="is compressed by gzip; must be plain text"):
        open_records("lines", [tmp_path / "a.txt.gz"])
