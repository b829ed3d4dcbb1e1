"""The HDF5 file of a prediction: made whole before the first record, filled by plain writes, finished by one byte.

Every record has a row in each output, an id and a status. What is in the file counts where the journal says so.
"""

import os
import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import h5py
import numpy as np

from tfperf.arrays import AnyArray, Int64Array
from tfperf.errors import RunDirectoryError, StorageError
from tfperf.infer.dataset_names import FINISHED, IDS, STATUS, STATUS_CODES
from tfperf.results.files import REASONS
from tfperf.results.flat_hdf5 import FlatDataset, create_flat_file, find_offsets, read_at, write_at
from tfperf.results.reading import open_descriptor


@dataclass(frozen=True)
class OutputSpec:
    """One output of the model. shape: of a record's values."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def bytes(self) -> int:
        """Of a record."""
        return int(np.prod(self.shape, dtype=np.int64)) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class OutputPlan:
    """What the file holds. id_type: of NumPy, as `<i8` or `|S12`; attributes: of the file, beside those of datasets."""

    records: int
    outputs: tuple[OutputSpec, ...]
    id_type: str
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def list_datasets(self) -> list[FlatDataset]:
        """All of them."""
        codes = ", ".join(f"{code}: {name}" for name, code in STATUS_CODES.items())
        return [
            FlatDataset(FINISHED, (1,), np.dtype("|u1"), {"description": "1 once all records are there"}),
            FlatDataset(STATUS, (self.records,), np.dtype("|u1"), {"description": codes}),
            FlatDataset(IDS, (self.records,), np.dtype(self.id_type)),
            *(
                FlatDataset(
                    one.name, (self.records, *one.shape), np.dtype(one.dtype).newbyteorder("<"),
                    {"units": "1", "description": f"output {one.name} of the model, a row for each record"},
                )
                for one in self.outputs
            ),
        ]  # fmt: skip

    @property
    def bytes(self) -> int:
        """What the file takes, but for its header."""
        return sum(one.bytes for one in self.list_datasets())


def create_output(path: Path, plan: OutputPlan) -> None:
    """The file, with room for all. Raises: StorageError where the room is not there."""
    create_flat_file(path, plan.list_datasets(), plan.attributes)


class OutputFile:
    """The file while it is filled or verified; rows of records are written in any order."""

    def __init__(self, path: Path, plan: OutputPlan, is_written: bool = False) -> None:
        """Raises: RunDirectoryError where the file is not the plan's."""
        self.path, self.plan = path, plan
        datasets = plan.list_datasets()
        try:
            with h5py.File(path) as file:
                for one in datasets:
                    if file[one.name].shape != one.shape or file[one.name].dtype != one.dtype:
                        raise ValueError(f"{one.name} has another shape or type")
            offsets = find_offsets(path, [one.name for one in datasets])
            self._descriptor = open_descriptor(path, os.O_RDWR if is_written else os.O_RDONLY)
        except (OSError, KeyError, ValueError) as error:
            raise RunDirectoryError(f"{path}: damaged: {' '.join(str(error).split())[:200]}") from None
        self._syncer = ThreadPoolExecutor(1)  # its thread begins with the first `begin_sync`
        self._syncing: Future[None] | None = None
        # offset, bytes of a record
        self._places = {
            one.name: (offset, one.bytes // one.shape[0]) for one, offset in zip(datasets, offsets, strict=True)
        }

    def __enter__(self) -> "OutputFile":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Give it back."""
        self._syncer.shutdown()
        os.close(self._descriptor)

    def write(self, records: Int64Array, values: Mapping[str, AnyArray]) -> int:
        """Put rows of records (n), in rising order, in their places; status last. Returns their checksum.

        values: of each dataset but FINISHED, (n, ...). Raises: StorageError where the disk does not take them.
        """
        starts, ends = _find_runs(records)
        checksum = 0
        for name in self._names:
            content = _to_bytes(values[name], self._places[name][1], len(records))
            checksum = zlib.crc32(content, checksum)
            offset, size = self._places[name]
            for first, last in zip(starts, ends, strict=True):
                self._write(content[first * size : last * size], offset + int(records[first]) * size)
        return checksum

    def compute_checksum(self, records: Int64Array) -> int:
        """Of what is in the file, as `write` returns it."""
        starts, ends = _find_runs(records)
        checksum = 0
        for name in self._names:
            offset, size = self._places[name]
            for first, last in zip(starts, ends, strict=True):
                checksum = zlib.crc32(self._read(offset + int(records[first]) * size, (last - first) * size), checksum)
        return checksum

    @property
    def _names(self) -> Sequence[str]:
        return [*(one.name for one in self.plan.outputs), IDS, STATUS]

    @property
    def is_finished(self) -> bool:
        """Whether all records are there."""
        return self._read(self._places[FINISHED][0], 1) == b"\1"

    def finish(self) -> None:
        """Say that all records are there, on the disk when this returns."""
        self.sync()
        self._write(b"\1", self._places[FINISHED][0])
        self.sync()

    def begin_sync(self) -> None:
        """Have the disk take what was written until now, beside what follows, where it is not at it already.

        Raises: StorageError of one that was begun before: the system tells such an error once.
        """
        if self._syncing is None or self._syncing.done():
            self._end_sync()
            self._syncing = self._syncer.submit(os.fdatasync, self._descriptor)

    def sync(self) -> None:
        """Wait until all that was written is on the disk. Raises: StorageError, also of what `begin_sync` began."""
        self._end_sync()
        try:
            os.fdatasync(self._descriptor)
        except OSError as error:
            raise self._explain(error) from error

    def _end_sync(self) -> None:
        try:
            if self._syncing is not None:
                self._syncing.result()
        except OSError as error:
            raise self._explain(error) from error

    def _write(self, content: Any, offset: int) -> None:
        try:
            write_at(self._descriptor, content, offset)
        except OSError as error:
            raise self._explain(error) from error

    def _read(self, offset: int, length: int) -> bytes:
        return read_at(self._descriptor, offset, length)

    def _explain(self, error: OSError) -> StorageError:
        reason = REASONS.get(error.errno or 0, error.strerror)
        return StorageError(f"{self.path}: could not be written: {reason}; what was stored until then is kept")


def _find_runs(records: Int64Array) -> tuple[list[int], list[int]]:
    """Positions where neighbours begin and end, so that each run is one write.

    >>> _find_runs(np.array([3, 4, 5, 9]))
    ([0, 3], [3, 4])
    """
    breaks = [int(one) + 1 for one in np.flatnonzero(np.diff(records) != 1)]
    return [0, *breaks], [*breaks, len(records)]


def _to_bytes(values: AnyArray, size: int, count: int) -> memoryview:
    found = np.ascontiguousarray(values).reshape(-1).view(np.uint8).data
    if len(found) != size * count:
        raise ValueError(f"{count} records of {size} bytes are {size * count} bytes, not {len(found)}")
    return found
