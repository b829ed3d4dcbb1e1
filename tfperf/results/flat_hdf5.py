"""HDF5 files whose datasets lie in them as they are, made whole at once, so that plain writes can fill them.

HDF5 itself writes the header alone, and the file is closed before anything else is written: a kill while HDF5 has a
file open would leave that unreadable.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from tfperf.results.files import REASONS, write_atomically


@dataclass(frozen=True)
class FlatDataset:
    """A dataset of a fixed shape; its values are 0 until they are written."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """Of all its values."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize


def create_flat_file(
    path: Path, datasets: Sequence[FlatDataset], attributes: Mapping[str, Any],
    alignment: tuple[int, int] | None = None,
) -> None:  # fmt: skip
    """A file with room for these datasets, all of it taken from the disk now; the same arguments give the same bytes.

    alignment: datasets of at least so many bytes begin at multiples of so many. Raises: StorageError where the room is
    not there, ValueError for a type that HDF5 cannot describe.
    """
    with write_atomically(path, sum(one.bytes for one in datasets)) as temporary:
        _write_header(temporary, datasets, attributes, alignment)
        descriptor = os.open(temporary, os.O_RDWR)
        try:
            os.posix_fallocate(descriptor, 0, os.fstat(descriptor).st_size)
        except OSError as error:
            if error.errno in REASONS:
                raise OSError(error.errno, error.strerror, str(temporary)) from None
            # file systems that cannot keep room: it runs out while values are written, or does not
        finally:
            os.close(descriptor)


def _write_header(
    path: Path, datasets: Sequence[FlatDataset], attributes: Mapping[str, Any], alignment: tuple[int, int] | None
) -> None:
    """Structure of the file; it ends where the last dataset ends."""
    creation = h5py.h5p.create(h5py.h5p.FILE_CREATE)
    creation.set_obj_track_times(False)  # no time of day: the same content is the same file
    access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    access.set_libver_bounds(h5py.h5f.LIBVER_V110, h5py.h5f.LIBVER_V110)
    if alignment is not None:
        access.set_alignment(*alignment)
    with h5py.File(h5py.h5f.create(str(path).encode(), h5py.h5f.ACC_TRUNC, creation, access)) as file:
        for name, value in attributes.items():
            file.attrs[name] = value
        for one in datasets:
            settings = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            settings.set_layout(h5py.h5d.CONTIGUOUS)
            settings.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
            settings.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
            settings.set_obj_track_times(False)
            kind = h5py.h5t.py_create(one.dtype, logical=True)
            space = h5py.h5s.create_simple(one.shape)
            made = h5py.h5d.create(file.id, one.name.encode(), kind, space, settings)
            for name, value in one.attributes.items():
                h5py.Dataset(made).attrs[name] = value


def write_at(descriptor: int, content: Any, offset: int) -> None:
    """Put all bytes of a buffer into an open file, from an offset on. Raises: OSError."""
    view = memoryview(content)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written


def read_at(descriptor: int, offset: int, length: int) -> bytes:
    """So many bytes of an open file from an offset on, fewer where it ends before. Raises: OSError."""
    parts: list[bytes] = []
    while length and (part := os.pread(descriptor, length, offset)):
        parts.append(part)
        offset, length = offset + len(part), length - len(part)
    return b"".join(parts)


def find_offsets(path: Path, names: Sequence[str]) -> list[int]:
    """Where the values of datasets begin in a file [bytes]. Raises: OSError, KeyError, ValueError for another file."""
    with h5py.File(path) as file:
        found = [file[name].id.get_offset() for name in names]
    if None in found:
        raise ValueError(f"{path}: its values do not lie in one piece")
    return [int(one) for one in found]
