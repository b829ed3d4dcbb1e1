"""Entries of the cache: whatever is in a file, what comes back is what was made."""

import os
import zipfile
from io import BytesIO
from pathlib import Path

import numpy as np

from tfperf.data import cache
from tfperf.data.cache import Cache, digest
from tfperf.workloads.pdf.operators.woodbury import Block, Whitening


def record():
    """A record as fits keep them."""
    rng = np.random.default_rng(2)
    return Whitening(rng.standard_normal(9), (Block(slice(0, 4), rng.standard_normal((4, 2))),))


def put(folder):
    """Write the entry of the record; its path."""
    os.environ[cache.VARIABLE] = str(folder)
    Cache(True).get("folded", "key", record)
    (path,) = (Path(folder) / "operators").glob("*.npz")
    return path


def compare(folder, path, plant=None):
    """The record is the same, and made again unless the entry is whole; plant: what is put in its place before."""
    os.environ[cache.VARIABLE] = str(folder)
    path = Path(path)
    if plant is not None:
        path.unlink()
        PLANTS[plant](path)
    want, calls = digest(record()), []
    for _ in range(2):
        got = Cache(True).get("folded", "key", lambda: calls.append(1) or record())  # type: ignore[func-returns-value]
        assert digest(got) == want and all(a.flags.c_contiguous for a in (got.inverse_sigma, got.blocks[0].u))
    assert len(calls) <= (2 if path.is_dir() else 1), "what was made again is not kept"


def refuses(folder, path):
    """Whether the entry is not taken, told by an error as a refusal."""
    from tfperf.errors import UserError

    os.environ[cache.VARIABLE] = str(folder)
    calls = []
    compare_to = Cache(True).get("folded", "key", lambda: calls.append(1) or record())  # type: ignore[func-returns-value]
    assert digest(compare_to) == digest(record())
    compare(folder, path)
    if calls:
        raise UserError("made again")


def archive(members, method=zipfile.ZIP_DEFLATED):
    """An .npz file with members of these bytes."""
    out = BytesIO()
    with zipfile.ZipFile(out, "w", method) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return out.getvalue()


def array(shape, dtype="<f8"):
    """The header of an .npy file that claims this shape."""
    words = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(words).to_bytes(2, "little") + words.encode()


PLANTS = {
    "nothing": lambda path: path.write_bytes(b""),
    "pipe": os.mkfifo,
    "folder": Path.mkdir,
    "endless": lambda path: path.symlink_to("/dev/zero"),
    "loop": lambda path: path.symlink_to(path),
    "sparse": lambda path: (path.touch(), os.truncate(path, 10**11)),  # type: ignore[func-returns-value]
    "claims": lambda path: path.write_bytes(archive({"tree.npy": array((10**12,)), "a0.npy": array((10**12,))})),
    "pickle": lambda path: path.write_bytes(archive({"tree.npy": array((1,), "|O") + b"cos\nsystem\n(S'true'\ntR."})),
    "inflates": lambda path: path.write_bytes(archive({"tree.npy": array((10**7,), "|u1") + bytes(10**7)})),
}
