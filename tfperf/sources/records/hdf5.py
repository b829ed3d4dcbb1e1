"""Records of HDF5 files: rows of datasets, which may be many that lie one after the other."""

import copy
import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py

from tfperf.errors import UserError
from tfperf.sources.records.files import Parts, make_natural_key
from tfperf.sources.records.readers import decode_text


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

    def select(self, columns: Sequence[str]) -> "Hdf5Reader":
        """A reader of some of its columns."""
        found = copy.copy(self)
        found._places = [(path, {name: names[name] for name in columns}) for path, names in self._places]
        return found

    def name_part(self, part: int) -> str:
        """The file that has it, and the dataset, of which there may be several."""
        path, names = self._places[part]
        return f"{path}, {', '.join(names.values())}"

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
    return [decode_text(one) if isinstance(one, bytes) else one for one in dataset[first:last]]
