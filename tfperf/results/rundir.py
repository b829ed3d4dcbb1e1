"""The directory of one run: who holds it, what was decided in it, which parts are done (its files: contents.py)."""

import json
import logging
import os
import stat
from collections.abc import Collection, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Generic

from tfperf.errors import RunDirectoryError, UserError
from tfperf.results.contents import (
    CARD,
    ENVIRONMENT,
    LOG,
    PAGE,
    REPORT,
    RESULTS,
    STATE,
    claim_links,
    clear,
    list_linked_folders,
    refuse_strangers,
)
from tfperf.results.files import write_atomically
from tfperf.results.lock import LOCK, DirectoryLock
from tfperf.results.log import RunLog
from tfperf.results.reading import read_json
from tfperf.results.state import OLD, Own, Part, RunState, read_state, write_state

LOGGER = logging.getLogger(__name__)


class RunDirectory(Generic[Own]):
    """A run directory that this process holds alone until `close`.

    own: the workload's state of a part; own_files: what its runs have of their own, as contents.py tells.
    """

    def __init__(self, path: Path, own: type[Own], own_files: Collection[str] = ()) -> None:
        self.lock, self.own, self.own_files = DirectoryLock(path), own, own_files
        self.path = self.lock.path
        self.log = RunLog(self.path / LOG)
        self.state: RunState[Own] | None = None
        self._links: list[DirectoryLock] = []  # on the folders that links in it lead to

    def __enter__(self) -> "RunDirectory[Own]":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close(unused=isinstance(error, UserError))

    @property
    def exists(self) -> bool:
        """Whether a run was started here."""
        return has_run(self.path)

    @property
    def is_reserved(self) -> bool:
        """Whether a process held this folder for a run that it was stopped before it began."""
        try:
            return not self.exists and (self.path / LOCK).is_file() and os.listdir(self.path) == [LOCK]
        except OSError:
            return False

    def acquire(self) -> None:
        """Make the directory if need be and lock it, and the folders that links in it lead to; log from now on.

        Raises: RunDirectoryError, as `DirectoryLock.acquire`.
        """
        self.lock.acquire()
        for target in list_linked_folders(self.path):
            self._links.append(DirectoryLock(target))
            self._links[-1].acquire()
        self.log.attach()

    def close(self, unused: bool = False) -> None:
        """Release the directory; remove it where it was made in vain: `unused`, and nothing was put there."""
        try:
            self.log.close()
        finally:
            for lock in (*self._links, self.lock):
                if unused:
                    lock.discard()
                else:
                    lock.release()
            self._links.clear()

    def make_room(self, force: bool, more: str = "") -> None:
        """Clear what an earlier run left, if `force` allows; RunDirectoryError for a run or other files in the way."""
        if self.exists and not force:
            raise RunDirectoryError(f"{self.path}: holds a run; --resume goes on with it, {more}--force begins again")
        refuse_strangers(self.path, self.exists)
        self.lock.verify()
        clear(self.path, read_run_number(self.path), self.own_files)

    def load(self) -> RunState[Own]:
        """Read the state; RunDirectoryError when there is none or it is damaged."""
        self.state = load_state(self.path, self.own)
        if self.state.version != OLD:
            claim_links(self.path, self.state.run)
        LOGGER.info("run %s goes on; digest of card and files: %s", self.state.run, self.state.digest)
        return self.state

    def begin(self, card: str, environment: Mapping[str, Any], state: RunState[Own]) -> None:
        """Write what a new run needs; the state last, since it marks the directory as a run."""
        claim_links(self.path, state.run)
        self._write(ENVIRONMENT, json.dumps(environment, indent=1) + "\n")
        self._write(CARD, card)
        self.save(state)
        self.log.open()
        LOGGER.info("run %s is begun; digest of card and files: %s", state.run, state.digest)

    def save(self, state: RunState[Own]) -> None:
        """Write the state."""
        self.state = state
        write_state(self.path / STATE, state)

    def save_state(self) -> None:
        """Write the state as it is now."""
        self.save(self.loaded_state)

    @property
    def loaded_state(self) -> RunState[Own]:
        """The state of a run that was loaded or started."""
        assert self.state is not None
        return self.state

    def find_pending(self) -> Part[Own] | None:
        """The first part that is not done."""
        return self.state.pending if self.state is not None else None

    def find_index(self, part: Part[Own]) -> int:
        """The place of a part among all, from 0."""
        return next(i for i, p in enumerate(self.loaded_state.parts) if p is part)

    def has_finished_parts(self) -> bool:
        """Whether results.h5 holds what parts that are done found."""
        return self.state is not None and any(part.done for part in self.state.parts)

    def needs_report(self) -> bool:
        """Whether the report is missing, in part, or older than the results that it tells of."""
        try:
            results = (self.path / RESULTS).lstat().st_mtime_ns
            found = [(self.path / name).lstat() for name in (PAGE, REPORT)]
            return any(not stat.S_ISREG(f.st_mode) or not f.st_size or f.st_mtime_ns < results for f in found)
        except FileNotFoundError:
            return True

    def _write(self, name: str, text: str) -> None:
        with write_atomically(self.path / name) as temporary:
            temporary.write_text(text, encoding="utf-8")


def has_run(folder: Path) -> bool:
    """Whether a run was started in a folder."""
    return os.path.lexists(folder / STATE)


def read_run_number(folder: Path) -> str | None:
    """The number in run.json of a folder; None where there is none or it cannot be read."""
    try:
        content = read_json(folder / STATE)
    except RunDirectoryError:
        return None
    number = content.get("run") if isinstance(content, dict) else None
    return number if isinstance(number, str) else None


def load_state(folder: Path, own: type[Own]) -> RunState[Own]:
    """The state of the run in a folder. Raises: RunDirectoryError where there is none or it is damaged."""
    if not has_run(folder):
        raise RunDirectoryError(f"{folder}: holds no run to go on with")
    return read_state(folder / STATE, own)
