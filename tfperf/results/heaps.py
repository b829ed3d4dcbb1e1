"""Heaps of HDF5 files, where texts of variable length are kept: a damaged one is found before HDF5 reads it.

HDF5 1.14 reads a heap with an entry of no size for ever, in code that no signal ends. A heap is 16 bytes (signature,
version, 3 bytes, its size) and entries, each of 16 bytes (number, references, 4 bytes, size) and its text, filled up to
a multiple of 8; the entry of number 0 is what is free, and its size counts its header. Source: HDF5 File Format
Specification 3.0, III.E, global heap.
"""

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import h5py

from tfperf.results.reading import open_regular

SIGNATURE = b"GCOL\x01"  # and the version
HEAD, ENTRY = struct.Struct("<8xQ"), struct.Struct("<H6xQ")
LEAST = 4096  # bytes of a heap; HDF5 refuses smaller ones
BUFFER_BYTES = 1 << 24  # bytes of the file held at a time
WIDTHS = (8, 8)  # bytes of an address and of a size


def refuse_broken_heaps(file: h5py.File, path: Path) -> None:
    """Raises: ValueError where a heap of a file, opened from this path, is damaged; OSError where it cannot be read."""
    if file.id.get_create_plist().get_sizes() != WIDTHS:
        raise ValueError("addresses or sizes of another width than 8 bytes")
    end = 0
    with open_regular(path) as raw:
        length = os.fstat(raw.fileno()).st_size
        for start in _find_signatures(raw):
            raw.seek(start)
            head = raw.read(HEAD.size)
            size = HEAD.unpack(head)[0] if len(head) == HEAD.size else 0
            if LEAST <= size <= length - start:
                if start < end:
                    raise ValueError(f"two heaps of texts share byte {start}")
                end = start + size
                _check_heap(raw, start, end)


def _find_signatures(raw: IO[bytes]) -> Iterator[int]:
    """Where in a file heaps begin, or what looks like one."""
    start = 0
    while True:
        raw.seek(start)
        buffer = raw.read(BUFFER_BYTES)
        found = buffer.find(SIGNATURE)
        while found >= 0:
            yield start + found
            found = buffer.find(SIGNATURE, found + 1)
        if len(buffer) < BUFFER_BYTES:
            return
        start += BUFFER_BYTES - len(SIGNATURE) + 1


def _check_heap(raw: IO[bytes], start: int, end: int) -> None:
    """ValueError where the entries of the heap from `start` to `end` do not follow each other."""
    at = start + HEAD.size
    while end - at >= ENTRY.size:
        raw.seek(at)
        number, size = ENTRY.unpack(raw.read(ENTRY.size))
        length = size if number == 0 else ENTRY.size + -(-size // 8) * 8
        if not ENTRY.size <= length <= end - at:
            raise ValueError(f"the heap of texts at byte {start} is damaged")
        at += length
