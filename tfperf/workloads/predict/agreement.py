"""Whether the rows of two predictions agree, read block by block; their records must be the same ones."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import h5py
import numpy as np

from tfperf.arrays import AnyArray, BoolMask, Float64Array
from tfperf.errors import RunDirectoryError
from tfperf.infer.dataset_names import FINISHED, IDS, STATUS, STATUS_CODES
from tfperf.results.reading import describe_error

BLOCK_BYTES = 2**22  # of the rows of an output that are read at once
MOST_ROWS = 2**16  # of ids and statuses


@dataclass
class OutputAgreement:
    """Of the values of an output, of records that are done in both.

    absolute: largest |now - before|, of the record of that number; relative: largest |now - before| over the larger of
    both; largest: |value|, of both; unlike: values that are no number in one file, and not the same in the other.
    """

    absolute: float = 0.0
    record: int | None = None
    relative: float = 0.0
    largest: float = 0.0
    unlike: int = 0

    def add(self, before: AnyArray, now: AnyArray, records: Sequence[int] | AnyArray) -> None:
        """Rows (n, ...) of both, and their records (n)."""
        x, y = (np.asarray(one, np.float64).reshape(len(one), -1) for one in (before, now))
        good = np.isfinite(x) & np.isfinite(y)
        self.unlike += int(np.sum(~good & (x != y) & ~(np.isnan(x) & np.isnan(y))))
        larger: Float64Array = np.where(good, np.maximum(np.abs(x), np.abs(y)), 0.0)
        self.largest = max(self.largest, float(larger.max(initial=0.0)))
        if np.array_equal(x, y):
            return
        apart = np.abs(np.where(good, y, 0.0) - np.where(good, x, 0.0))
        worst = apart.max(axis=1, initial=0.0)
        if worst.max() > self.absolute:
            self.absolute, self.record = float(worst.max()), int(records[int(worst.argmax())])
        share = np.divide(apart, larger, out=np.zeros_like(apart), where=larger > 0)
        self.relative = max(self.relative, float(share.max()))


@dataclass
class RowAgreement:
    """Of two files. both, before, now: records that are done in both, and in one alone; outputs: those of both files,
    by name; notes: on outputs that could not be compared."""

    both: int = 0
    before: int = 0
    now: int = 0
    outputs: dict[str, OutputAgreement] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def compare_rows(before: Path, now: Path, show: Callable[[int, int], None] = lambda done, total: None) -> RowAgreement:
    """Compare two files. show: told how many records were read, of how many.

    Raises: RunDirectoryError for files that are damaged or not finished, and where records have other ids.
    """
    with ExitStack() as stack:
        files = [stack.enter_context(_open(path)) for path in (before, now)]
        try:
            _refuse_other_shape(files, now)
            found = RowAgreement()
            names = _list_common(files, found)
            total = len(files[0][IDS])
            rows = _choose_rows(files, names)
            for first in range(0, total, rows):
                last = min(first + rows, total)
                _compare_block(files, now, names, first, last, found)
                show(last, total)
        except (OSError, KeyError, ValueError, TypeError) as error:
            raise RunDirectoryError(f"{now} or {before}: damaged: {describe_error(error)}") from None
    return found


def _open(path: Path) -> h5py.File:
    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise RunDirectoryError(f"{path}: cannot be read: {describe_error(error)}") from None


def _refuse_other_shape(files: Sequence[h5py.File], now: Path) -> None:
    for file in files:
        if int(file[FINISHED][0]) != 1:
            raise RunDirectoryError(f"{file.filename}: is not finished; go on with it by --resume first")
    counts = [len(file[IDS]) for file in files]
    kinds = [file[IDS].dtype.kind for file in files]
    if counts[0] != counts[1]:
        raise RunDirectoryError(f"{now}: has {counts[1]} records, the other one {counts[0]}; the same are compared")
    if kinds[0] != kinds[1]:
        raise RunDirectoryError(f"{now}: ids are of another type: other records; the same are compared")


def _list_common(files: Sequence[h5py.File], found: RowAgreement) -> list[str]:
    """Outputs of both files that have rows of the same shape; the others are noted."""
    mine, other = (
        {name: file[name].shape[1:] for name in file if name not in (IDS, STATUS, FINISHED)} for file in files
    )
    for name in {**mine, **other}:
        if mine.get(name) == other.get(name):
            found.outputs[name] = OutputAgreement()
        elif name in mine and name in other:
            found.notes.append(f"output {name}: rows of shape {other[name]}, was {mine[name]}: not compared")
        else:
            found.notes.append(f"output {name}: only in the {'first' if name in mine else 'second'} run")
    return list(found.outputs)


def _choose_rows(files: Sequence[h5py.File], names: Sequence[str]) -> int:
    """How many records are read at once."""
    sizes = [int(np.prod(files[0][name].shape[1:], dtype=np.int64)) * 8 for name in names]
    return max(1, min(MOST_ROWS, BLOCK_BYTES // max([1, *sizes])))


def _compare_block(
    files: Sequence[h5py.File], now: Path, names: Sequence[str], first: int, last: int, found: RowAgreement
) -> None:
    ids, others = (file[IDS][first:last] for file in files)
    if (unlike := np.flatnonzero(ids != others)).size:
        place = int(unlike[0])
        what = f"record {first + place} has the id {others[place]!s}, was {ids[place]!s}"
        raise RunDirectoryError(f"{now}: {what}: other records; the same ones are compared")
    done, too = (file[STATUS][first:last] == STATUS_CODES["done"] for file in files)
    both: BoolMask = done & too
    found.both += int(both.sum())
    found.before += int((done & ~too).sum())
    found.now += int((too & ~done).sum())
    records = first + np.flatnonzero(both)
    for name in names if len(records) else ():
        rows, others = (file[name][first:last] for file in files)
        found.outputs[name].add(rows[both], others[both], records)
