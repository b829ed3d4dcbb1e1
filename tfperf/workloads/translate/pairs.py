"""Sentence pairs of a translation: read from parallel texts, and divided into splits."""

import codecs
import gzip
import hashlib
import io
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

import h5py

from tfperf.errors import PackError
from tfperf.results.file_limits import Budget
from tfperf.results.heaps import refuse_broken_heaps
from tfperf.results.reading import open_regular, quote_text, refuse_special

SOURCE, TARGET = "source", "target"  # datasets of an HDF5 file
LARGEST = 2**64  # hashes lie below
LONGEST = 10_000  # characters of a sentence: the time to learn pieces of a word grows with the square of its length
LINE_BYTES = 10**7  # beyond which there is no end of a line in sight
SPARE_BYTES, INFLATED = 10**9, 100  # of an unpacked file, and for each byte that is packed: text shrinks to a third
HDF5_BYTES = 16 * 10**9  # of an array of texts
SLAB_BYTES, SLAB_ROWS = 10**9, 10_000  # of texts of an HDF5 file at a time
NOT_UTF8 = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16", b"PK": "a ZIP archive", b"\x1f\x8b": "packed by gzip"}


@dataclass(frozen=True)
class Pairs:
    """n sentences and their translations, none empty or longer than LONGEST characters; blanks inside are single."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    too_long: tuple[int, ...] = ()  # numbers of the lines that were left out for their length, counted from 1

    def __len__(self) -> int:
        return len(self.source)


@dataclass(frozen=True)
class PairSplits:
    """A corpus divided: pairs with the same source are in the same split, whatever else the corpus holds."""

    training: Pairs
    validation: Pairs
    test: Pairs


def read_lines(source: Path, target: Path) -> Pairs:
    """Pairs from two text files in UTF-8, plain or .gz; a line feed ends each sentence. Raises: PackError."""
    first, second = list(_read_text_file(source)), list(_read_text_file(target))
    if len(first) != len(second):
        raise PackError(f"{target}: {len(second)} lines; {source} has {len(first)}, one for each sentence")
    return _clean(zip(first, second, strict=True), f"{source}, {target}")


def read_table(path: Path, source: str, target: str) -> Pairs:
    """Pairs from two columns of a tab-separated file in UTF-8; its first line names the columns. Raises: PackError."""
    rows = (line.split("\t") for line in _read_text_file(path))
    header = next(rows, [])
    for name in (source, target):
        if name not in header:
            raise PackError(f"{path}:1: no column {name!r}; there are {quote_text(', '.join(header)) or 'none'}")
    where = header.index(source), header.index(target)
    texts: list[tuple[str, str]] = []
    for number, row in enumerate(rows, 2):
        if len(row) != len(header):
            raise PackError(f"{path}:{number}: {len(row)} columns; the first line has {len(header)}")
        texts.append((row[where[0]], row[where[1]]))
    return _clean(texts, str(path), first=2)


def read_hdf5(path: Path) -> Pairs:
    """Pairs from the datasets `source` and `target`, (n) texts, of an HDF5 file. Raises: PackError."""
    try:
        refuse_special(path)
        with h5py.File(path) as file:
            refuse_broken_heaps(file, path)
            budget = Budget(file)
            first, second = (list(_read_dataset(file, name, budget)) for name in (SOURCE, TARGET))
    except PackError as error:
        raise PackError(f"{path}: {error}") from None
    except Exception as error:  # HDF5 has no error class of its own: damage comes out as any
        raise PackError(f"{path}: cannot be read: {error}") from None
    if len(first) != len(second):
        raise PackError(f"{path}: {TARGET}: {len(second)} texts; {SOURCE} has {len(first)}")
    return _clean(zip(first, second, strict=True), str(path))


def _read_dataset(file: h5py.File, name: str, budget: Budget) -> Iterator[str]:
    """The texts of a dataset, in slabs: many entries of variable length may be one and the same long text."""
    found = file[name] if isinstance(file.get(name, getlink=True), h5py.HardLink) else None
    if not isinstance(found, h5py.Dataset) or h5py.check_string_dtype(found.dtype) is None or found.ndim != 1:
        raise PackError(f"{name}: missing, or no texts; must be a dataset of strings, not a link to one")
    budget.charge(found, HDF5_BYTES)
    rows = min(SLAB_ROWS, max(1, SLAB_BYTES // file.id.get_filesize()))
    left = SPARE_BYTES + INFLATED * file.id.get_filesize()
    for start in range(0, len(found), rows):
        for number, content in enumerate(found[start : start + rows], start):
            left -= len(content)
            if left < 0:
                raise PackError(f"{name}: more text than a file of this size can hold; it may be damaged")
            try:
                yield _decode(content)
            except ValueError as error:
                raise PackError(f"{name}[{number}]: cannot be read: {error}; must be text in UTF-8") from None


def split_pairs(pairs: Pairs, validation: float, test: float) -> PairSplits:
    """Shares (0 to 1) for validation and test, chosen by a hash of the source sentence, the rest for training.

    >>> pairs = Pairs(("thanks", "a house", "Thanks"), ("danke", "ein haus", "vielen dank"))
    >>> parts = split_pairs(pairs, validation=0.5, test=0.0)
    >>> parts.training.source, parts.validation.source
    (('thanks', 'Thanks'), ('a house',))
    """
    ends = validation, validation + test, float("inf")
    rows = [next(k for k, end in enumerate(ends) if _hash_sentence(one) < end) for one in pairs.source]
    splits = [select_pairs(pairs, [i for i, row in enumerate(rows) if row == k]) for k in range(3)]
    return PairSplits(replace(splits[2], too_long=pairs.too_long), validation=splits[0], test=splits[1])


def _hash_sentence(sentence: str) -> float:
    """A number from 0 to 1 that only the sentence decides, but for its case."""
    return int.from_bytes(hashlib.sha256(sentence.casefold().encode()).digest()[:8], "big") / LARGEST


def select_pairs(pairs: Pairs, rows: Sequence[int]) -> Pairs:
    """The pairs of these numbers."""
    return Pairs(tuple(pairs.source[i] for i in rows), tuple(pairs.target[i] for i in rows))


def _clean(texts: Iterable[tuple[str, str]], where: str, first: int = 1) -> Pairs:
    """Without surplus blanks, without pairs of which a side is empty, and without those that are too long.

    first: number of the line of the first pair.
    """
    both = enumerate(((" ".join(a.split()), " ".join(b.split())) for a, b in texts), first)
    whole = [(number, pair) for number, pair in both if all(pair)]
    kept = [pair for _, pair in whole if max(map(len, pair)) <= LONGEST]
    if not kept:
        beyond = f" of at most {LONGEST} characters" if whole else ""
        raise PackError(f"{where}: no sentence with a translation{beyond}")
    too_long = tuple(number for number, pair in whole if max(map(len, pair)) > LONGEST)
    return Pairs(tuple(a for a, _ in kept), tuple(b for _, b in kept), too_long)


def _read_text_file(path: Path) -> Iterator[str]:
    """The lines of a file, which line feeds end; PackError with the number of the first that cannot be read."""
    number = 1
    try:
        with _open_text(path) as (file, most):
            while line := file.readline(LINE_BYTES + 1):
                most -= len(line)
                if len(line) > LINE_BYTES:
                    raise ValueError(f"a line of more than {LINE_BYTES} bytes")
                if most < 0:
                    raise ValueError("it unpacks to far more than text does")
                if number == 1:
                    line = _remove_mark(line)
                yield _decode(line).rstrip("\r\n")
                number += 1
    except OSError as error:
        raise PackError(f"{path}: {error.strerror or error}") from None
    except (ValueError, EOFError, zlib.error) as error:
        allowed = "" if "must be" in str(error) else "; must be text in UTF-8"
        raise PackError(f"{path}:{number}: cannot be read: {error}{allowed}") from None


@contextmanager
def _open_text(path: Path) -> Iterator[tuple[IO[bytes] | gzip.GzipFile, int]]:
    """A text file, unpacked where its name ends in .gz, and how many bytes it may have."""
    with open_regular(path) as raw:
        size = raw.seek(0, io.SEEK_END)
        raw.seek(0)
        if path.suffix != ".gz":
            yield raw, size
            return
        with gzip.open(raw) as file:
            yield file, SPARE_BYTES + INFLATED * size


def _remove_mark(line: bytes) -> bytes:
    """The first line without the mark that some programs put before UTF-8; ValueError for what is no such text."""
    for mark, kind in NOT_UTF8.items():
        if line.startswith(mark):
            raise ValueError(f"it is {kind}")
    return line.removeprefix(codecs.BOM_UTF8)


def _decode(content: bytes) -> str:
    """A text; ValueError for bytes that are none."""
    if b"\0" in content:
        raise ValueError("a NUL character")
    return content.decode("utf-8")
