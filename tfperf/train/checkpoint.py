"""Checkpoints: all that decides the future of a training, in files that are whole or not there.

A file is a line with the sha256 of the rest, then an uncompressed NumPy archive with the arrays and, as OWNER, whose
they are. The generation before the newest is kept: it is what remains when a disk loses the newest.
"""

import hashlib
import io
import json
import logging
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile

import numpy as np

from tfperf.arrays import ArraysByName, Snapshot
from tfperf.errors import RunDirectoryError
from tfperf.results.files import make_folder, sync, verify_holder, write_atomically
from tfperf.results.reading import describe_error, read_bytes
from tfperf.results.state import Identity
from tfperf.train.snapshots import APART

LOGGER = logging.getLogger(__name__)
GENERATIONS = 2
PATTERN = "step-*.ckpt"
OWNER = "owner"
MOST_BYTES = 16 * 2**30


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of one part of a run, in a folder that holds those of other parts and runs, too, at times.

    Only a part's own are taken up: whose a checkpoint is stands in it.
    """

    folder: Path
    run: Identity
    part: str  # its key

    def save(self, step: int, arrays: ArraysByName) -> Path:
        """Write the checkpoint of a step and drop all but the last two.

        Raises: StorageError where the disk does not take it; LostError where the folder is another process's now.
        """
        start = time.perf_counter()
        make_folder(self.folder)
        buffer = io.BytesIO()
        named = {name.replace("/", APART): value for name, value in arrays.items()}
        named[OWNER] = np.frombuffer(json.dumps(self._make_owner()).encode(), np.uint8)
        np.savez(buffer, allow_pickle=False, **named)
        payload = buffer.getvalue()
        path = self.folder / f"step-{step:012d}.ckpt"
        with write_atomically(path, len(payload)) as temporary, open(temporary, "wb") as file:
            file.write(hashlib.sha256(payload).hexdigest().encode() + b"\n")
            file.write(payload)
        for old in sorted(self.folder.glob(PATTERN))[:-GENERATIONS]:
            with suppress(OSError):  # a folder of that name, say: it is none of ours
                old.unlink()
        LOGGER.info("checkpoint of step %d: %d bytes in %.3f s", step, len(payload), time.perf_counter() - start)
        return path

    def load(self) -> tuple[Snapshot, list[str]]:
        """Arrays of the newest whole checkpoint (empty: there is none) and a warning for each newer one not taken.

        RunDirectoryError when there are some, of this part as far as can be told, but all are damaged.
        """
        warnings: list[str] = []
        damaged = False
        for path in sorted(self.folder.glob(PATTERN), reverse=True):
            arrays, why = self._load(path)
            if arrays is not None:
                return arrays, warnings
            damaged = damaged or why.startswith("damaged")
            if why:
                warnings.append(f"{path}: {why}; it is not taken")
        if damaged:
            raise RunDirectoryError(f"{self.folder}: every checkpoint is damaged; begin again by --force", *warnings)
        return {}, warnings

    def _load(self, path: Path) -> tuple[Snapshot | None, str]:
        """The arrays of a checkpoint; else None, and what is to be said about that."""
        try:
            digest, _, payload = read_bytes(path, MOST_BYTES).partition(b"\n")
            if hashlib.sha256(payload).hexdigest().encode() != digest:
                return None, "damaged (its hash does not fit)"
            arrays = _unpack(payload)
            owner = json.loads(arrays.pop(OWNER).tobytes())
            run = owner["run"]
        except MemoryError:
            raise
        except Exception as error:  # a hash is no proof against what was made by hand
            return None, f"damaged ({describe_error(error)})"
        if owner == self._make_owner():
            return arrays, ""
        # those of a part of this run that is done are nothing to speak of
        return None, "" if run == self.run.run else "of another run"

    def _make_owner(self) -> dict[str, Any]:
        """Whose these are, as it is kept in each."""
        return {**asdict(self.run), "part": self.part}

    def has_any(self) -> bool:
        """Whether there is any, whole or not."""
        return any(self.folder.glob(PATTERN))

    def clear(self) -> None:
        """Remove all: they belong to a part of the run that is done."""
        verify_holder(self.folder / PATTERN)
        for path in self.folder.glob(PATTERN):
            with suppress(OSError):
                path.unlink()
        if self.folder.is_dir():
            sync(self.folder)


def _unpack(payload: bytes) -> Snapshot:
    """The arrays of an archive; ValueError for one that would take more memory than it has bytes."""
    with ZipFile(io.BytesIO(payload)) as archive:
        sizes = [entry.file_size for entry in archive.infolist() if entry.compress_type == ZIP_STORED]
        if len(sizes) != len(archive.infolist()) or sum(sizes) > len(payload):
            raise ValueError("a compressed archive")
    with np.load(io.BytesIO(payload), allow_pickle=False) as arrays:
        return {name.replace(APART, "/"): arrays[name] for name in arrays.files}
