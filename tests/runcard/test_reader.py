"""What the YAML reader takes for numbers, text, truth values and nothing, and what it refuses."""

import math
import os
import time

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.runcard.cards import SHIPPED, SHORT, faults, write
from tfperf.errors import CardError
from tfperf.runcard.loader import MAX_BYTES
from tfperf.runcard.scalars import dump, dump_inline, parse_scalar
from tfperf.runcard.tree import parse_tree
from tfperf.workloads.pdf.cards import load_card

PRINTABLE = st.text(st.characters(exclude_categories=("Cc", "Cs")))


def read(text):
    root, found = parse_tree(text, lambda line: (line, str(line)))
    return (None if root is None else root.to_plain()), [f"{f.location}: {f.text}" for f in found]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-4", 1e-4), ("1E5", 1e5), ("6.", 6.0), (".5", 0.5), ("-1.5e+3", -1500.0), ("+2e0", 2.0),
        ("12", 12), ("-3", -3), ("0", 0), ("true", True), ("False", False), ("null", None), ("~", None), ("", None),
        (".inf", math.inf), ("-.INF", -math.inf),
        ("yes", "yes"), ("no", "no"), ("on", "on"), ("Off", "Off"), ("y", "y"), ("tRUE", "tRUE"),
        ("010", "010"), ("0o10", "0o10"), ("0x10", "0x10"), ("0b1", "0b1"), ("1_000", "1_000"), ("1:30", "1:30"),
        ("12:30:45", "12:30:45"), ("2024-01-31", "2024-01-31"), ("101-200", "101-200"), ("1e", "1e"), (".", "."),
        ("1.2.3", "1.2.3"), ("e5", "e5"), ("-", "-"), ("<<", "<<"), ("=", "="), ("9" * 101, "9" * 101),
    ],
)  # fmt: skip
def test_plain_scalars_are_those_of_yaml_1_2(text, value):
    assert (parse_scalar(text), type(parse_scalar(text))) == (value, type(value))
    if text not in ("", "-"):
        assert read(f"a: {text}") == ({"a": value}, [])


def test_nan_is_a_number():
    value = parse_scalar(".NaN")
    assert isinstance(value, float) and math.isnan(value)


def test_quoted_scalars_are_text():
    assert read("a: '1e-4'\nb: \"true\"\nc: ''")[0] == {"a": "1e-4", "b": "true", "c": ""}


@settings(deadline=None, max_examples=60)
@given(PRINTABLE | st.sampled_from(["1e-4", "yes", "null", "", "~", "010", "<<", "- a", "a: b", "x\ny", " "]))
def test_any_text_survives_dump_and_read(text):
    assert read(dump({"a": text, "b": [text]})) == ({"a": text, "b": [text]}, [])
    assert read(dump_inline([text])) == ([text], [])


@settings(deadline=None, max_examples=60)
@given(st.recursive(PRINTABLE | st.floats(allow_nan=False) | st.none() | st.booleans(), st.lists, max_leaves=5))
def test_readers_of_yaml_1_1_read_the_same(value):
    assert yaml.safe_load(dump({"a": value})) == {"a": value}


@settings(deadline=None, max_examples=60)
@given(st.floats(allow_nan=False) | st.integers(-(10**90), 10**90) | st.booleans() | st.none())
def test_any_scalar_survives_dump_and_read(value):
    back = read(dump({"a": value}))[0]["a"]
    assert (back, type(back)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a: &x 1\nb: *x", "1: a: got the anchor &x; write values out where they are used"),
        ("a: 1\nb: *x", "2: b: got the alias *x; write the value out"),
        ("a: {}\nb:\n  <<: {c: 1}", "3: b.<<: merge keys are not read; write the keys out"),
        ("a: 1\nb: !!int 2", "2: b: got the tag tag:yaml.org,2002:int; values have no tags"),
        ("a: !x [1]", "1: a: got the tag !x; values have no tags"),
        ("a: ! x", "1: a: got the tag !; values have no tags"),
        ("a: 1\nb:\n  c: 2\n  c: 3", "4: b.c: given twice, first in line 3; a key may be given once"),
        ("a: 1\n'a': 2", "2: a: given twice, first in line 1; a key may be given once"),
        ("a: 1\n---\nb: 2", "2: a second document starts here; a card is one"),
        ("a: 1\n1.5: 2", "2: got 1.5 as a key; a key is text"),
        ("a: 1\n~: 2", "2: got ~ as a key; a key is text"),
        ("a:\n  true: 2", "2: a: got true as a key; a key is text"),
        ("? [1, 2]\n: 3", "1: got [1, 2] as a key; a key is text"),
        ("? {a: 1}\n: 3", "1: got a mapping as a key; a key is text"),
        ('a: 1\nb: "x\\0y"', "2: b: got the control character '\\x00'; text is printable"),
        ('a: "\\ud800"', "1: a: got the control character '\\ud800'; text is printable"),
        ("a: 1\nb: \x07", "2: got the control character '\\x07'; a card is printable text"),
        ("a: [1,\nb: 2", "2: not readable as YAML: expected ',' or ']', but got '<stream end>' while parsing a flow"),
        ("a:\n\tb: 1", "2: not readable as YAML: found character '\\t' that cannot start any token"),
    ],
)
def test_what_a_card_must_not_contain(text, fault):
    assert fault in [f[: len(fault)] for f in read(text)[1]]


