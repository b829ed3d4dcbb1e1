"""Files that anybody may have put there, read without harm: regular ones of bounded size, no link followed."""

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tfperf.errors import RunDirectoryError

MEBIBYTE = 2**20
TEXT_BYTES = 64 * MEBIBYTE  # of a text that this program wrote itself
KINDS = {
    stat.S_ISLNK: "a symbolic link", stat.S_ISDIR: "a folder", stat.S_ISFIFO: "a named pipe", stat.S_ISSOCK: "a socket",
    stat.S_ISCHR: "a device", stat.S_ISBLK: "a device",
}  # fmt: skip


def name_kind(mode: int) -> str:
    """What a file of that mode is, for a message."""
    return next((words for is_kind, words in KINDS.items() if is_kind(mode)), "a file")


def open_descriptor(path: Path, flags: int, directory: int | None = None) -> int:
    """A descriptor of a regular file; a link is not followed, and a pipe that nobody writes to does not block.

    directory: descriptor of the folder that `path` is relative to. Raises: RunDirectoryError for anything but a regular
    file; OSError where there is none or it cannot be opened.
    """
    shown = path
    try:
        mode = os.stat(path, dir_fd=directory, follow_symlinks=False).st_mode
    except FileNotFoundError:
        mode = stat.S_IFREG
    if stat.S_ISREG(mode):
        safe = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(path, flags | safe, 0o644, dir_fd=directory)
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISREG(mode):
            return descriptor
        os.close(descriptor)
    raise RunDirectoryError(f"{shown}: is {name_kind(mode)}; must be a regular file: remove it")


@contextmanager
def open_regular(path: Path, most: int) -> Iterator[IO[bytes]]:
    """A regular file of at most `most` bytes, for reading.

    Raises: RunDirectoryError for any other kind of file and for a larger one; OSError where it cannot be opened.
    """
    with os.fdopen(open_descriptor(path, os.O_RDONLY), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise RunDirectoryError(f"{path}: has {size} bytes; no file of its kind has more than {most}")
        yield file


def read_bytes(path: Path, most: int) -> bytes:
    """All bytes of a regular file. Raises: as `open_regular`."""
    with open_regular(path, most) as file:
        return file.read(most)


def read_text(path: Path, most: int = TEXT_BYTES, errors: str = "strict") -> str:
    """UTF-8 text of a regular file. Raises: as `open_regular`; ValueError for bytes that are no text."""
    return read_bytes(path, most).decode("utf-8", errors)


def read_json(path: Path, most: int = TEXT_BYTES) -> Any:
    """The value of a JSON file. Raises: RunDirectoryError where it cannot be read, for whatever reason."""
    try:
        return json.loads(read_text(path, most))
    except (OSError, ValueError, RecursionError) as error:
        raise RunDirectoryError(f"{path}: damaged: {explain(error)}") from None


def explain(error: Exception) -> str:
    """The first line of an error, for a message."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return (str(error).splitlines() or [type(error).__name__])[0]


def file_hash(path: Path) -> str:
    """The sha256 of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
