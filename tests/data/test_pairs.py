"""Sentence pairs from files, and the parts that they are put into."""

import gzip
from pathlib import Path

import h5py
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfperf.data.pairs import Pairs, divide, read_hdf5, read_lines, read_table
from tfperf.errors import PackError

SHIPPED = Path(__file__).parents[2] / "data" / "gettext_en_de" / "pairs.tsv"
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


@given(st.lists(st.text("abc ", min_size=1, max_size=4), min_size=1, max_size=40), st.integers(0, 40))
def test_a_sentence_keeps_its_part_whatever_else_there_is(texts, kept):
    every = Pairs(tuple(texts), tuple(texts))
    some = Pairs(tuple(texts[:kept]), tuple(texts[:kept]))
    parts, fewer = divide(every, 0.3, 0.2), divide(some, 0.3, 0.2)
    assert sorted((*parts.training.source, *parts.validation.source, *parts.test.source)) == sorted(texts)
    for name in ("training", "validation", "test"):
        assert set(getattr(fewer, name).source) <= set(getattr(parts, name).source)
        others = [getattr(parts, n).source for n in ("training", "validation", "test") if n != name]
        assert not set(getattr(parts, name).source) & {text for other in others for text in other}


def test_shares_are_those_asked_for():
    pairs = read_table(SHIPPED, "english", "german")
    parts = divide(pairs, 0.1, 0.05)
    for part, share in ((parts.validation, 0.1), (parts.test, 0.05), (parts.training, 0.85)):
        # 8491 draws: three standard deviations are below 0.01
        assert len(part) / len(pairs) == pytest.approx(share, abs=0.012)
    assert len(divide(pairs, 0.0, 0.0).training) == len(pairs)
