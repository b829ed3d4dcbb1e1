"""Lives of a command: begun, watched, ended from outside; whether anything of it stays behind.

A run may have several lives: what one that was killed has left, the next one goes on with.
"""

import fcntl
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Protocol
from uuid import uuid4

from tests.study.sweeps import ROOT, alive, wait_for

MARK = "TFPERF_TEST_LIFE"  # in the environment of a life and of all that it starts, whatever sessions they make
PATIENCE = 600.0  # seconds for what has no limit of its own, on a machine that others use, too
WRITTEN = ("", "checkpoints", "vocabularies")  # folders of a run in which files are written under temporary names
LOOK_SECONDS = 2e-4  # between two looks for a file that is there for a millisecond


@dataclass
class Life:
    """A program that runs in a session of its own; its words go to a file."""

    command: list[str]
    log: Path
    settings: dict[str, str] = field(default_factory=dict)

    def __post_init__(self):
        self.mark = uuid4().hex
        environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"} | self.settings | {MARK: self.mark}
        self.clock = time.time()
        with open(self.log, "wb") as words:
            self.begun = time.monotonic()
            self.process = subprocess.Popen(
                self.command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=words, stderr=words, env=environment,
                start_new_session=True, preexec_fn=heed,
            )  # fmt: skip

    @property
    def seconds(self):
        """Since it was begun."""
        return time.monotonic() - self.begun

    @property
    def ended(self):
        """Whether the command has ended, by itself or not."""
        return self.process.poll() is not None

    @property
    def words(self):
        """What this life has said."""
        return self.log.read_text()

    def end(self, seconds=PATIENCE):
        """Wait until it has ended; its exit code."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"not done after {seconds} s: {self.words}") from None

    def kill(self, number=signal.SIGKILL):
        """Send a signal to the command alone, as a user or the system would."""
        os.kill(self.process.pid, number)

    def processes(self):
        """Ids of all that it started and that still runs, itself included; by what their programs are called."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # another user's, or it has just ended
                if f"{MARK}={self.mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                    found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        return {pid: name for pid, name in found.items() if alive(pid)}

    def clear(self):
        """End whatever is left, so that a test that fails leaves nothing."""
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()


def heed():
    """Take signals as a program in front of a terminal does, wherever the tests run."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def tfperf(*arguments, log, **settings):
    """A life of a `tfperf` command; its words go to the file of that name with the first number that is free."""
    number = next(n for n in count(1) if not log.with_suffix(f".{n}").exists())
    return Life([sys.executable, "-m", "tfperf", *map(str, arguments)], log.with_suffix(f".{number}"), settings)


def to_sets(overrides):
    """Options for overrides."""
    return [word for key, value in overrides.items() for word in ("--set", f"{key}={value}")]


def nothing_runs(life, folder):
    """Assert that no process of a life that was ended is left and that no lock of its folder is held."""
    wait_for(lambda: not life.processes(), seconds=5)
    if (folder / "lock").exists():
        with open(folder / "lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def written(folder):
    """The files of a run directory that are written under temporary names, and those that are being written."""
    for name in WRITTEN:
        with suppress(FileNotFoundError), os.scandir(folder / name) as entries:
            yield from entries


def temporary_files(folder):
    """Names of the files in a run directory that are being written, or that a killed process left half written."""
    return {entry.name for entry in written(folder) if entry.name.startswith(".") and entry.name.endswith(".tmp")}


class Aim(Protocol):
    """A moment in a life."""

    def wait(self, life: Life, folder: Path) -> bool:
        """Until then; False: the life has ended before."""


@dataclass(frozen=True)
class At:
    """So many seconds after the start."""

    seconds: float

    def __str__(self):
        return f"at {self.seconds:.1f} s"

    def wait(self, life, folder):
        while not life.ended and life.seconds < self.seconds:
            time.sleep(min(0.02, max(0.0, self.seconds - life.seconds)))
        return not life.ended

    @property
    def sooner(self):
        """For a run that had ended by then."""
        return At(self.seconds / 2)


@dataclass(frozen=True)
class Writing:
    """While a file is written of which the name begins so, or just after; `count`: of its writes since the wait began.

    What is written under a temporary name keeps its inode when it is renamed: no write is missed, however short.
    """

    name: str
    count: int = 1

    def __str__(self):
        return f"write {self.count} of {self.name}"

    def wait(self, life, folder):
        before, seen = self._files(folder), 0
        while not life.ended:
            now = self._files(folder)
            seen += len(now - before)
            if seen >= self.count:
                return True
            before = now
            time.sleep(LOOK_SECONDS)
        return False

    def _files(self, folder):
        """Name and inode of each."""
        named = ((entry.name.removeprefix(".").removesuffix(".tmp"), entry.inode()) for entry in written(folder))
        return {(name, inode) for name, inode in named if name.startswith(self.name)}


@dataclass(frozen=True)
class Grown:
    """Once a file has grown by so many lines since the life began."""

    name: str
    lines: int = 1

    def __str__(self):
        return f"line {self.lines} of {self.name}"

    def wait(self, life, folder):
        before = self._lines(folder)
        while not life.ended and self._lines(folder) < before + self.lines:
            time.sleep(LOOK_SECONDS)
        return not life.ended

    def _lines(self, folder):
        with suppress(FileNotFoundError):
            return (folder / self.name).read_bytes().count(b"\n")
        return 0
