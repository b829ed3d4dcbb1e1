"""The opening of files that others may have put there: regular ones of bounded size, and nothing that hangs."""

import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

KIND = {
    stat.S_ISDIR: "a folder", stat.S_ISFIFO: "a pipe", stat.S_ISCHR: "a device", stat.S_ISBLK: "a device",
    stat.S_ISSOCK: "a socket",
}  # fmt: skip


@contextmanager
def open_regular(path: Path, most: int | None = None, *, links: bool = True, own: bool = False) -> Iterator[IO[bytes]]:
    """A regular file of at most `most` bytes, opened for reading; no pipe is waited for, no device read.

    links: whether the path itself may be a symbolic link; own: whether it must be a file of this user.

    Raises: OSError for what cannot be opened, ValueError for what is no such file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if links else os.O_NOFOLLOW))
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise ValueError(f"it is {_kind(found.st_mode)}; must be a regular file")
        if most is not None and found.st_size > most:
            raise ValueError(f"it has {found.st_size} bytes; at most {most} are allowed")
        if own and found.st_uid != os.geteuid():
            raise ValueError("it belongs to another user")
        yield file


def refuse_special(path: Path) -> None:
    """ValueError where `path` is there, but is no regular file, nor a link to one: opening a pipe would hang."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return  # whoever opens it tells why
    if not stat.S_ISREG(mode):
        raise ValueError(f"it is {_kind(mode)}; must be a regular file")


def read_json(path: Path, most: int, *, own: bool = False) -> Any:
    """The value in a JSON file of at most `most` bytes.

    Raises: OSError where it cannot be read, ValueError where it is no such file, or damaged.
    """
    with open_regular(path, most, links=False, own=own) as file:
        return parse_json(file.read(most))


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text; ValueError for any other text, and for one that is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _kind(mode: int) -> str:
    return next((words for matches, words in KIND.items() if matches(mode)), "a special file")
