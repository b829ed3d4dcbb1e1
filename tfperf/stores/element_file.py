"""The HDF5 file of a store: made whole at once, filled by plain writes, verified by checksums of blocks.

Its records lie one after the other behind a header that is never touched again.
"""

import hashlib
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

from tfperf.errors import RunDirectoryError, StorageError, UserError
from tfperf.results.files import REASONS
from tfperf.results.flat_hdf5 import FlatDataset, create_flat_file, read_at, write_at
from tfperf.results.reading import open_descriptor
from tfperf.stores.layout import LEAST_OFFSET, RecordLayout

FILE, ELEMENTS, CHECKSUMS = "elements.h5", "elements", "checksums"
BLOCK_BYTES = 4 * 2**20  # about, that one checksum is of
CRC_BYTES = 4


@dataclass(frozen=True)
class FilePlan:
    """Where everything is in the file of a store. Offsets in bytes."""

    layout: RecordLayout
    elements: int
    block: int  # elements of a checksum
    offset: int  # of the first element
    checksum_offset: int

    @property
    def blocks(self) -> int:
        """How many there are, the last one perhaps shorter."""
        return -(-self.elements // self.block)

    def count_in_block(self, number: int) -> int:
        """Elements of a block."""
        return min(self.block, self.elements - number * self.block)

    def locate(self, block: int) -> tuple[int, int]:
        """Offset and length of a block."""
        size = self.layout.record_bytes
        return self.offset + block * self.block * size, self.count_in_block(block) * size


def create_file(folder: Path, layout: RecordLayout, elements: int, provenance: str) -> FilePlan:
    """The file with room for so many elements, all of it taken from the disk now.

    provenance: a text that says what they are. Raises: StorageError where the room is not there, UserError for more
    components than HDF5 describes.
    """
    blocks = -(-elements // layout.find_block(BLOCK_BYTES))
    datasets = (
        FlatDataset(CHECKSUMS, (blocks,), np.dtype("<u4")), FlatDataset(ELEMENTS, (elements,), layout.make_dtype()),
    )  # fmt: skip
    # what is smaller lies anywhere
    alignment = min(LEAST_OFFSET, layout.record_bytes * elements), layout.data_interval
    try:
        create_flat_file(folder / FILE, datasets, {"provenance": np.bytes_(provenance)}, alignment)
    except ValueError as error:
        if "message is too large" not in str(error):
            raise
        raise UserError(
            f"data: an element has {len(layout.components)} components; HDF5 keeps their names, types and shapes in "
            "64 kB, which these do not fit: store after a stage that stacks some of them"
        ) from None
    return read_plan(folder / FILE, layout, elements)


def read_plan(path: Path, layout: RecordLayout, elements: int) -> FilePlan:
    """Where everything is in a file. Raises: RunDirectoryError for a file that is not of these elements."""
    try:
        with h5py.File(path) as file:
            records, checksums = file[ELEMENTS], file[CHECKSUMS]
            offsets = records.id.get_offset(), checksums.id.get_offset()
            plan = FilePlan(layout, elements, layout.find_block(BLOCK_BYTES), *offsets)
            is_same = records.shape == (elements,) and records.dtype == layout.make_dtype()
            is_whole = (
                checksums.shape == (plan.blocks,) and None not in offsets and offsets[0] % layout.record_bytes == 0
            )
    except (OSError, KeyError, AttributeError, TypeError) as error:
        raise RunDirectoryError(f"{path}: damaged: {' '.join(str(error).split())[:200]}") from None
    if not is_same or not is_whole or path.stat().st_size < plan.offset + elements * layout.record_bytes:
        raise RunDirectoryError(f"{path}: damaged: it has not the {elements} elements that the store says")
    return plan


class ElementFile:
    """The file while it is filled or verified."""

    def __init__(self, path: Path, plan: FilePlan, is_written: bool = False) -> None:
        """Raises: RunDirectoryError where it cannot be opened."""
        self.path, self.plan = path, plan
        try:
            self._descriptor = open_descriptor(path, os.O_RDWR if is_written else os.O_RDONLY)
        except (OSError, ValueError) as error:
            raise RunDirectoryError(f"{path}: cannot be opened: {error}") from None

    def __enter__(self) -> "ElementFile":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def write_block(self, number: int, records: bytes) -> int:
        """Put a block in its place; returns its checksum. Raises: StorageError where the disk does not take it."""
        offset, length = self.plan.locate(number)
        assert len(records) == length, (len(records), length)
        checksum = zlib.crc32(records)
        self._write(records, offset)
        self._write(checksum.to_bytes(CRC_BYTES, "little"), self.plan.checksum_offset + number * CRC_BYTES)
        return checksum

    def _write(self, content: bytes, offset: int) -> None:
        try:
            write_at(self._descriptor, content, offset)
        except OSError as error:
            reason = REASONS.get(error.errno or 0, error.strerror)
            raise StorageError(f"{self.path}: could not be written: {reason}; the same command goes on") from error

    def sync(self) -> None:
        """Wait until all of it is on the disk."""
        os.fdatasync(self._descriptor)

    def compute_checksum(self, number: int) -> int:
        """Of a block as it is in the file now."""
        offset, length = self.plan.locate(number)
        return zlib.crc32(read_at(self._descriptor, offset, length))

    def find_damaged(self) -> Iterator[int]:
        """Numbers of the blocks whose bytes are not those that were written."""
        plan = self.plan
        kept = np.frombuffer(read_at(self._descriptor, plan.checksum_offset, plan.blocks * CRC_BYTES), "<u4")
        yield from (number for number in range(plan.blocks) if self.compute_checksum(number) != kept[number])

    def hash_header(self) -> str:
        """sha256 of what is before the elements, but for the checksums."""
        plan = self.plan
        content = bytearray(read_at(self._descriptor, 0, plan.offset))
        content[plan.checksum_offset : plan.checksum_offset + plan.blocks * CRC_BYTES] = b""
        return hashlib.sha256(content).hexdigest()
