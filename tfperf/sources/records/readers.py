"""Readers of records, one for each format. All give columns as lists or arrays, and ids as an array.

Each opens its files itself, so that a reader can be made in any process.
"""

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import h5py
import numpy as np

from tfperf.arrays import AnyArray, Int64Array
from tfperf.errors import UserError
from tfperf.sources.records.files import Parts, make_natural_key

STRIDE = 256  # lines between two of which it is known where they begin
SCANNED_BYTES = 2**24  # at once
KEPT_GROUPS = 2  # of rows of a Parquet file, that stay in memory
LINE, ROW = "text", "values"  # the column of formats that have no names
ID_KINDS = "iuSU"

Columns = Mapping[str, Sequence[Any]]


class PartReader(Protocol):
    """What the classes below have: parts with records of a count each."""

    @property
    def parts(self) -> Parts:
        """Of all files, in order."""

    def read_part(self, part: int, first: int, last: int) -> Mapping[str, Any]:
        """Columns of some records of a part, the id among them."""


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
        """NumPy's type that holds all ids, as `<i8`, or `|S12` for texts, which are looked at for that."""
        if self.id_column is None:
            return "<i8"
        longest, kinds = 1, set[str]()
        for first in range(0, self.records, window):
            _, ids = self.read(first, min(self.records, first + window))
            kinds.add("S" if ids.dtype.kind == "S" else "i")
            longest = max(longest, ids.dtype.itemsize)
            if ids.dtype.kind != "S":
                break  # all have one type
        return f"|S{longest}" if kinds == {"S"} else "<i8"


def make_ids(values: Sequence[Any], column: str) -> AnyArray:
    """Whole numbers, or texts as UTF-8. Raises: UserError for anything else."""
    array = np.asarray(values)
    if array.dtype.kind in "iu":
        return array.astype("<i8")
    texts = [one.encode() if isinstance(one, str) else one for one in values]
    if any(not isinstance(one, bytes) for one in texts):
        raise UserError(f"source.id: column {column}: must be whole numbers or texts")
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
            return {LINE: [_decode(file.readline()) for _ in range(last - first)]}


def _scan_lines(path: Path) -> tuple[Int64Array, int]:
    """Where every STRIDE-th line begins, and how many there are."""
    marks, count, offset, ends_line = [0], 0, 0, True
    with path.open("rb") as file:
        while block := file.read(SCANNED_BYTES):
            ends = np.flatnonzero(np.frombuffer(block, np.uint8) == 10) + 1
            chosen = np.arange((-count - 1) % STRIDE, len(ends), STRIDE)
            marks += [offset + int(one) for one in ends[chosen]]
            count, offset, ends_line = count + len(ends), offset + len(block), block.endswith(b"\n")
    return np.array(marks, np.int64), count + (not ends_line)


def _decode(line: bytes) -> str | bytes:
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


class ParquetReader:
    """Rows of Parquet files; a part is a group of rows."""

    def __init__(self, files: Sequence[Path], columns: Sequence[str]) -> None:
        try:
            import pyarrow.parquet as parquet
        except ImportError:
            raise UserError("source.parquet: needs pyarrow: pip install 'tfperf[predict]'") from None
        self._columns = list(columns)
        self._files: list[Any] = []
        self._places: list[tuple[int, int]] = []  # file, group
        counts = []
        for path in files:
            try:
                file = parquet.ParquetFile(path)
            except Exception as error:
                raise UserError(
                    f"source.parquet: {path}: cannot be read: {' '.join(str(error).split())[:200]}"
                ) from None
            for name in columns:
                if name not in file.schema_arrow.names:
                    raise UserError(
                        f"source.columns: {path} has no column {name}; it has: "
                        f"{', '.join(file.schema_arrow.names[:20])}"
                    )
            for group in range(file.num_row_groups):
                self._places.append((len(self._files), group))
                counts.append(file.metadata.row_group(group).num_rows)
            self._files.append(file)
        self.parts = Parts(counts)
        self._read_group = lru_cache(KEPT_GROUPS)(self._read_group_anew)

    def list_columns(self) -> list[str]:
        """Of the first file."""
        return list(self._files[0].schema_arrow.names)

    def _read_group_anew(self, part: int) -> Any:
        file, group = self._places[part]
        return self._files[file].read_row_group(group, columns=self._columns)

    def read_part(self, part: int, first: int, last: int) -> Mapping[str, Any]:
        """Rows `first` to before `last` of a group."""
        table = self._read_group(part).slice(first, last - first)
        return {name: _convert_arrow(table.column(name)) for name in self._columns}


