"""What an HDF5 file may claim to hold, looked at before anything is read: a few hundred bytes can claim terabytes.

Values that were never written, chunks that inflate beyond their size, one block that is listed many times.
"""

import math
import zlib
from typing import Any

import h5py

from tfperf.errors import FileLimitError

FILTERS = {
    h5py.h5z.FILTER_DEFLATE: "gzip",
    h5py.h5z.FILTER_SHUFFLE: "shuffle",
    h5py.h5z.FILTER_FLETCHER32: "fletcher32",
}
MOST_CHUNKS = 100_000  # of an array
CHUNK_BYTES = 64 * 10**6
REFERENCE = 16  # bytes that stand in a chunk for a text of variable length
SLACK = 1000  # bytes that filters may add to a chunk, beside one part in a hundred
INFLATED = 1032  # bytes that deflate makes of one at most
TRANSIENT = 256 * 10**6  # bytes that a chunk may become before it is found to be too long
SPARE = 256 * 10**6  # bytes of arrays in a file, however small
FACTOR = 200  # and for each byte of the file: tables with few entries are compressed up to 40 times
ATTRIBUTES = 1000  # of a group or array
ATTRIBUTE_BYTES = 10**6
ATTRIBUTE_TEXTS = 100


class Budget:
    """What the arrays of one file may take together."""

    def __init__(self, file: h5py.File) -> None:
        self.stored = file.id.get_filesize()
        self.bytes = SPARE + FACTOR * self.stored

    def charge(self, array: h5py.Dataset, most: int) -> None:
        """Count an array of at most `most` bytes. Raises: FileLimitError for more, and for what is no plain array."""
        if array.nbytes > most:
            raise FileLimitError(f"{array.nbytes} bytes", f"at most {most} are allowed")
        self.bytes -= array.nbytes
        self.stored -= array.id.get_storage_size()
        if min(self.bytes, self.stored) < 0:
            allowed = f"each array once, and {SPARE} bytes and {FACTOR} for each byte of the file in all"
            raise FileLimitError(f"{array.nbytes} bytes, more than are left for it in a file of this size", allowed)
        refuse_storage(array)


def refuse_storage(array: h5py.Dataset) -> None:
    """Raises FileLimitError where an array is not kept whole in its file, compressed, if at all, as NumPy users do."""
    if array.external or array.is_virtual:
        raise FileLimitError("values kept in other files", "data inside this file")
    if not array.size:
        return
    if not array.id.get_storage_size():
        raise FileLimitError("its values were never written", "an array with its values")
    properties = array.id.get_create_plist()
    codes = [properties.get_filter(i)[0] for i in range(properties.get_nfilters())]
    if len(set(codes)) != len(codes) or not set(codes) <= set(FILTERS):
        names = ", ".join(FILTERS.get(code, f"filter {code}") for code in codes)
        raise FileLimitError(f"stored with {names}", "allowed are " + ", ".join(FILTERS.values()) + ", each once")
    if array.chunks is not None:
        _refuse_chunks(array, h5py.h5z.FILTER_DEFLATE in codes)


def _refuse_chunks(array: h5py.Dataset, compressed: bool) -> None:
    size = (REFERENCE if array.dtype.kind == "O" else array.dtype.itemsize) * math.prod(array.chunks)
    count = math.prod(-(-n // c) for n, c in zip(array.shape, array.chunks, strict=True))
    if size > CHUNK_BYTES or count > MOST_CHUNKS:
        raise FileLimitError(f"{count} chunks of {size} bytes", f"at most {MOST_CHUNKS} of {CHUNK_BYTES} bytes")
    if array.id.get_num_chunks() != count:
        raise FileLimitError(f"{array.id.get_num_chunks()} of {count} chunks were written", "an array with its values")
    chunks: list[Any] = []
    array.id.chunk_iter(chunks.append)
    for chunk in chunks:
        if chunk.size > size + size // 100 + SLACK or (compressed and _can_inflate(array, chunk, size)):
            raise FileLimitError("a chunk that is longer than its values", "an undamaged array")


def _can_inflate(array: h5py.Dataset, chunk: Any, size: int) -> bool:
    """Whether a compressed chunk may become so long that memory runs out before HDF5 finds it damaged."""
    if chunk.size * INFLATED <= TRANSIENT:
        return False
    _, content = array.id.read_direct_chunk(chunk.chunk_offset)
    try:
        return len(zlib.decompressobj().decompress(content, size + SLACK)) == size + SLACK
    except zlib.error:
        return False  # not compressed, or damaged, which reading tells


def read_attribute(item: h5py.Group | h5py.Dataset, name: str, default: Any = None) -> Any:
    """One, or `default` where there is none. FileLimitError for what is no small array of numbers or texts."""
    if name not in item.attrs:
        return default
    stored = item.attrs.get_id(name)
    count, texts = math.prod(stored.shape or ()), h5py.check_string_dtype(stored.dtype) is not None
    if stored.dtype.kind not in "fiubSU" and not texts:
        raise FileLimitError(f"attribute {name} of type {stored.dtype}", "must be numbers or texts")
    longest = ATTRIBUTE_TEXTS if stored.dtype.kind == "O" else ATTRIBUTE_BYTES
    if count > longest or count * stored.dtype.itemsize > ATTRIBUTE_BYTES:
        raise FileLimitError(f"attribute {name} of {count} entries", f"at most {longest}, and {ATTRIBUTE_BYTES} bytes")
    value = item.attrs[name]
    if isinstance(value, str | bytes) and len(value) > ATTRIBUTE_BYTES:
        raise FileLimitError(f"attribute {name} of {len(value)} bytes", f"at most {ATTRIBUTE_BYTES}")
    return value


def read_attributes(item: h5py.Group | h5py.Dataset) -> dict[str, Any]:
    """All attributes. Raises: FileLimitError as `read_attribute`, and for too many."""
    if len(item.attrs) > ATTRIBUTES:
        raise FileLimitError(f"{len(item.attrs)} attributes", f"at most {ATTRIBUTES}")
    return {name: read_attribute(item, name) for name in item.attrs}
