"""Tables as samples: what pyarrow and pandas wrote is what is read, and what is no array is told by name."""

import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tfperf.errors import UserError
from tfperf.sources import table_files
from tfperf.sources.tables import read_table

SUFFIXES = [".csv", ".parquet"]
FLOATS = st.floats(allow_nan=False)
WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=9).map(lambda text: f"a{text}")
COLUMNS = st.sampled_from([st.integers(-(2**62), 2**62), FLOATS, st.booleans(), WORDS])
TABLES = st.integers(1, 8).flatmap(
    lambda rows: st.dictionaries(
        WORDS, COLUMNS.flatmap(lambda one: st.lists(one, min_size=rows, max_size=rows)), min_size=1, max_size=4
    )
)


def write(folder, suffix, columns):
    path = folder / f"table{suffix}"
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    (pc.write_csv if suffix == ".csv" else pq.write_table)(table, path)
    return path


def write_text(folder, text):
    path = folder / "table.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(max_examples=60, deadline=None)
@given(columns=TABLES)
def test_what_was_written_is_read(tmp_path_factory, suffix, columns):
    path = write(tmp_path_factory.getbasetemp(), suffix, columns)
    (found,) = read_table(path, [], [], None, True).data
    assert list(found) == list(columns)
    for name, values in columns.items():
        assert found[name].tolist() == values and found[name].shape == (len(values),)
        kinds = {int: "i", float: "f" if suffix == ".parquet" else "fi", bool: "b", str: "U"}  # 1.0 is 1 in a .csv file
        assert found[name].dtype.kind in kinds[type(values[0])]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_numbers_stand_side_by_side(tmp_path, suffix):
    columns = {"a": [1, 2, 3], "y": [0, 1, 0], "b": [0.5, 1.5, 2.5], "w": [1.0, 2.0, 3.0], "c": [True, False, True]}
    path = write(tmp_path, suffix, columns)
    x, y, w = read_table(path, [], ["y"], "w", False).data
    np.testing.assert_array_equal(x, np.transpose([columns[name] for name in "abc"]))
    assert x.dtype == np.float64 and y.dtype == np.int64 and y.tolist() == columns["y"] and w.tolist() == columns["w"]
    x, y = read_table(path, ["b", "a"], ["c", "y"], None, False).data
    np.testing.assert_array_equal(x, np.transpose([columns["b"], columns["a"]]))
    assert y.tolist() == [[1, 0], [0, 1], [1, 0]] and y.dtype == np.float64
    assert read_table(path, ["a"], [], None, False).data[0].shape == (3, 1)
    x, y = read_table(path, ["a"], ["c", "y"], None, True).data
    assert list(x) == ["a"] and x["a"].shape == (3,) and y["c"].dtype == np.bool_ and list(y) == ["c", "y"]


def test_float32_stays_where_it_holds_all(tmp_path):
    columns = {"a": pa.array([0.1, 0.2], pa.float32()), "b": pa.array([1, 2], pa.int16()), "c": pa.array([1, 2])}
    path = write(tmp_path, ".parquet", columns)
    assert read_table(path, ["a", "b"], ["a"], None, False).data[0].dtype == np.float32
    assert read_table(path, ["a", "c"], ["a"], None, False).data[0].dtype == np.float64
    assert read_table(path, ["c"], ["a"], None, False).data[1].dtype == np.float32


def test_types_of_parquet(tmp_path):
    table = pa.table({
        "half": np.array([0.5, 1.5, -2], np.float16), "tiny": pa.array([1, 2, 255], pa.uint8()),
        "price": pa.array([Decimal("0.25"), Decimal("-1.50"), Decimal("7")], pa.decimal128(9, 2)),
        "kind": pa.array(["b", "a", "b"]).dictionary_encode(), "long": pa.array(["é", "", "xyz"], pa.large_string()),
        "fixed": pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.int32(), 2)),
        "list": pa.array([[0.5], [1.5], [2.5]]), "big": pa.array([[1], [2], [3]], pa.large_list(pa.int64())),
    })  # fmt: skip
    path = tmp_path / "table.parquet"
    pq.write_table(table, path, row_group_size=2)  # columns come in two pieces then
    (found,) = read_table(path, [], [], None, True).data
    assert {name: array.dtype.str for name, array in found.items()} == {
        "half": "<f2", "tiny": "|u1", "price": "<f8", "kind": "<U1", "long": "<U3", "fixed": "<i4", "list": "<f8",
        "big": "<i8",
    }  # fmt: skip
    for name, array in found.items():
        assert array.tolist() == [float(v) if isinstance(v, Decimal) else v for v in table[name].to_pylist()], name
    x, y = read_table(path, ["fixed"], ["list"], None, False).data
    assert x.tolist() == [[1, 2], [3, 4], [5, 6]] and x.dtype == np.int32 and y.tolist() == [[0.5], [1.5], [2.5]]


