"""run.log: what the commands of a run did, by Python's `logging`, from the moment when the run has begun.

A line has the time in UTC, level, process, module and message; what does not fit a line, as a traceback, is indented
below. Modules log to `logging.getLogger(__name__)`. While a run is held, its log is a handler of the logger `tfperf`: a
program that uses tfperf as a library may add handlers there, too; the handlers of its root logger get nothing then.
Whatever is wrong with the file, nothing is said: a log never ends what it tells of.
"""

import logging
import os
import time
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path
from threading import Lock
from typing import Any

from tfperf.console.words import escape_controls
from tfperf.errors import LostError
from tfperf.results.files import verify_holder
from tfperf.results.reading import open_descriptor

LINE = "%(asctime)s %(levelname)s %(process)d %(name)s: %(message)s"
LOGGER = logging.getLogger("tfperf")
_lock = Lock()
_attached: set["RunLog"] = set()
_mine: ContextVar[frozenset["RunLog"]] = ContextVar("run.log of this thread's runs", default=frozenset())
_before: list[Any] = []  # level and propagation of the logger before the first of them


class _LineFormatter(logging.Formatter):
    converter = staticmethod(time.gmtime)
    default_time_format, default_msec_format = "%Y-%m-%dT%H:%M:%S", "%s.%03dZ"

    def format(self, record: logging.LogRecord) -> str:
        """Names come from cards and paths: none commands a terminal, or looks like another record's line."""
        return escape_controls(super().format(record)).replace("\n", "\n    ") + "\n"


class RunLog(logging.Handler):
    """The log of a run directory that this process holds; lines of before `open` wait for it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self._waiting: list[str] | None = []
        self._descriptor: int | None = None
        self._torn = False  # the last line is not whole
        self._process = os.getpid()
        self.setFormatter(_LineFormatter(LINE))

    def attach(self) -> None:
        """Take what is logged from now on; the logger is as it was when the last of such logs is closed."""
        with _lock:
            if not _attached:
                _before[:] = LOGGER.level, LOGGER.propagate
                LOGGER.setLevel(min(LOGGER.getEffectiveLevel(), logging.INFO))
                LOGGER.propagate = False
            _attached.add(self)
        _mine.set(_mine.get() | {self})
        LOGGER.addHandler(self)  # not within `_lock`: logging takes its own lock, and may close handlers within it

    def open(self) -> None:
        """Write at the end of what is there, first what was logged until now."""
        self.acquire()
        try:
            if self._waiting is None:
                return
            with suppress(OSError, ValueError, LostError):
                verify_holder(self.path)
                self._descriptor = open_descriptor(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            waiting, self._waiting = self._waiting, None
            for text in waiting:
                self._write(text)
        finally:
            self.release()

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, or keep it until the run has begun."""
        if os.getpid() != self._process:
            return  # a forked child's: it has the file, but does not hold the run
        if _mine.get() and self not in _mine.get():
            return  # another run's, in a thread of its own; the threads that a run starts have none
        try:
            text = self.format(record)
            if self._waiting is None:
                self._write(text)
            else:
                self._waiting.append(text)
        except Exception:
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Nothing: logging's own way is a traceback on stderr."""

    def _write(self, text: str) -> None:
        if self._descriptor is not None:
            with suppress(OSError, LostError):  # a full disk; a folder that is another process's now
                verify_holder(self.path)
                data = ("\n" * self._torn + text).encode(errors="backslashreplace")
                self._torn = os.write(self._descriptor, data) < len(data)

    def close(self) -> None:
        """Take nothing more; what still waits belongs to a run that was never begun."""
        LOGGER.removeHandler(self)
        _mine.set(_mine.get() - {self})
        with _lock:
            if _attached == {self}:
                level, LOGGER.propagate = _before
                LOGGER.setLevel(level)
            _attached.discard(self)
        self.acquire()
        try:
            descriptor, self._descriptor, self._waiting = self._descriptor, None, None
            if descriptor is not None:
                with suppress(OSError):  # where network file systems tell what they could not write
                    os.close(descriptor)
        finally:
            self.release()
        super().close()
