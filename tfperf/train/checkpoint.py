"""Checkpoints: all that decides the future of a training, in files that are whole or not there.

A file is a line with the sha256 of the rest, then an uncompressed NumPy archive. The generation before the newest is
kept: it is what remains when a disk loses the newest.
"""

import hashlib
import io
from collections.abc import Mapping
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from tfperf.errors import RunDirectoryError
from tfperf.results.files import atomic_write, sync

GENERATIONS = 2
PATTERN = "step-*.ckpt"
Arrays = dict[str, NDArray[np.generic]]


def save(folder: Path, step: int, arrays: Mapping[str, NDArray[np.generic]]) -> Path:
    """Write the checkpoint of a step and drop all but the last two; StorageError when the disk is full."""
    folder.mkdir(exist_ok=True)
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **{name.replace("/", "|"): value for name, value in arrays.items()})
    payload = buffer.getvalue()
    path = folder / f"step-{step:012d}.ckpt"
    with atomic_write(path, len(payload)) as temporary, open(temporary, "wb") as file:
        file.write(hashlib.sha256(payload).hexdigest().encode() + b"\n")
        file.write(payload)
    for old in sorted(folder.glob(PATTERN))[:-GENERATIONS]:
        old.unlink()
    return path


def load(folder: Path) -> tuple[Arrays, list[str]]:
    """Arrays of the newest whole checkpoint (empty: there is none) and a warning for each damaged newer one.

    RunDirectoryError when there are checkpoints but all are damaged.
    """
    warnings: list[str] = []
    files = sorted(folder.glob(PATTERN), reverse=True)
    for path in files:
        digest, _, payload = path.read_bytes().partition(b"\n")
        if hashlib.sha256(payload).hexdigest().encode() == digest:
            return _arrays(path, payload), warnings
        warnings.append(f"{path}: damaged (its hash does not fit); the one before it is used")
    if files:
        raise RunDirectoryError(f"{folder}: every checkpoint is damaged; begin again by --force")
    return {}, warnings


def _arrays(path: Path, payload: bytes) -> Arrays:
    try:
        with np.load(io.BytesIO(payload), allow_pickle=False) as archive:
            return {name.replace("|", "/"): archive[name] for name in archive.files}
    except (BadZipFile, ValueError, OSError) as error:
        raise RunDirectoryError(f"{path}: whole, but not a checkpoint: {error}") from None


def exists(folder: Path) -> bool:
    """Whether there is a checkpoint, whole or not."""
    return any(folder.glob(PATTERN))


def clear(folder: Path) -> None:
    """Remove all checkpoints: they belong to a part of the run that is done."""
    for path in folder.glob(PATTERN):
        path.unlink()
    if folder.is_dir():
        sync(folder)
