"""Parallel texts read by Python's own means, and held against the pairs that a translation trains on."""

import gzip
import io
from pathlib import Path

import h5py

from tests.fuzz.hdf5 import edit
from tfperf.workloads.translate.pairs import read_hdf5, read_lines, read_table

LONGEST = 10_000  # characters of a sentence


def hold(found, both):
    """AssertionError where the pairs are not those of the texts: blanks single, empty and endless ones left out."""
    both = [(" ".join(a.split()), " ".join(b.split())) for a, b in both]
    both = [(a, b) for a, b in both if a and b and max(len(a), len(b)) <= LONGEST]
    assert list(zip(found.source, found.target, strict=True)) == both and both


def lines(path):
    """Lines that line feeds end, without the mark of UTF-8 before them."""
    content = Path(path).read_bytes()
    content = gzip.decompress(content) if str(path).endswith(".gz") else content
    text = content.decode("utf-8").removeprefix("\ufeff")
    out = io.StringIO(text, newline="\n").readlines()
    return [line.rstrip("\r\n") for line in out]


def compare_lines(source, target):
    """Two files of lines. Raises: UserError where they are refused."""
    found = read_lines(Path(source), Path(target))
    first, second = lines(source), lines(target)
    assert len(first) == len(second)
    hold(found, zip(first, second, strict=True))


def compare_table(path):
    """A table with columns `en` and `de`. Raises: UserError where it is refused."""
    found = read_table(Path(path), "en", "de")
    header, *rows = (line.split("\t") for line in lines(path))
    assert all(len(row) == len(header) for row in rows)
    hold(found, [(row[header.index("en")], row[header.index("de")]) for row in rows])


def compare_hdf5(path, steps):
    """Two arrays of texts. Raises: UserError where they are refused."""
    path = Path(path)
    edit(path, steps)
    found = read_hdf5(path)
    with h5py.File(path) as file:
        first, second = ([one.decode("utf-8") for one in file[name][()].tolist()] for name in ("source", "target"))
    assert len(first) == len(second)
    hold(found, zip(first, second, strict=True))
