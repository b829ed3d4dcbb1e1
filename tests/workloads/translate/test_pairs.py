"""Sentence pairs from files, and the parts that they are put into."""

import gzip
import os
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfperf.errors import PackError
from tfperf.workloads.translate.pairs import LONGEST, Pairs, read_hdf5, read_lines, read_table, split_pairs

SHIPPED = Path(__file__).parents[3] / "data" / "gettext_en_de" / "pairs.tsv"
ENGLISH, GERMAN = ["A  dog runs .", "", "Two men\u2028talk."], ["Ein Hund läuft.", "leer", "Zwei Männer reden."]
WANT = Pairs(("A dog runs .", "Two men talk."), ("Ein Hund läuft.", "Zwei Männer reden."))


def lines(path, texts):
    content = "".join(f"{text}\n" for text in texts).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_lines_of_two_files_belong_together(tmp_path, suffix):
    files = [lines(tmp_path / f"{n}.txt{suffix}", texts) for n, texts in (("en", ENGLISH), ("de", GERMAN))]
    assert read_lines(*files) == WANT


def test_columns_of_a_table_are_named_by_its_first_line(tmp_path):
    rows = [f'x\t{a}\t"{b}' for a, b in zip(ENGLISH, GERMAN, strict=True)]
    table = lines(tmp_path / "pairs.tsv", ["package\tenglish\tgerman", *rows])
    assert read_table(table, "english", "german") == Pairs(WANT.source, tuple(f'"{b}' for b in WANT.target))


def test_texts_of_an_hdf5_file(tmp_path):
    with h5py.File(tmp_path / "pairs.h5", "w") as file:
        file["source"], file["target"] = ENGLISH, GERMAN
    assert read_hdf5(tmp_path / "pairs.h5") == WANT


@pytest.mark.parametrize(
    "storage", [{}, {"chunks": True}, {"maxshape": (None,)}, {"chunks": (10,), "compression": "gzip"}]
)
def test_many_texts_of_an_hdf5_file_however_it_keeps_them(tmp_path, storage):
    texts = [f"text {i}" for i in range(1000)]
    with h5py.File(tmp_path / "pairs.h5", "w") as file:
        for name in ("source", "target"):
            file.create_dataset(name, data=texts, dtype=h5py.string_dtype(), **storage)
    assert read_hdf5(tmp_path / "pairs.h5") == Pairs(tuple(texts), tuple(texts))


def test_the_shipped_pairs_are_read():
    pairs = read_table(SHIPPED, "english", "german")
    german = dict(zip(pairs.source, pairs.target, strict=True))
    assert len(pairs) == len(german) == 8491
    assert german["A user with that username already exists."] == "Dieser Benutzername ist bereits vergeben."


def broken(tmp_path):
    """What is wrong -> how it is read."""
    good = lines(tmp_path / "good.txt", ENGLISH)
    (tmp_path / "latin.txt").write_bytes("gut\nMänner\nx\n".encode("latin-1"))
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"a\n" * 5000)[:-20])
    (tmp_path / "no.h5").write_bytes(b"no HDF5")
    with h5py.File(tmp_path / "numbers.h5", "w") as file:
        file["source"], file["target"] = ["a"], [1.0]
    return {
        "no such file": lambda: read_lines(good, tmp_path / "missing"),
        "short.txt: 1 lines": lambda: read_lines(good, lines(tmp_path / "short.txt", ["one"])),
        "latin.txt:2: cannot be read": lambda: read_lines(tmp_path / "latin.txt", good),
        "cut.gz:": lambda: read_lines(tmp_path / "cut.gz", good),
        "empty.txt: no sentence": lambda: read_lines(good, lines(tmp_path / "empty.txt", ["", " ", ""])),
        "bad.tsv:1: no column 'german'; there are a, b": lambda: read_table(
            lines(tmp_path / "bad.tsv", ["a\tb"]), "a", "german"
        ),
        "row.tsv:3: 1 columns; the first line has 2": lambda: read_table(
            lines(tmp_path / "row.tsv", ["a\tb", "x\ty", "x"]), "a", "b"
        ),
        "no.h5: cannot be read": lambda: read_hdf5(tmp_path / "no.h5"),
        "numbers.h5: target: missing, or no texts": lambda: read_hdf5(tmp_path / "numbers.h5"),
    }


