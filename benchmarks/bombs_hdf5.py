"""Small HDF5 files that claim much, or never end."""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from benchmarks.bombs import CHECK, POSTFIT, register_bomb

MANY = 400_000_000  # values


@contextmanager
def _open_pack(folder: Path) -> Iterator[h5py.File]:
    with h5py.File(folder / "pack.h5", "r+") as file:
        yield file


def _replace(file: h5py.File, place: str, shape: tuple[int, ...], dtype: Any = "f8", **options: Any) -> h5py.Dataset:
    """An array of another shape in the place of one, its attributes kept; its values are not written."""
    attributes = dict(file[place].attrs)
    del file[place]
    array = file.create_dataset(place, shape, dtype, **options)
    array.attrs.update(attributes)
    return array


def _inflate(array: h5py.Dataset, size: int) -> None:
    """Give each chunk the same few bytes, which inflate to so many zeros, be that the size of a chunk or more."""
    packer = zlib.compressobj(9)
    content = b"".join(packer.compress(bytes(1 << 20)) for _ in range(size >> 20)) + packer.flush()
    for start in range(0, array.shape[0], array.chunks[0]):
        array.id.write_direct_chunk((start, *(0 for _ in array.shape[1:])), content)


@register_bomb("pack: 4e8 nodes of zeros")
def _write_nodes(folder: Path) -> list[str]:
    with _open_pack(folder) as file:
        _inflate(_replace(file, "x", (MANY,), chunks=(MANY // 8,), compression="gzip"), MANY)
    return CHECK


@register_bomb("pack: 4e8 nodes that were never written")
def _leave_unwritten(folder: Path) -> list[str]:
    with _open_pack(folder) as file:
        _replace(file, "x", (MANY,), chunks=(10**6,))
    return CHECK


@register_bomb("pack: a table of 1e9 bytes of zeros")
def _write_table(folder: Path) -> list[str]:
    with _open_pack(folder) as file:
        _, nodes, flavours = file["AAA_F2/fk"].shape
        rows = 10**9 // (nodes * flavours * 8)
        chunks = (-(-rows // 20), nodes, flavours)
        array = _replace(file, "AAA_F2/fk", (rows, nodes, flavours), chunks=chunks, compression="gzip")
        _inflate(array, 8 * int(np.prod(chunks)))
    return CHECK


@register_bomb("pack: a chunk of 14 kB that inflates to 1e9 bytes")
def _write_chunk(folder: Path) -> list[str]:
    with _open_pack(folder) as file:
        shape = file["AAA_F2/fk"].shape
        _inflate(_replace(file, "AAA_F2/fk", shape, "f4", chunks=shape, compression="gzip"), 10**9)
    return CHECK


@register_bomb("pack: 1e6 chunks of 1000 numbers")
def _write_chunks(folder: Path) -> list[str]:
    with _open_pack(folder) as file:
        _replace(file, "x", (10**9,), chunks=(1000,))
    return CHECK


@register_bomb("pack: 10 000 names, one text of 30 MB")
def _write_names(folder: Path) -> list[str]:
    with _open_pack(folder) as file:
        points, columns = len(file["AAA_F2/cv"]), 10_000
        _replace(file, "AAA_F2/sys", (points, columns))[...] = 0.1
        _replace(file, "AAA_F2/sys_is_mult", (columns,), bool)[...] = False
        array = _replace(file, "AAA_F2/sys_names", (columns,), h5py.string_dtype(), chunks=(columns,))
        array[:1] = ["x" * 30_000_000]
        chunk = array.id.get_chunk_info(0)
    with open(folder / "pack.h5", "r+b") as raw:  # each entry is where the first one is
        raw.seek(chunk.byte_offset)
        first = raw.read(chunk.size // columns)
        raw.seek(chunk.byte_offset)
        raw.write(first * columns)
    return CHECK


@register_bomb("pack: 20 000 sets")
def _write_sets(folder: Path) -> list[str]:
    with _open_pack(folder) as file:
        for i in range(20_000):
            file.create_group(f"SET_{i}")
    return CHECK


@register_bomb("pack: 1000 sets that are one and the same")
def _link_sets(folder: Path) -> list[str]:
    with _open_pack(folder) as file:
        for i in range(990):
            file[f"SET_{i}"] = file["AAA_F2"]
    return CHECK


def _zero_heap(path: Path) -> None:
    """Zeros in the place of three entries in the middle of a heap of texts: for ever the next one."""
    content = bytearray(path.read_bytes())
    entry = content.index(b"GCOL\x01") + 16 + 24 * 6
    content[entry : entry + 64] = bytes(64)
    path.write_bytes(content)


@register_bomb("pack: 64 zeros in a heap of texts")
def _write_pack_zeros(folder: Path) -> list[str]:
    _zero_heap(folder / "pack.h5")
    return CHECK


@register_bomb("results.h5: 64 zeros in a heap of texts")
def _write_result_zeros(folder: Path) -> list[str]:
    with h5py.File(folder / "b" / "results.h5", "r+") as file:
        file.attrs.update({"kind": "tfperf results", **{f"more{i}": "xy" for i in range(20)}})
    _zero_heap(folder / "b" / "results.h5")
    return POSTFIT


@register_bomb("pack: a device")
def _link_device(folder: Path) -> list[str]:
    (folder / "pack.h5").unlink()
    (folder / "pack.h5").symlink_to("/dev/zero")
    return CHECK


def _write_results(folder: Path, place: str, shape: tuple[int, ...], rows: int) -> list[str]:
    """Zeros of that shape, in chunks of so many rows."""
    with h5py.File(folder / "b" / "results.h5", "r+") as file:
        array = _replace(file, place, shape, file[place].dtype, chunks=(rows, *shape[1:]), compression="gzip")
        _inflate(array, int(np.prod(array.chunks)) * array.dtype.itemsize)
    return POSTFIT


@register_bomb("results.h5: PDFs of 1e10 bytes of zeros")
def _write_pdf(folder: Path) -> list[str]:
    return _write_results(folder, "pdf", (100_000, 8, 1000), 1000)


@register_bomb("results.h5: a history of 1e9 steps")
def _write_history(folder: Path) -> list[str]:
    return _write_results(folder, "history/step", (10**8,), 10**6)


@register_bomb("results.h5: a summary of 2e6 levels")
def _write_summary(folder: Path) -> list[str]:
    with h5py.File(folder / "b" / "results.h5", "r+") as file:
        del file["summary"]
        file["summary"] = np.array([b'{"a":' * 2 * 10**6])
    return POSTFIT


@register_bomb("results.h5: a summary of 1.6e7 characters of empty lists")
def _write_lists(folder: Path) -> list[str]:
    with h5py.File(folder / "b" / "results.h5", "r+") as file:
        del file["summary"]
        file.create_dataset("summary", data=np.array([b'{"a": [' + b"{}," * 5 * 10**6 + b"{}]}"]), compression="gzip")
    return POSTFIT