def _convert_arrow(column: Any) -> Any:
    import pyarrow

    kind = column.type
    is_number = pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind) or pyarrow.types.is_boolean(kind)
    return column.to_numpy() if is_number and column.null_count == 0 else column.to_pylist()


class Hdf5Reader:
    """Rows of datasets of HDF5 files; a part is a dataset, or those of several columns that lie side by side."""

    def __init__(self, files: Sequence[Path], columns: Sequence[str]) -> None:
        self._columns, self._places, counts = list(columns), list[tuple[Path, dict[str, str]]](), []
        for path in files:
            for names in self._find_parts(path):
                lengths = {name: self._count(path, one) for name, one in names.items()}
                if len(set(lengths.values())) > 1:
                    raise UserError(f"source.columns: {path}: datasets side by side differ in length: {lengths}")
                self._places.append((path, names))
                counts.append(next(iter(lengths.values())))
        self.parts = Parts(counts)

    def _find_parts(self, path: Path) -> Iterator[dict[str, str]]:
        """Datasets of a file that belong together, by the columns that name them."""
        names = list_datasets(path)
        matches = {}
        for column in self._columns:
            pattern = column.strip("/")
            matches[column] = [one for one in names if _is_match(one, pattern)]
            if not matches[column]:
                told = ", ".join(names[:20]) or "none"
                raise UserError(f"source.columns: {path} has no dataset {column}; it has: {told}")
        if len({len(one) for one in matches.values()}) > 1:
            found = {column: len(one) for column, one in matches.items()}
            raise UserError(f"source.columns: {path}: columns have different numbers of datasets: {found}")
        for together in zip(*matches.values(), strict=True):
            yield dict(zip(matches, together, strict=True))

    @staticmethod
    def _count(path: Path, name: str) -> int:
        with h5py.File(path) as file:
            shape = file[name].shape
        if not shape:
            raise UserError(f"source.columns: {path}: {name} is a single value; must have a first axis of records")
        return int(shape[0])

    def read_part(self, part: int, first: int, last: int) -> Mapping[str, Any]:
        """Rows `first` to before `last` of a part."""
        path, names = self._places[part]
        with h5py.File(path) as file:
            return {column: _read_rows(file[name], first, last) for column, name in names.items()}


def _is_match(name: str, pattern: str) -> bool:
    """Whether a path is meant by a glob, part by part: `*` stands for one name, not for several."""
    parts, wanted = name.split("/"), pattern.split("/")
    return len(parts) == len(wanted) and all(map(fnmatch.fnmatchcase, parts, wanted))


def list_datasets(path: Path) -> list[str]:
    """Paths of all datasets of a file, in natural order."""
    found: list[str] = []

    def note(name: str, one: Any) -> None:
        if isinstance(one, h5py.Dataset):
            found.append(name)

    try:
        with h5py.File(path) as file:
            file.visititems(note)
    except OSError as error:
        raise UserError(f"source.hdf5: {path}: cannot be read: {' '.join(str(error).split())[:200]}") from None
    return sorted(found, key=make_natural_key)


def _read_rows(dataset: Any, first: int, last: int) -> Any:
    if h5py.check_string_dtype(dataset.dtype) is None:
        return dataset[first:last]
    return [_decode(one) if isinstance(one, bytes) else one for one in dataset[first:last]]
