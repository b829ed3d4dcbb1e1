"""What takes long to make is kept on disk for the next run, by a digest of all that it is made from.

One file for each record: a line with the sha256 of the rest, one with the entry's name, then an .npz archive. Whatever
is wrong with an entry, it is made again. Entries are renamed into place when they are complete, so that any number of
runs may read and write at once. What was not used for longest goes first when the folder grows above its limit. Nothing
that can go wrong with the folder is an error; folders are made for this user alone, and entries of others not read.
"""

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, is_dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, Literal, TypeVar
from uuid import uuid4

import numpy as np
import scipy

from tfperf.arrays import AnyArray
from tfperf.data.records import flatten, restore
from tfperf.data.sources import list_source_files
from tfperf.results.reading import hash_file, open_regular, parse_json

T = TypeVar("T")
LOGGER = logging.getLogger(__name__)
VARIABLE = "TFPERF_CACHE"
LIMIT_BYTES = 4 * 10**9
ABANDONED_SECONDS = 3600  # a temporary file of that age belongs to no living process
NAME_BYTES = 200  # of an entry at most
SPARE_BYTES = 10**8
DIGEST_LINE = len(hashlib.sha256().hexdigest()) + 1  # bytes


def find_cache_folder() -> Path | None:
    """$TFPERF_CACHE, else tfperf in the user's folder for caches; None where there is no home."""
    given = os.environ.get(VARIABLE)
    if given:
        return Path(given)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tfperf"
    except RuntimeError:
        return None


def digest(*values: Any) -> str:
    """sha256 of values: of arrays and bytes by content, of tuples, lists and records each entry, else of the repr."""
    total = hashlib.sha256()
    for value in values:
        _add(total, value)
    return total.hexdigest()


def _add(total: "hashlib._Hash", value: Any) -> None:
    match value:
        case np.ndarray():
            total.update(f"array {value.dtype} {value.shape}:".encode())
            total.update(np.ascontiguousarray(value).data.cast("B") if value.size else b"")
        case bytes():
            total.update(b"bytes %d:" % len(value))
            total.update(value)
        case tuple() | list():
            total.update(f"list {len(value)}:".encode())
            for one in value:
                _add(total, one)
        case _ if is_dataclass(value) and not isinstance(value, type):
            total.update(f"record {type(value).__name__}:".encode())
            for field in fields(value):
                _add(total, getattr(value, field.name))
        case _:
            text = repr(value).encode()
            total.update(b"value %d:" % len(text))
            total.update(text)


@lru_cache
def digest_code(module: str) -> str:
    """Digest of a module that makes entries, and of all that it imports: none outlives a change of its maker."""
    sources = [(name, path.read_bytes()) for name, path in list_source_files(module).items()]
    return digest(np.__version__, scipy.__version__, sources)


def digest_file(path: Path) -> str:
    """sha256 of a file's content, read once for as long as the file stays as it is."""
    stat = path.stat()
    return _digest_file(path, stat.st_mtime_ns, stat.st_size, stat.st_ino)


@lru_cache
def _digest_file(path: Path, *_: int) -> str:
    return hash_file(path)


@dataclass(frozen=True)
class Cache:
    """The cache of operators: on, off, or renew, which writes without reading."""

    mode: Literal["renew"] | bool = False
    limit: int = LIMIT_BYTES

    def get(self, kind: str, key: str | None, make: Callable[[], T]) -> T:
        """The record of that kind and key, made where it is not there; key: of all that it is made from, None: unknown.

        An entry is made again where the module that `make` is of has changed, or any that it imports. Arrays are the
        same bit for bit, and in C order, however they came.
        """
        folder = find_cache_folder()
        path = None
        if self.mode and key is not None and folder is not None:
            path = folder / "operators" / f"{kind}-{digest(digest_code(make.__module__), key)}.npz"
        if path is not None and self.mode is True:
            # damage comes out of the archive as errors of any kind, and what is not read is made again
            with suppress(Exception):
                found: T = _read(path, self.limit)
                LOGGER.info("cache: hit: %s", kind)
                return found
            LOGGER.info("cache: miss: %s", kind)
        arrays: list[AnyArray] = []
        tree = flatten(make(), arrays)
        if path is not None:
            with suppress(OSError):
                self._write(path, tree, arrays)
        return restore(tree, arrays)  # type: ignore[no-any-return]

    def _write(self, path: Path, tree: Any, arrays: list[AnyArray]) -> None:
        size = sum(a.nbytes for a in arrays)
        make_private(path.parent)
        if size > min(self.limit, shutil.disk_usage(path.parent).free / 2):
            return
        with replace_file(path) as temporary, open(temporary, "w+b") as file:
            file.write(b" " * DIGEST_LINE + f"{path.stem}\n".encode())
            named = {f"a{i}": a for i, a in enumerate(arrays)}
            np.savez(file, tree=np.frombuffer(json.dumps(tree).encode(), np.uint8), **named)  # type: ignore[arg-type]
            line = _make_digest_line(file)
            file.seek(0)
            file.write(line)
        self._shrink(path)

    def _shrink(self, newest: Path) -> None:
        """Remove what was not used for longest until the folder is within its limit."""
        total = 0
        for path, used, size in sorted(_list_entries(newest.parent), key=lambda entry: -entry[1]):
            total += size
            forgotten = path.suffix == ".tmp" and newest.stat().st_mtime - used > ABANDONED_SECONDS
            if (total > self.limit and path.suffix == ".npz" and path != newest) or forgotten:
                with suppress(OSError):  # a folder of that name, which is none of ours
                    path.unlink(missing_ok=True)
                    total -= size


OFF = Cache()


def make_private(folder: Path) -> None:
    """Make a folder of the cache, and the cache itself, for this user alone. Raises: OSError."""
    folder.parent.parent.mkdir(parents=True, exist_ok=True)
    for one in (folder.parent, folder):
        one.mkdir(mode=0o700, exist_ok=True)


@contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`, renamed to it when the block ends well; others may write the same now.

    Not synchronised to disk: a digest in the file must tell what a crash leaves incomplete. Raises: OSError.
    """
    temporary = path.with_name(f".{uuid4().hex}.tmp")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _list_entries(folder: Path) -> Iterable[tuple[Path, float, int]]:
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # another run may remove it at any time
            stat = path.lstat()
            yield path, stat.st_mtime, stat.st_size


def _make_digest_line(file: IO[bytes]) -> bytes:
    """The first line of an entry, from what follows it."""
    file.seek(DIGEST_LINE)
    return f"{hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode()  # type: ignore[arg-type]


def _read(path: Path, limit: int) -> Any:
    # names and numbers beside the arrays take little
    with open_regular(path, limit + SPARE_BYTES, links=False, own=True) as stream:
        written, name = stream.read(DIGEST_LINE), stream.readline(NAME_BYTES)
        start = stream.tell()
        if name.decode() != f"{path.stem}\n" or written != _make_digest_line(stream):
            raise ValueError("damaged, or another entry")
        stream.seek(start)
        with np.load(stream, allow_pickle=False) as file:
            arrays = [file[f"a{i}"] for i in range(len(file.files) - 1)]
            value = restore(parse_json(file["tree"].tobytes()), arrays)
    with suppress(OSError):
        os.utime(path)  # used now
    return value
