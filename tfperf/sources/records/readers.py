"""Readers of records, one for each format. All give columns as lists or arrays, and ids as an array.

Each opens its files itself, so that a reader can be made in any process.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tfperf.arrays import AnyArray, Int64Array
from tfperf.errors import UserError
from tfperf.sources.records.files import Parts

STRIDE = 256  # lines between two of which it is known where they begin
SCANNED_BYTES = 2**24  # at once
LINE, ROW = "text", "values"  # the column of formats that have no names
GZIP = b"\x1f\x8b"  # that such a file begins with

Columns = Mapping[str, Sequence[Any]]


class PartReader(Protocol):
    """What the classes below have: parts with records of a count each."""

    @property
    def parts(self) -> Parts:
        """Of all files, in order."""

    def read_part(self, part: int, first: int, last: int) -> Mapping[str, Any]:
        """Columns of some records of a part, the id among them."""


class ColumnReader(PartReader, Protocol):
    """What readers of formats with named columns have, too."""

    def select(self, columns: Sequence[str]) -> "ColumnReader":
        """A reader of some of its columns."""

    def name_part(self, part: int) -> str:
        """The file that has it, for messages."""


@dataclass(frozen=True)
class FileRecords:
    """Records of files of one format. id_column: None: their numbers. Raises: UserError for what cannot be read."""

    reader: Any  # PartReader
    columns: tuple[str, ...]
    id_column: str | None = None

    @property
    def records(self) -> int:
        """How many there are."""
        return int(self.reader.parts.total)

    def read(self, first: int, last: int) -> tuple[Columns, AnyArray]:
        """Columns of the records from `first` to before `last`, and their ids."""
        found = [self.reader.read_part(*one) for one in self.reader.parts.split(first, last)]
        columns = {name: _concatenate([one[name] for one in found]) for name in self.columns}
        if self.id_column is None:
            return columns, np.arange(first, last)
        return columns, make_ids(_concatenate([one[self.id_column] for one in found]), self.id_column)

    def find_id_type(self, window: int) -> str:
        """NumPy's type that holds all ids, as `<i8`, or `|S12` for texts; all are read for that, nothing else is.

        Raises: UserError for ids that are neither whole numbers nor texts, or some of each.
        """
        if self.id_column is None:
            return "<i8"
        reader: ColumnReader = self.reader.select([self.id_column])
        longest, first_parts = 1, dict[str, int]()
        for part, count in enumerate(reader.parts.counts):
            for first in range(0, count, window):
                values = reader.read_part(part, first, min(count, first + window))[self.id_column]
                ids = make_ids(values, f"{self.id_column} of {reader.name_part(part)}")
                first_parts.setdefault("texts" if ids.dtype.kind == "S" else "whole numbers", part)
                longest = max(longest, ids.dtype.itemsize)
        if len(first_parts) > 1:
            told = ", ".join(f"{kind} in {reader.name_part(part)}" for kind, part in first_parts.items())
            raise UserError(f"source.id: column {self.id_column}: {told}; must be of one kind")
        return f"|S{longest}" if "texts" in first_parts else "<i8"


def make_ids(values: Sequence[Any], column: str) -> AnyArray:
    """Whole numbers, or texts as UTF-8. Raises: UserError for anything else, and for numbers above 2^63 - 1."""
    array = np.asarray(values)
    if array.dtype.kind in "iu" and array.ndim == 1:
        if array.dtype == np.uint64 and len(array) and array.max() > np.iinfo(np.int64).max:
            raise UserError(f"source.id: column {column}: has {array.max()}; must be at most 2^63 - 1, or texts")
        return array.astype("<i8")
    texts = [one.encode() if isinstance(one, str) else one for one in values]
    odd = next((number for number, one in enumerate(texts) if not isinstance(one, bytes)), None)
    if odd is not None:
        raise UserError(f"source.id: column {column}: got {values[odd]!r:.60}; must be whole numbers, or texts")
    return np.array(texts, f"|S{max(1, *map(len, texts))}")


def _concatenate(parts: Sequence[Any]) -> Any:
    if all(isinstance(one, np.ndarray) for one in parts):
        return parts[0] if len(parts) == 1 else np.concatenate(parts)
    return [value for one in parts for value in one]


class LineReader:
    """Lines of text files, without their ends; what is no UTF-8 stays bytes, which nobody takes for a text."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = files
        self._marks: list[Int64Array] = []  # where every STRIDE-th line begins
        counts = []
        for path in files:
            marks, count = _scan_lines(path)
            self._marks.append(marks)
            counts.append(count)
        self.parts = Parts(counts)

    def read_part(self, part: int, first: int, last: int) -> Mapping[str, Any]:
        """Lines `first` to before `last` of a file."""
        with self._files[part].open("rb") as file:
            file.seek(int(self._marks[part][first // STRIDE]))
            for _ in range(first % STRIDE):
                file.readline()
            return {LINE: [decode_text(file.readline()) for _ in range(last - first)]}


def _scan_lines(path: Path) -> tuple[Int64Array, int]:
    """Where every STRIDE-th line begins, and how many there are."""
    marks, count, offset, ends_line = [0], 0, 0, True
    with path.open("rb") as file:
        if file.peek(2)[:2] == GZIP:
            raise UserError(f"source.lines: {path}: is compressed by gzip; must be plain text")
        while block := file.read(SCANNED_BYTES):
            ends = np.flatnonzero(np.frombuffer(block, np.uint8) == 10) + 1
            chosen = np.arange((-count - 1) % STRIDE, len(ends), STRIDE)
            marks += [offset + int(one) for one in ends[chosen]]
            count, offset, ends_line = count + len(ends), offset + len(block), block.endswith(b"\n")
    return np.array(marks, np.int64), count + (not ends_line)


def decode_text(line: bytes) -> str | bytes:
    """Without the end of its line; what is no UTF-8 stays as it is."""
    line = line.removesuffix(b"\n").removesuffix(b"\r")
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line


class NpyReader:
    """Rows of .npy files."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._arrays = [self._open(path) for path in files]
        if len({(one.shape[1:], one.dtype) for one in self._arrays}) > 1:
            raise UserError(f"source.npy: rows differ in shape or type: {files[0]} and others")
        self.parts = Parts([len(one) for one in self._arrays])

    @staticmethod
    def _open(path: Path) -> AnyArray:
        try:
            found = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise UserError(f"source.npy: {path}: cannot be read: {error}") from None
        if not isinstance(found, np.ndarray) or found.ndim == 0:
            raise UserError(f"source.npy: {path}: must be an array with a first axis of records")
        return found

    def read_part(self, part: int, first: int, last: int) -> Mapping[str, Any]:
        """Rows `first` to before `last` of a file."""
        return {ROW: np.array(self._arrays[part][first:last])}
