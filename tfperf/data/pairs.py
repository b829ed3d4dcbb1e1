"""Sentence pairs of a translation: read from parallel texts, and put into the parts of a training."""

import csv
import gzip
import hashlib
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import h5py

from tfperf.errors import PackError

SOURCE, TARGET = "source", "target"  # datasets of an HDF5 file
LARGEST = 2**64  # hashes lie below


@dataclass(frozen=True)
class Pairs:
    """n sentences and their translations; none is empty, blanks inside are single."""

    source: tuple[str, ...]
    target: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.source)


@dataclass(frozen=True)
class Parts:
    """A corpus divided: pairs with the same source are in the same part, whatever else the corpus holds."""

    training: Pairs
    validation: Pairs
    test: Pairs


def read_lines(source: Path, target: Path) -> Pairs:
    """Pairs from two text files in UTF-8, plain or .gz, one sentence a line. Raises: PackError."""
    first, second = list(_lines(source)), list(_lines(target))
    if len(first) != len(second):
        raise PackError(f"{target}: {len(second)} lines; {source} has {len(first)}, one for each sentence")
    return _clean(zip(first, second, strict=True), f"{source}, {target}")


def read_table(path: Path, source: str, target: str) -> Pairs:
    """Pairs from two columns of a tab-separated file in UTF-8; its first line names the columns. Raises: PackError."""
    rows = csv.reader(_lines(path), delimiter="\t", quoting=csv.QUOTE_NONE)
    header = next(rows, [])
    for name in (source, target):
        if name not in header:
            raise PackError(f"{path}:1: no column {name!r}; there are {', '.join(header) or 'none'}")
    where = header.index(source), header.index(target)
    texts: list[tuple[str, str]] = []
    for number, row in enumerate(rows, 2):
        if len(row) != len(header):
            raise PackError(f"{path}:{number}: {len(row)} columns; the first line has {len(header)}")
        texts.append((row[where[0]], row[where[1]]))
    return _clean(texts, str(path))


def read_hdf5(path: Path) -> Pairs:
    """Pairs from the datasets `source` and `target`, (n) texts, of an HDF5 file. Raises: PackError."""
    try:
        with h5py.File(path) as file:
            for name in (SOURCE, TARGET):
                if not (isinstance(file.get(name), h5py.Dataset) and h5py.check_string_dtype(file[name].dtype)):
                    raise PackError(f"{path}: {name}: missing, or no texts; must be a dataset of strings")
            first, second = (list(file[name].asstr()[:]) for name in (SOURCE, TARGET))
    except (OSError, UnicodeDecodeError) as error:
        raise PackError(f"{path}: cannot be read: {error}") from None
    if len(first) != len(second):
        raise PackError(f"{path}: {TARGET}: {len(second)} texts; {SOURCE} has {len(first)}")
    return _clean(zip(first, second, strict=True), str(path))


def divide(pairs: Pairs, validation: float, test: float) -> Parts:
    """Shares (0 to 1) for validation and test, chosen by a hash of the source sentence, the rest for training."""
    ends = validation, validation + test, float("inf")
    rows = [next(k for k, end in enumerate(ends) if _place(one) < end) for one in pairs.source]
    parts = [_taken(pairs, [i for i, row in enumerate(rows) if row == k]) for k in range(3)]
    return Parts(training=parts[2], validation=parts[0], test=parts[1])


def _place(sentence: str) -> float:
    """A number from 0 to 1 that only the sentence decides, but for its case."""
    return int.from_bytes(hashlib.sha256(sentence.casefold().encode()).digest()[:8], "big") / LARGEST


def _taken(pairs: Pairs, rows: Sequence[int]) -> Pairs:
    return Pairs(tuple(pairs.source[i] for i in rows), tuple(pairs.target[i] for i in rows))


def _clean(texts: Iterable[tuple[str, str]], where: str) -> Pairs:
    """Without surplus blanks, and without pairs of which a side is empty."""
    both = ((" ".join(a.split()), " ".join(b.split())) for a, b in texts)
    whole = [pair for pair in both if all(pair)]
    if not whole:
        raise PackError(f"{where}: no sentence with a translation")
    return Pairs(tuple(a for a, _ in whole), tuple(b for _, b in whole))


def _lines(path: Path) -> Iterator[str]:
    """The lines of a file; PackError with the number of the first that cannot be read."""
    number = 1
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            for line in file:
                yield line.decode("utf-8").rstrip("\r\n")
                number += 1
    except OSError as error:
        raise PackError(f"{path}: {error.strerror or error}") from None
    except (UnicodeDecodeError, EOFError, zlib.error) as error:
        raise PackError(f"{path}:{number}: cannot be read: {error}; must be text in UTF-8") from None