def test_an_index_of_pandas_is_no_input(tmp_path):
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]}, index=pd.Index([7, 8], name="number"))
    frame.to_parquet(tmp_path / "table.parquet")
    assert list(read_table(tmp_path / "table.parquet", [], [], None, True).data[0]) == ["a", "b"]
    assert list(read_table(tmp_path / "table.parquet", ["number"], [], None, True).data[0]) == ["number"]
    frame.index.name = None
    frame.to_csv(tmp_path / "table.csv")
    with pytest.raises(UserError, match="column 1 has no name, as where pandas wrote an index"):
        read_table(tmp_path / "table.csv", [], ["b"], None, False)
    assert len(read_table(tmp_path / "table.csv", ["a"], ["b"], None, False)) == 2


def test_texts_of_csv_may_be_empty_or_have_several_lines(tmp_path):
    path = write_text(tmp_path, '\ufeffplace,y\r\n"x\r\ny, ""z""",1\r\n\r\n,2\r\nNA,3\r\n')
    x, y = read_table(path, ["place"], ["y"], None, True).data
    assert x["place"].tolist() == ['x\r\ny, "z"', "", "NA"] and y.tolist() == [1, 2, 3]


def test_types_are_those_of_all_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(table_files, "BLOCK", 64)
    path = write_text(tmp_path, "a,b\n" + "1,0\n" * 99 + "2.5,x\n")
    (found,) = read_table(path, [], [], None, True).data
    assert found["a"].tolist() == [1.0] * 99 + [2.5] and found["b"].tolist() == ["0"] * 99 + ["x"]


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.text('ab\n",', max_size=12).map(lambda text: f"a{text}"), min_size=1, max_size=30))
def test_lines_of_texts_may_lie_across_blocks(tmp_path, monkeypatch, texts):
    monkeypatch.setattr(table_files, "BLOCK", 64)
    path = write(tmp_path, ".csv", {"a": texts})
    assert read_table(path, [], [], None, True).data[0]["a"].tolist() == texts


def test_a_row_may_be_larger_than_a_block(tmp_path, monkeypatch):
    monkeypatch.setattr(table_files, "BLOCK", 64)
    texts = [f"{row}" * 99 + "x" for row in range(9)]
    assert read_table(write(tmp_path, ".csv", {"a": texts}), [], [], None, True).data[0]["a"].tolist() == texts
    monkeypatch.setattr(table_files, "LARGE_BLOCK", 64)
    with pytest.raises(UserError, match=r"table\.csv: cannot be read: "):
        read_table(tmp_path / "table.csv", [], [], None, True)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_columns_that_are_not_asked_for_are_not_read(tmp_path, suffix):
    if suffix == ".csv":
        path = write_text(tmp_path, b"a,other,twice,twice\n1,\xff,,\n2,2,,\n")
    else:
        arrays = [pa.array([1, 2]), pa.array([None, {"x": 1}]), pa.array([1, 2]), pa.array([1, 2])]
        path = write(tmp_path, suffix, pa.Table.from_arrays(arrays, ["a", "other", "twice", "twice"]))
    assert read_table(path, ["a"], ["a"], None, False).data[0].tolist() == [[1], [2]]
    assert table_files.open_table(path).read(["a"]).column_names == ["a"]
    with pytest.raises(UserError, match="has several columns twice; each must have a name of its own"):
        read_table(path, ["a", "twice"], [], None, False)
    with pytest.raises(UserError, match="column other: "):
        read_table(path, ["a"], ["other"], None, False)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "cannot be read: Empty CSV file"), ("\n\n", "cannot be read: "), ("a,y", "cannot be read: .*Empty CSV"),
        ("a,y\n", "has no rows"), ("a;y\n1;2\n", "has no column y; it has: a;y"), ("y\n1\n", "has no columns but the"),
        ("a,y\n1,2\n\n3\n", "row 2 has 1 values, the header 2: '3'; must be CSV in UTF-8"),
        ("a,y\n" + "1,2\n" * 99 + "1,2,3\n", "row 100 has 3 values, the header 2: '1,2,3'"),
        (b"a,y\xff\n1,2\n", "cannot be read: 'utf-8' codec"), ("a,y\n1,2\n".encode("utf-16"), "must be CSV in UTF-8"),
        (b"a,y\n1,2\nb\xff,3\n", r"column a: row 2 has b'b\\xff'; must be UTF-8"),
        ("a,y\n1,2\n,3\n,4\n", "column a: row 2 has no value"), ("a,y\n1,2\nnan,3\n", "column a: row 2 has no value"),
        ("a,y\n,2\n,3\n", "column a: row 1 has no value"), ("a,y\n1,\n2,3\n", "column y: row 1 has no value"),
        ("a,y\n1,2\n1 234,5\n", "column a: has texts, '1 234' in row 2; must be numbers; `data.inputs: "),
        ("a,y\n1,no\n2,yes\n", r"column y: has texts, 'no' in row 1; must be numbers; write classes as numbers 0, 1, "),
        ("a,y\n2020-01-31,2\n", r"column a: has type date32\[day\]; must be numbers, booleans, texts, or lists"),
    ],
)  # fmt: skip
def test_faults_of_csv_are_told(tmp_path, text, said):
    with pytest.raises(UserError, match=rf"table\.csv: .*{said}"):
        read_table(write_text(tmp_path, text), [], ["y"], None, False)


