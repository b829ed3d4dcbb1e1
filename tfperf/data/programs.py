"""Programs that XLA has compiled, kept on disk for the next process.

What XLA makes of a function depends on the machine and on settings that TensorFlow's own key lacks: each such place has
a folder of its own, for this user alone. A file is a line with the sha256 of the rest, one with the name that
TensorFlow gave the program, and the program. A damaged one makes TensorFlow fail, or run wrong code: what is returned
here was read once and checked as a whole. Whatever is wrong with a file, it is removed, and TensorFlow compiles anew.
What was not used for longest goes first when there is too much. Nothing that can go wrong with the disk is an error.
"""

import hashlib
import os
import re
import shutil
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tfperf.data.cache import ABANDONED_SECONDS, digest, find_cache_folder, make_private, replace_file
from tfperf.results.reading import read_bytes

VARIABLE = "TF_XLA_FLAGS"
LIMIT_BYTES = 64 * 2**20  # of a folder: all of it is read when TensorFlow starts
TOTAL_BYTES = 256 * 2**20  # of the folders of all places
PROGRAM_BYTES = 32 * 2**20
HEADER_BYTES = 1000
FOLDER, SUFFIX = "programs", ".program"
NAME = re.compile(r"\w{1,200}\.pb")
OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


def get_user_flags() -> str | None:
    """TF_XLA_FLAGS as the user set them; None where they rule out ours: a cache of his own, or a file of flags."""
    given = os.environ.get(VARIABLE, "").strip()
    return None if "tf_xla_persistent_cache_directory" in given or given[:1] not in ("", "-") else given


@contextmanager
def set_flags(directory: str) -> Iterator[None]:
    """Point a TensorFlow that starts in this block at a directory for programs; child processes see nothing of it.

    It reads its flags when it starts: neither when it is imported nor when it compiles. Only programs for the CPU: on
    GPUs this was never tried, and a program that cannot be written fails the step.
    """
    before = os.environ.get(VARIABLE)
    ours = f"--tf_xla_persistent_cache_directory={directory} --tf_xla_persistent_cache_device_types=CPU"
    os.environ[VARIABLE] = f"{before} {ours}" if before else ours
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


class ProgramFolder:
    """The programs of one place: of a machine, of versions and settings."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @staticmethod
    def find(tensorflow: str, *settings: object) -> "ProgramFolder | None":
        """The folder for a version of TensorFlow and all else that a program depends on; None: there is no cache."""
        cache = find_cache_folder()
        name = f"tensorflow-{tensorflow}-{digest(*settings)[:32]}"
        return None if cache is None else ProgramFolder(cache / FOLDER / name)

    def read(self) -> dict[str, bytes]:
        """All sound programs by name, as many as the limit allows, those used last first; the others are removed."""
        found: dict[str, bytes] = {}
        total = 0
        for path, _, size in self._list_entries() if self._is_safe() else ():
            total += size
            name = path.name.removesuffix(SUFFIX)
            program = _read(path, name) if total <= LIMIT_BYTES else None
            if program is None:
                _remove(path)
            else:
                found[name] = program
        return found

    def write(self, name: str, program: bytes) -> None:
        """Keep a program, where there is room for it."""
        with suppress(OSError):
            make_private(self.path.parent)
            make_private(self.path)
            free = shutil.disk_usage(self.path).free
            if self._is_safe() and NAME.fullmatch(name) and len(program) <= min(PROGRAM_BYTES, free / 2):
                self._write(self.path / f"{name}{SUFFIX}", name, program)

    def _write(self, path: Path, name: str, program: bytes) -> None:
        rest = f"{name}\n".encode() + program
        with replace_file(path) as temporary:
            temporary.touch(mode=0o600, exist_ok=False)
            temporary.write_bytes(f"{hashlib.sha256(rest).hexdigest()}\n".encode() + rest)

    def note_use(self, names: Iterable[str]) -> None:
        """Have these programs go last when there is too much."""
        for name in names:
            with suppress(OSError):
                os.utime(self.path / f"{name}{SUFFIX}")

    def shrink(self) -> None:
        """Remove what was not used for longest, here and in the folders of other places, until the limit is kept."""
        with suppress(OSError):
            folders = [ProgramFolder(path) for path in self.path.parent.iterdir()]
            entries = [entry for folder in folders if folder._is_safe() for entry in folder._list_entries()]
            total = 0
            for path, _, size in sorted(entries, key=lambda entry: -entry[1]):
                total += size
                if total > TOTAL_BYTES:
                    _remove(path)
            for folder in folders:
                if folder.path != self.path:
                    with suppress(OSError):
                        folder.path.rmdir()  # an empty one

    def _is_safe(self) -> bool:
        """Whether nobody else can have put anything here: a folder and no link, of this user, and only he may write."""
        return all(_is_private(path) for path in (self.path.parent, self.path))

    def _list_entries(self) -> list[tuple[Path, float, int]]:
        """Files with the time of their last use and their size, the last first; what was left half written goes."""
        found = []
        with suppress(OSError):
            for path in self.path.iterdir():
                with suppress(OSError):
                    info = path.lstat()
                    if path.suffix == SUFFIX:
                        found.append((path, info.st_mtime, info.st_size))
                    elif time.time() - info.st_mtime > ABANDONED_SECONDS:
                        _remove(path)
        return sorted(found, key=lambda entry: -entry[1])


def _is_private(folder: Path) -> bool:
    try:
        info = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(info.st_mode) and info.st_uid == os.geteuid() and not info.st_mode & OTHERS_MAY_WRITE


def _read(path: Path, name: str) -> bytes | None:
    """A program; None for whatever is not as it was written."""
    with suppress(OSError, ValueError):
        if path.lstat().st_mode & OTHERS_MAY_WRITE:
            return None
        content = read_bytes(path, PROGRAM_BYTES + HEADER_BYTES, own=True)
        written, _, rest = content.partition(b"\n")
        inside, _, program = rest.partition(b"\n")
        if written == hashlib.sha256(rest).hexdigest().encode() and inside == name.encode() and NAME.fullmatch(name):
            return program
    return None


def _remove(path: Path) -> None:
    with suppress(OSError):  # a folder of that name, or one that may only be read
        path.unlink(missing_ok=True)
