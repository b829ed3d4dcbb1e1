"""A folder that one process writes to, and how it notices that the folder is no longer its own."""

import errno
import fcntl
import os
from contextlib import suppress
from pathlib import Path

from tfperf.errors import LostError, RunDirectoryError
from tfperf.results.files import guard, unguard
from tfperf.results.reading import open_descriptor

LOCK = "lock"
ATTEMPTS = 10  # of taking a lock that others remove meanwhile
# what file systems without locks answer, some kinds of NFS among them
UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL)


class DirectoryLock:
    """A folder with a file `lock` that this process holds from `acquire` to `release`.

    Whoever removes the folder, or the lock alone, lets another process take the same path: device and inode of both are
    compared before anything is written there (`verify`), since then two would write to one folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = make_absolute(path)  # once: who changes the working directory does not change the folder
        self._made: list[str] = []  # what `acquire` made: "folder", LOCK
        self._folder: int | None = None  # descriptors
        self._lock: int | None = None

    def __enter__(self) -> "DirectoryLock":
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    @property
    def held(self) -> bool:
        """Whether this process has the folder."""
        return self._lock is not None

    def acquire(self) -> None:
        """Make the folder where there is none, and lock it.

        Raises: RunDirectoryError where another process has it, and where it cannot be made or locked.
        """
        try:
            self._make()
            for _ in range(ATTEMPTS):
                self._open()
                if self._is_in_place():
                    guard(self.path, self.verify)
                    return
                self.release()  # it was removed between opening and locking
        except BlockingIOError:
            self.release()
            raise RunDirectoryError(
                f"{self.path}: another process is running here; wait for it or choose another"
            ) from None
        except (OSError, ValueError) as error:
            self.release()
            raise RunDirectoryError(f"{self.path}: {_describe_error(error)}") from None
        raise RunDirectoryError(f"{self.path}: its file `{LOCK}` is removed again and again; choose another folder")

    def _make(self) -> None:
        there = os.path.isdir(self.path)
        if os.path.exists(self.path) and not there:
            raise ValueError("it is a file; must be a folder")
        self._made = [name for name, missing in (("folder", not there), (LOCK, not self._has_lock())) if missing]
        os.makedirs(self.path, exist_ok=True)

    def _has_lock(self) -> bool:
        return os.path.lexists(self.path / LOCK)

    def _open(self) -> None:
        self._folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._lock = open_descriptor(Path(LOCK), os.O_RDWR | os.O_CREAT, directory=self._folder)
        except ValueError as error:
            raise ValueError(f"its file `{LOCK}`: {error}") from None
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _is_in_place(self) -> bool:
        """Whether the paths still lead to what this process has open."""
        assert self._folder is not None and self._lock is not None
        with suppress(OSError):
            return os.path.samestat(os.stat(self.path), os.fstat(self._folder)) and os.path.samestat(
                os.stat(LOCK, dir_fd=self._folder, follow_symlinks=False), os.fstat(self._lock)
            )
        return False

    def verify(self) -> None:
        """Return if the folder is still this process's own. Raises: LostError where it is not."""
        if self.held and not self._is_in_place():
            raise LostError(
                f"{self.path}: the folder, or the file `{LOCK}` in it, was removed or replaced while it was in use; "
                "this process ends and writes nothing more there"
            )

    def release(self) -> None:
        """Let the folder go."""
        unguard(self.path, self.verify)
        held = self._lock, self._folder
        self._lock = self._folder = None  # first: a signal may end this function at any line
        for descriptor in held:
            if descriptor is not None:
                os.close(descriptor)

    def discard(self) -> None:
        """Remove the lock, and the folder, where `acquire` made them and nothing was put there; then let it go."""
        if self.held and self._is_in_place():
            with suppress(OSError):
                alone = os.listdir(self._folder) == [LOCK]
                if LOCK in self._made:
                    os.unlink(LOCK, dir_fd=self._folder)
                if alone and "folder" in self._made:
                    os.rmdir(self.path)
        self.release()


def make_absolute(path: Path) -> Path:
    """The path from the root on. Raises: RunDirectoryError where it is relative to a folder that is gone."""
    try:
        return Path(os.path.abspath(path))
    except OSError:
        raise RunDirectoryError(f"{path}: the working directory is gone; change to another one") from None


def _describe_error(error: OSError | ValueError) -> str:
    number = error.errno if isinstance(error, OSError) else None
    if number in UNSUPPORTED:
        return "its file system has no locks, so two runs could write to it at once; choose a folder on a local disk"
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return f"cannot be used as a run directory: {reason}"