@pytest.mark.parametrize(
    ("values", "as_dict", "said"),
    [
        (pa.array([1, None, 3]), True, "row 2 has no value"), (pa.array(["a", None, "b"]), True, "row 2 has no value"),
        (pa.array([None, "a", "a"]).dictionary_encode(), True, "row 1 has no value"),
        (pa.array(["a", "b", "b"]).dictionary_encode(), False, "has texts, 'a' in row 1"),
        (pa.array([[1], [2], [3, 4]]), True, "row 3 has 2 numbers, row 1 has 1"),
        (pa.array([[], [], []], pa.list_(pa.int8())), True, "row 1 has 0 numbers, row 1 has 0"),
        (pa.array([[1, 2], [3, 4], [5, None]]), True, "row 3 has a list with a missing value"),
        (pa.array([[1], None, [3]]), True, "row 2 has no value"),
        (pa.array([[1], [2], [3]]), False, "has lists; must be numbers to stand in one array with others"),
        (pa.array([["a"], ["b"], ["c"]]), True, "has type list<"),
        (pa.array([[[1]], [[2]], [[3]]]), True, "has type list<"),
        (pa.array([{"a": 1}] * 3), True, "has type struct<"), (pa.array([b"a"] * 3), True, "has type binary"),
        (pa.array([1, 2, 3], pa.timestamp("ms")), True, r"has type timestamp\[ms\]"),
        (pa.array([1, 2, 3], pa.duration("s")), True, r"has type duration\[s\]"),
        (pa.nulls(3), True, "row 1 has no value"),
    ],
)  # fmt: skip
def test_columns_that_are_no_arrays_are_told_by_name(tmp_path, values, as_dict, said):
    path = write(tmp_path, ".parquet", {"a": [1, 2, 3], "odd": values})
    with pytest.raises(UserError, match=rf"table\.parquet: column odd: {said}"):
        read_table(path, [], [], None, as_dict)


def test_targets_and_weights_are_numbers(tmp_path):
    columns = {"a": [1, 2], "name": ["x", "y"], "pair": [[1, 2], [3, 4]]}
    path = write(tmp_path, ".parquet", columns)
    for targets, weights, as_dict, said in (
        (["name"], None, True, "column name: has texts, 'x' in row 1; must be numbers; write classes"),
        (["a", "pair"], None, False, "column pair: has lists"), (["a"], "pair", False, "column pair: has lists"),
        (["a"], "name", True, "column name: has texts"), ([], "a", True, "data.weights: got a without targets"),
        (["a", "none"], None, True, "has no column none; it has: a, name, pair"),
    ):  # fmt: skip
        with pytest.raises(UserError, match=said):
            read_table(path, ["a"], targets, weights, as_dict)


def test_damaged_files_are_refused(tmp_path):
    whole = write(tmp_path, ".parquet", {"a": np.random.default_rng(1).normal(size=2000)})
    content = whole.read_bytes()
    for bad in (b"", content[:-9], content[:1000], content[:4] + bytes(500) + content[504:]):
        whole.write_bytes(bad)
        with pytest.raises(UserError, match=r"table\.parquet: cannot be read: .*must be a whole Parquet file"):
            read_table(whole, [], [], None, False)
    for name, said in (("none.csv", "cannot be read"), ("folder.parquet", "it is a folder"), ("a.txt", "is no table")):
        (tmp_path / "folder.parquet").mkdir(exist_ok=True)
        with pytest.raises(UserError, match=rf"{name}: .*{said}"):
            read_table(tmp_path / name, [], [], None, False)


def test_a_changed_byte_is_found_where_pages_have_checksums(tmp_path):
    path, table = tmp_path / "table.parquet", pa.table({"a": np.random.default_rng(1).normal(size=2000)})
    pq.write_table(table, path, write_page_checksum=True, compression="none", use_dictionary=False)
    content = bytearray(path.read_bytes())
    content[8000] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"table\.parquet: cannot be read: .*(CRC|checksum)"):
        read_table(path, [], [], None, False)


def test_a_missing_pyarrow_is_told(tmp_path, monkeypatch):
    path = write(tmp_path, ".csv", {"a": [1]})
    for name in ("pyarrow", "pyarrow.csv"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UserError, match=r'^pyarrow cannot be imported .*: pip install "\.\[tables\]"'):
        read_table(path, [], [], None, False)