def test_nesting_is_limited_and_stops_the_reading_at_once():
    levels = "a: " + "[" * 10 + "1" + "]" * 10
    assert read("a: " + "[" * 9 + "1" + "]" * 9)[1] == []
    assert read(levels)[1] == ["1: a.0.0.0.0.0.0.0.0.0.0: nested deeper than 10 levels"]
    for opening in ("[", "{a: ", "- ", "? "):
        start = time.process_time()
        assert read(opening * (MAX_BYTES // len(opening)))[1][-1].endswith("nested deeper than 10 levels")
        assert time.process_time() - start < 1


def test_billion_laughs_do_not_expand(tmp_path):
    lines = ["a0: &a0 [lol, lol]"] + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 10)]
    start = time.process_time()
    found = faults(tmp_path, "\n".join(lines))
    assert time.process_time() - start < 1
    assert "2: a1: got the anchor &a1; write values out where they are used" in found
    assert [f for f in found if f.startswith("2: a1.8")] == ["2: a1.8: got the alias *a0; write the value out"]
    assert "1: a0: got the anchor &a0; write values out where they are used" in found


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "1: the card is empty; `tfperf init` writes an example"),
        (b"# nothing\n\n", "1: the card is empty; `tfperf init` writes an example"),
        (b"seed: 1\ntitle: \xe9t\xe9\n", "2: got the byte 0xe9; a card is UTF-8 text"),
        ("seed: 1".encode("utf-16"), "1: got the byte 0xff; a card is UTF-8 text"),
        (b"seed: 1\ntitle: a\0b", "2: got the control character '\\x00'; a card is printable text"),
        (b"#" * (MAX_BYTES + 1), " longer than 262144 bytes; a runcard is a short text"),
    ],
)
def test_files_that_are_no_card(content, fault, tmp_path):
    assert faults(tmp_path, content) == [fault]


def test_utf8_and_a_byte_order_mark_are_read(tmp_path):
    assert load_card(write(tmp_path, "\ufefftitle: été\n" + SHORT)).title == "été"


def test_a_missing_file_a_folder_and_a_pipe_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name, what in (("nothing.yaml", "no such file"), ("", "a folder"), ("pipe", "no plain file")):
        with pytest.raises(CardError) as caught:
            load_card(tmp_path / name)
        assert str(caught.value) == f"{tmp_path / name}: {what}; a runcard is a YAML file"


def test_no_more_than_the_limit_is_read(tmp_path):
    path = write(tmp_path, b"")
    os.truncate(path, 2**40)  # sparse: reading it all would not fit in memory
    with pytest.raises(CardError, match="longer than 262144 bytes"):
        load_card(path)


def test_a_large_card_of_faults_is_refused_in_time_and_at_bearable_length(tmp_path):
    text = "".join(f"key{i}: {i}\n" for i in range(15_000))
    found = faults(tmp_path, text)
    assert len(found) == 101
    assert found[-1].endswith(f"... and {15_000 + 3 - 100} more")


def test_a_card_loads_in_less_than_50_ms(tmp_path):
    path = write(tmp_path, SHIPPED["pdf_dis.yaml"])
    seconds = []
    for _ in range(5):
        start = time.process_time()
        load_card(path)
        seconds.append(time.process_time() - start)
    assert min(seconds) < 0.05


def test_pyyaml_alone_would_have_misread():
    """The traps are real: without the strict reader these would pass silently."""
    assert yaml.safe_load("a: 1e-4\nb: no\nc: 010\nd: 1:30\na: 2") == {"a": 2, "b": False, "c": 8, "d": 90}
