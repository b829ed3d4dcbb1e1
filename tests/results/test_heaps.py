"""Damage to the heap of texts of an HDF5 file is found before HDF5 loops over it."""

import struct
from pathlib import Path

import h5py
import numpy as np
import pytest

from tests.fuzz.attack import ROOT
from tests.workloads.pdf.data.packs import write_good
from tfperf.results.heaps import BUFFER_BYTES, SIGNATURE, refuse_broken_heaps

TEXTS = [f"text {i}" for i in range(3000)]  # in several heaps


@pytest.fixture
def path(tmp_path):
    with h5py.File(tmp_path / "texts.h5", "w") as file:
        file.create_dataset("texts", data=TEXTS, dtype=h5py.string_dtype())
        file.attrs["long"] = "x" * 50_000
    return tmp_path / "texts.h5"


def check(path):
    with h5py.File(path) as file:
        refuse_broken_heaps(file, path)


def heaps(path):
    content = path.read_bytes()
    at = content.find(SIGNATURE)
    while at >= 0:
        yield at
        at = content.find(SIGNATURE, at + 1)


def damage(path, at, content):
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(content)


def test_whole_files_pass(path, tmp_path):
    check(path)
    assert len(list(heaps(path))) > 2
    check(write_good(tmp_path / "pack.h5"))
    for shipped in sorted((ROOT / "data").rglob("*.h5")):
        check(shipped)


@pytest.mark.parametrize("entry", [0, 1, 40])
@pytest.mark.parametrize("size", [0, 2**64 - 16, 2**63, 10**6])
def test_an_entry_that_leads_nowhere_is_found(path, entry, size):
    start = list(heaps(path))[1]
    at = start + 16
    with open(path, "rb") as file:
        for _ in range(entry):
            file.seek(at)
            at += 16 + -(-struct.unpack("<8xQ", file.read(16))[0] // 8) * 8
    damage(path, at, struct.pack("<HHIQ", 0 if size == 0 else entry + 1, 0, 0, size))
    with pytest.raises(ValueError, match=f"heap of texts at byte {start} is damaged"):
        check(path)


def test_a_heap_inside_another_is_found(path):
    first = next(heaps(path))
    damage(path, first + 16 + 24 * 7, SIGNATURE + bytes(3) + struct.pack("<Q", 4096))
    with pytest.raises(ValueError, match=r"share byte|is damaged"):
        check(path)


def test_a_heap_across_two_blocks_is_found(tmp_path):
    path = tmp_path / "texts.h5"
    with h5py.File(path, "w") as file:
        file["numbers"] = np.zeros(2 * BUFFER_BYTES, np.uint8)
        file.attrs["text"] = "x"
    (start,) = heaps(path)
    with h5py.File(path) as file:
        (raw := bytearray(path.read_bytes()))[start : start + 5] = b"?????"
        array = file["numbers"].id.get_offset()
    moved = BUFFER_BYTES - 3
    assert array < moved < array + BUFFER_BYTES
    raw[moved : moved + 16 + 8] = SIGNATURE + bytes(3) + struct.pack("<QQ", 4096, 0)
    path.write_bytes(raw)
    with pytest.raises(ValueError, match=f"at byte {moved} is damaged"):
        check(path)


def test_files_with_other_widths_are_refused(tmp_path):
    properties = h5py.h5p.create(h5py.h5p.FILE_CREATE)
    properties.set_sizes(4, 4)
    h5py.h5f.create(bytes(tmp_path / "narrow.h5"), h5py.h5f.ACC_TRUNC, properties).close()
    with pytest.raises(ValueError, match="another width"):
        check(Path(tmp_path / "narrow.h5"))
