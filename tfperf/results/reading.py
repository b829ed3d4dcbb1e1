"""Files that anybody may have put there, opened without harm: regular ones of bounded size, and nothing that hangs."""

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tfperf.errors import RunDirectoryError

QUOTED_LENGTH = 200  # characters of a text that a message quotes
TEXT_BYTES = 16 * 2**20  # of a text that this program wrote itself; as JSON it takes 30 times as much memory
KINDS = {
    stat.S_ISLNK: "a symbolic link", stat.S_ISDIR: "a folder", stat.S_ISFIFO: "a pipe", stat.S_ISSOCK: "a socket",
    stat.S_ISCHR: "a device", stat.S_ISBLK: "a device",
}  # fmt: skip


def name_kind(mode: int) -> str:
    """What a file of that mode is, for a message."""
    return next((words for is_kind, words in KINDS.items() if is_kind(mode)), "a file")


def refuse_special(path: Path, links: bool = True, directory: int | None = None) -> None:
    """ValueError where `path` is there, but is no regular file (or, with `links`, a link to one): a pipe would hang.

    directory: descriptor of the folder that the path is relative to.
    """
    try:
        mode = os.stat(path, dir_fd=directory, follow_symlinks=links).st_mode
    except OSError:
        return  # whoever opens it tells why
    if not stat.S_ISREG(mode):
        raise ValueError(f"it is {name_kind(mode)}; must be a regular file")


def open_descriptor(path: Path, flags: int, links: bool = False, directory: int | None = None) -> int:
    """A descriptor of a regular file. Raises: ValueError as `refuse_special`; OSError where it cannot be opened."""
    refuse_special(path, links, directory)
    safe = os.O_NONBLOCK | os.O_CLOEXEC | (0 if links else os.O_NOFOLLOW)
    descriptor = os.open(path, flags | safe, 0o644, dir_fd=directory)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):  # it was put there just now
        os.close(descriptor)
        raise ValueError(f"it is {name_kind(mode)}; must be a regular file")
    return descriptor


@contextmanager
def open_regular(path: Path, most: int | None = None, *, links: bool = True, own: bool = False) -> Iterator[IO[bytes]]:
    """A regular file of at most `most` bytes, opened for reading.

    links: whether the path itself may be a symbolic link; own: whether it must be a file of this user.

    Raises: OSError for what cannot be opened, ValueError for what is no such file.
    """
    with os.fdopen(open_descriptor(path, os.O_RDONLY, links), "rb") as file:
        found = os.fstat(file.fileno())
        if most is not None and found.st_size > most:
            raise ValueError(f"it has {found.st_size} bytes; at most {most} are allowed")
        if own and found.st_uid != os.geteuid():
            raise ValueError("it belongs to another user")
        yield file


def read_bytes(path: Path, most: int, *, own: bool = False) -> bytes:
    """All bytes of a file that is no link. Raises: as `open_regular`."""
    with open_regular(path, most, links=False, own=own) as file:
        return file.read(os.fstat(file.fileno()).st_size)  # not `most`: room for all of it would be made at once


def read_text(path: Path, most: int = TEXT_BYTES, errors: str = "strict") -> str:
    """UTF-8 text of a file that is no link. Raises: RunDirectoryError where it cannot be read, for whatever reason."""
    try:
        return read_bytes(path, most).decode("utf-8", errors)
    except UnicodeDecodeError as error:
        raise RunDirectoryError(f"{path}: damaged: it is no text in UTF-8 (byte {error.start})") from None
    except (OSError, ValueError) as error:
        raise RunDirectoryError(f"{path}: cannot be read: {describe_error(error)}") from None


def read_json(path: Path, most: int = TEXT_BYTES) -> Any:
    """The value of a JSON file. Raises: as `read_text`."""
    try:
        return parse_json(read_text(path, most))
    except ValueError as error:
        raise RunDirectoryError(f"{path}: damaged: {error}") from None


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text; ValueError for any other text, and for one that is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def describe_error(error: Exception) -> str:
    """The first line of an error, for a message."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return (str(error).splitlines() or [type(error).__name__])[0]


def hash_file(path: Path) -> str:
    """The sha256 of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def quote_text(text: str, length: int = QUOTED_LENGTH) -> str:
    """A text from a file as a message may quote it: no longer than that, control characters written out.

    >>> print(quote_text("two\\nlines"), quote_text("a long name", length=6))
    'two\\nlines' a long...
    """
    short = text if len(text) <= length else text[:length] + "..."
    return short if short.isprintable() else ascii(short)