def test_what_cannot_be_read_is_told_with_its_place(tmp_path):
    for words, read in broken(tmp_path).items():
        with pytest.raises(PackError) as caught:
            read()
        assert words.lower() in str(caught.value).lower(), caught.value


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_mark_before_utf8_is_no_part_of_the_text(tmp_path, suffix):
    table = lines(tmp_path / f"t.tsv{suffix}", ["\ufeffenglish\tgerman", "a\tb"])
    assert read_table(table, "english", "german") == Pairs(("a",), ("b",))
    plain = lines(tmp_path / f"t{suffix}", ["\ufeffa"])
    assert read_lines(plain, plain) == Pairs(("a",), ("a",))


def test_other_columns_may_be_long_and_lines_end_with_line_feeds_alone(tmp_path):
    table = lines(tmp_path / "t.tsv", ["x\ta\tb\r", f"{'y' * 200_000}\tone\rline\u2028\x0b\x1cmore\tzwei\r"])
    assert read_table(table, "a", "b") == Pairs(("one line more",), ("zwei",))
    for name, ending in (("unix", b"a\nb"), ("windows", b"a\r\nb\r\n")):
        (tmp_path / name).write_bytes(ending)
    assert read_lines(tmp_path / "unix", tmp_path / "windows") == Pairs(("a", "b"), ("a", "b"))


def test_sentences_that_no_network_takes_are_left_out_with_their_lines(tmp_path):
    table = lines(tmp_path / "t.tsv", ["a\tb", "x\ty", f"{'z' * (LONGEST + 1)}\ty", "\t", f"x\t{'z ' * LONGEST}"])
    assert read_table(table, "a", "b") == Pairs(("x",), ("y",), too_long=(3, 5))
    assert split_pairs(read_table(table, "a", "b"), 0.0, 0.0).training.too_long == (3, 5)
    alone = lines(tmp_path / "alone", ["z" * 10**6])
    with pytest.raises(PackError, match="no sentence with a translation of at most 10000 characters"):
        read_lines(alone, alone)


def hostile(path):
    """What is wrong -> how it is read."""
    texts = {
        "utf16": "a\nb\n".encode("utf-16"), "utf16be": b"\xfe\xff\0a\0\n", "nul": b"a\nb\0\n", "zip": b"PK\x03\x04",
        "endless": b"x" * 10_000_002, "packed": gzip.compress(b"a\n"), "no.gz": b"a\n",
        "bomb.gz": gzip.compress(b"a\n" + b"x" * 10**8, 1), "bad.gz": gzip.compress(b"a\n" * 5000)[:30] + b"x" * 50,
    }  # fmt: skip
    for name, content in texts.items():
        (path / name).write_bytes(content)
    os.mkfifo(path / "pipe")
    (path / "device").symlink_to("/dev/zero")
    (path / "loop").symlink_to(path / "loop")
    for name, change in {
        "link": lambda f: f.update({"source": h5py.SoftLink("/target")}),
        "elsewhere": lambda f: f.update({"source": h5py.ExternalLink("pipe", "/target")}),
        "zeros": lambda f: f.create_dataset("source", (4 * 10**9,), "S1", chunks=(10**6,), compression="gzip"),
        "square": lambda f: f.create_dataset("source", data=np.full((2, 2), b"a")),
        "latin": lambda f: f.create_dataset("source", data=np.array([b"a", b"\xff"])),
        "nothing": lambda f: f.create_dataset("source", dtype="S3", data=h5py.Empty("S3")),
    }.items():
        with h5py.File(path / f"{name}.h5", "w") as file:
            file["target"] = ["a"]
            change(file)

    def plain(name):
        return lambda: read_lines(path / name, path / name)

    def stored(name):
        return lambda: read_hdf5(path / f"{name}.h5")

    return {
        "utf16:1: cannot be read: it is UTF-16": plain("utf16"), "utf16be:1: cannot be": plain("utf16be"),
        "nul:2: cannot be read: a NUL": plain("nul"), "zip:1: cannot be read: it is a ZIP": plain("zip"),
        "endless:1: cannot be read: a line of more than 10000000 bytes": plain("endless"),
        "packed:1: cannot be read: it is packed": plain("packed"), "no.gz: Not a gzipped file": plain("no.gz"),
        "bomb.gz:2: cannot be read: a line of more": plain("bomb.gz"), "bad.gz:": plain("bad.gz"),
        "pipe:1: cannot be read: it is a pipe": plain("pipe"), "device:1: cannot be read: it is": plain("device"),
        "loop: too many levels": plain("loop"), f"{path}:1: cannot be read: it is a folder": plain(""),
        "link.h5: source: missing": stored("link"), "elsewhere.h5: source: missing": stored("elsewhere"),
        "zeros.h5: cannot be read:": stored("zeros"), "square.h5: source: missing": stored("square"),
        "latin.h5: source[1]: cannot be read": stored("latin"), "nothing.h5: ": stored("nothing"),
        "missing.h5: cannot be read": stored("missing"),
    }  # fmt: skip


