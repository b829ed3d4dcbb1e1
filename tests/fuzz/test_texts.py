"""Damaged texts and tables of translations are refused, or give the pairs that Python's own reading gives."""

import gzip
import os

import h5py
import pytest
from hypothesis import strategies as st

from tests.fuzz.attack import attack, each_of
from tests.fuzz.damage import MARKS, flipped
from tests.fuzz.hdf5 import edits

SENTENCES = [("A file.", "Eine Datei."), ("Open  it", "\u00d6ffnen"), ("", "leer"), ("x\u2028y", "z"),
             ("1\x0b2\x1c3", "\u00a0"), ("q" * 40, "r\ts".replace("\t", " ")), ("\U0001f600", "e\u0301")]  # fmt: skip
SOURCE, TARGET = ("".join(f"{pair[i]}\n" for pair in SENTENCES).encode() for i in range(2))
TABLE = ("id\ten\tde\n" + "".join(f"{i}\t{a}\t{b}\n" for i, (a, b) in enumerate(SENTENCES))).encode()
BOMBS = (b"", b"\n" * 10**6, b"\t" * 10**6, b"\x00" * 10**6, b"\xff\xfea\x00", b"x" * 20_000 + b"\n",
         b"en\tde\n" + b"a\tb\n" * 9,
         b"\xef\xbb\xbfen\tde\na\tb\n", b"en\ten\nx\ty\n", b"en\tde\r\na\tb\r\n", b"en\tde\ra\tb\r")  # fmt: skip


def texts(content):
    """Damaged text: flipped bytes, marks put in, lines lost."""
    marks = st.tuples(st.integers(0, len(content)), st.sampled_from([mark.encode() for mark in MARKS]))
    put = marks.map(lambda one: content[: one[0]] + one[1] + content[one[0] :])
    lost = st.integers(0, content.count(b"\n")).map(lambda n: b"\n".join(content.split(b"\n")[:n]))
    return st.one_of(flipped(content), put, put, lost)


@each_of(20, 250)
def test_damaged_lines_are_refused_or_give_their_pairs(cases, tmp_path, worker):
    source, target = tmp_path / "source", tmp_path / "target"

    def ask(case):
        source.write_bytes(case[0])
        target.write_bytes(case[1])
        return worker.ask("tests.fuzz.texts:compare_lines", source, target)[0]

    both = st.tuples(texts(SOURCE), st.just(TARGET)) | st.tuples(texts(SOURCE), texts(TARGET))
    attack(cases, both, ask, *((one, one) for one in BOMBS), (TARGET, SOURCE))


@each_of(20, 250)
def test_a_damaged_table_is_refused_or_gives_its_pairs(cases, tmp_path, worker):
    path = tmp_path / "table.tsv"
    attack(cases, texts(TABLE), lambda content: _ask(worker, path, content), *BOMBS)


@each_of(20, 200)
def test_a_damaged_packed_table_is_refused_or_gives_its_pairs(cases, tmp_path, worker):
    path, packed = tmp_path / "table.tsv.gz", gzip.compress(TABLE, mtime=0)
    several = packed + gzip.compress(b"9\ta\tb\n", mtime=0)
    bomb = gzip.compress(b"en\tde\n" + b"x" * (3 * 10**7), mtime=0)
    bombs = packed, several, packed + b"rest", bomb, *BOMBS[:2]
    attack(cases, flipped(packed), lambda content: _ask(worker, path, content), *bombs)


def _ask(worker, path, content):
    path.write_bytes(content)
    return worker.ask("tests.fuzz.texts:compare_table", path)[0]


@each_of(20, 250)
def test_damaged_arrays_of_texts_are_refused_or_give_their_pairs(cases, tmp_path, worker):
    good, path = tmp_path / "good.h5", tmp_path / "texts.h5"
    with h5py.File(good, "w") as file:
        for i, name in enumerate(("source", "target")):
            file.create_dataset(name, data=[pair[i] for pair in SENTENCES * 30], dtype=h5py.string_dtype(), chunks=True)
    whole = good.read_bytes()

    def ask(case):
        path.write_bytes(case[0])
        return worker.ask("tests.fuzz.texts:compare_hdf5", path, case[1])[0]

    damaged = st.tuples(flipped(whole), st.just([])) | st.tuples(st.just(whole), edits(good))
    attack(cases, damaged, ask, (whole, []), (b"", []))


@pytest.mark.parametrize("kind", ["pipe", "endless", "loop", "folder"])
@pytest.mark.parametrize("check", ["compare_table", "compare_lines", "compare_hdf5"])
def test_what_is_no_text_is_refused_at_once(kind, check, tmp_path, worker):
    path = tmp_path / "text"
    {"folder": path.mkdir, "pipe": lambda: os.mkfifo(path), "endless": lambda: path.symlink_to("/dev/zero"),
     "loop": lambda: path.symlink_to(path)}[kind]()  # fmt: skip
    arguments = {"compare_table": [path], "compare_lines": [path, path], "compare_hdf5": [path, []]}[check]
    assert worker.ask(f"tests.fuzz.texts:{check}", *arguments)[0] == "refused"
