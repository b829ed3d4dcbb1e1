"""Files that are either complete or as they were: temporary name, fsync, rename, fsync of the folder."""

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path

import h5py

from tfperf.errors import LostError, StorageError
from tfperf.results.reading import open_descriptor

# What a user can mend.
REASONS = {
    errno.ENOSPC: "no space left on the device",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file would be larger than the limit on file sizes",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "permission denied",
    errno.EPERM: "operation not permitted",
    errno.EIO: "the device reports an input/output error",
    errno.ENOENT: "the folder does not exist",
    errno.ENOTDIR: "what should be its folder is a file",
    errno.EISDIR: "a folder is in its place",
    errno.ELOOP: "a loop of symbolic links is in its place",
}
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# folders that this process holds, and what tells that it still does: looked at here, so that no writer can forget it
_guards: dict[Path, Callable[[], None]] = {}


def guard(folder: Path, verify: Callable[[], None]) -> None:
    """Have `verify` called before anything is written below a folder; what it raises keeps it from being written."""
    _guards[folder.absolute()] = verify


def unguard(folder: Path, verify: Callable[[], None]) -> None:
    """Undo `guard` of the same folder and function."""
    if _guards.get(folder.absolute()) == verify:
        del _guards[folder.absolute()]


def verify_holder(path: Path) -> None:
    """Raise what the guards of the folders above a path raise: where this process holds them no more."""
    absolute = path.absolute()
    for folder in (absolute, *absolute.parents):
        if folder in _guards:
            _guards[folder]()


@contextmanager
def write_atomically(path: Path, size: int | None = None) -> Iterator[Path]:
    """Yield a temporary path beside `path`, renamed to `path` once the block has ended well and the bytes are on disk.

    When the block fails, the temporary file is removed and what `path` held before is untouched. The temporary name is
    always the same, so that what a killed process left behind is overwritten by the next one and not added to: one
    writer per path at a time, which the lock of the run directory sees to. `size` is the number of bytes to come, where
    known; a full disk's message quotes it. For HDF5 take `write_hdf5`.

    Raises: StorageError where the disk is full, read-only, forbidden or failing; LostError where this process holds
    the folder no more; any other error unchanged.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "report.txt"
    ...     with write_atomically(path) as temporary:
    ...         size = temporary.write_text("whole")
    ...     path.read_text(), os.listdir(folder)
    ('whole', ['report.txt'])
    """
    temporary = path.with_name(f".{path.name}.tmp")
    verify_holder(path)
    try:
        temporary.unlink(missing_ok=True)  # whatever it is: a pipe of that name would hold up who writes to it
        yield temporary
        sync(temporary)
        verify_holder(path)
        os.replace(temporary, path)
    except LostError:
        raise  # what lies there now may be another process's
    except BaseException as error:
        written = temporary.stat().st_size if temporary.is_file() else 0
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno in REASONS and _is_about(error, temporary, path, path.parent):
            if error.errno == errno.EISDIR and temporary.is_dir():
                raise StorageError(f"{temporary}: is a folder, where a file is written first; remove it") from error
            raise StorageError(_describe_failure(path, error.errno, written if size is None else size)) from error
        raise
    sync(path.parent)


@contextmanager
def write_hdf5(path: Path) -> Iterator[h5py.File]:
    """Yield an HDF5 file that is made in memory and then written to `path` as one block of bytes, atomically.

    HDF5 must not meet a full disk: its cache cannot be flushed then, and h5py 3.14 (HDF5 1.14.6) ends the process with
    a segmentation fault while it lets the file go. Memory: twice the size of the file for a moment.

    Raises: StorageError as `write_atomically`.
    """
    # the format of HDF5 1.10 has checksums on names, attributes and structure, where the older default has none
    image = BytesIO()
    with h5py.File(image, "w", libver=("v110", "v110")) as file:
        yield file
    content = image.getvalue()
    with write_atomically(path, len(content)) as temporary:
        temporary.write_bytes(content)


def make_folder(path: Path) -> None:
    """Make a folder and those above it, where missing. Raises: StorageError; LostError as `write_atomically`."""
    verify_holder(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{path}: cannot be made a folder: {error.strerror}") from None


def remove(path: Path) -> None:
    """Remove a file, where there is one. Raises: StorageError; LostError as `write_atomically`."""
    verify_holder(path)
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"{path}: could not be removed: {error.strerror}; a file stands here else") from None


def append(path: Path, text: str) -> None:
    """Add text to the end of a file, on disk when this returns; when it fails, the file is as it was before.

    A process that is killed in between may leave a part of the text. Raises: as `write_atomically`.
    """
    verify_holder(path)
    try:
        descriptor = open_descriptor(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    except ValueError as error:
        raise StorageError(f"{path}: could not be written: {error}") from None
    with os.fdopen(descriptor, "ab") as file:
        before = file.seek(0, os.SEEK_END)
        try:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        except OSError as error:
            with suppress(OSError):
                os.truncate(path, before)
            if error.errno not in REASONS:
                raise
            raise StorageError(_describe_failure(path, error.errno, len(text))) from error


def sync(path: Path) -> None:
    """Wait until the file or folder `path` is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_about(error: OSError, *paths: Path) -> bool:
    """Whether the error is about one of these paths, or names none: the block may have failed at another file."""
    return error.filename is None or str(error.filename) in map(str, paths)


def _describe_failure(path: Path, number: int, needed: int) -> str:
    kept = f"the {path.name} of before is intact" if path.exists() else "no part of it was left behind"
    room = ""
    if number in FULL:
        free = shutil.disk_usage(path.parent).free
        room = f"needs at least {_format_bytes(needed)} in {path.parent}, where {_format_bytes(free)} are free; "
    return f"{path}: could not be written: {REASONS[number]}; {room}{kept}"


def _format_bytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 10**5 else f"{size} bytes"


def create(path: Path, text: str) -> None:
    """Write a new text file atomically. Raises: StorageError when there is one already, or as `write_atomically`."""
    if path.exists():
        raise StorageError(f"{path}: exists already; choose another name or remove it first")
    with write_atomically(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