def test_what_would_hang_or_fill_memory_is_told_with_its_place(tmp_path):
    for words, read in hostile(tmp_path).items():
        with pytest.raises(PackError) as caught:
            read()
        assert words.lower() in str(caught.value).lower(), caught.value


def test_what_unpacks_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("tfperf.workloads.translate.pairs.SPARE_BYTES", 10**6)
    bomb = tmp_path / "bomb.gz"
    bomb.write_bytes(gzip.compress(b"word\n" * 10**6))
    with pytest.raises(PackError, match=r"bomb\.gz:\d+: cannot be read: it unpacks to far more than text does"):
        read_lines(bomb, bomb)


def test_texts_of_an_hdf5_file_that_are_one_text_often_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("tfperf.workloads.translate.pairs.SPARE_BYTES", 10**6)
    monkeypatch.setattr("tfperf.workloads.translate.pairs.SLAB_BYTES", 10**6)
    with h5py.File(tmp_path / "t.h5", "w") as file:
        file["target"] = ["a"]
        file.create_dataset("source", (100,), h5py.string_dtype(), data=["x" * 10**5] * 100)
    read = []
    monkeypatch.setattr("tfperf.workloads.translate.pairs._decode", lambda content: read.append(content))
    monkeypatch.setattr("tfperf.workloads.translate.pairs.INFLATED", 0)
    with pytest.raises(PackError, match="source: more text than a file of this size can hold"):
        read_hdf5(tmp_path / "t.h5")
    assert len(read) == 10


@given(st.lists(st.text("abc ", min_size=1, max_size=4), min_size=1, max_size=40), st.integers(0, 40))
def test_a_sentence_keeps_its_part_whatever_else_there_is(texts, kept):
    every = Pairs(tuple(texts), tuple(texts))
    some = Pairs(tuple(texts[:kept]), tuple(texts[:kept]))
    parts, fewer = split_pairs(every, 0.3, 0.2), split_pairs(some, 0.3, 0.2)
    assert sorted((*parts.training.source, *parts.validation.source, *parts.test.source)) == sorted(texts)
    for name in ("training", "validation", "test"):
        assert set(getattr(fewer, name).source) <= set(getattr(parts, name).source)
        others = [getattr(parts, n).source for n in ("training", "validation", "test") if n != name]
        assert not set(getattr(parts, name).source) & {text for other in others for text in other}


def test_shares_are_those_asked_for():
    pairs = read_table(SHIPPED, "english", "german")
    parts = split_pairs(pairs, 0.1, 0.05)
    for part, share in ((parts.validation, 0.1), (parts.test, 0.05), (parts.training, 0.85)):
        # 8491 draws: three standard deviations are below 0.01
        assert len(part) / len(pairs) == pytest.approx(share, abs=0.012)
    assert len(split_pairs(pairs, 0.0, 0.0).training) == len(pairs)
