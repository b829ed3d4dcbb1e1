"""Standard streams that may fail without anyone noticing.

Nobody may be there to read: the disk behind a redirection is full, the reader of a pipe has left, the descriptor is
closed, the terminal is gone. What cannot be shown is dropped, since words never end what they tell of.
"""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import TextIO, cast

STANDARD = STDIN, STDOUT, STDERR = 0, 1, 2  # descriptors


class ForgivingStream(io.TextIOBase):
    """A stream that drops what the one behind it does not take, and writes `\\u03c7` where χ cannot be encoded."""

    def __init__(self, stream: TextIO | None) -> None:
        self.stream = stream.stream if isinstance(stream, ForgivingStream) else stream

    def write(self, text: str) -> int:
        """Takes the whole text, always."""
        if not isinstance(text, str):
            raise TypeError(f"takes text, got {type(text).__name__}")  # click asks so whether bytes can be written
        with suppress(Exception):  # a stream that a caller put in place of stderr may raise anything
            try:
                self._behind.write(text)
            except UnicodeEncodeError as error:
                self._behind.write(text.encode(error.encoding, "backslashreplace").decode(error.encoding))
        return len(text)

    def flush(self) -> None:
        """What cannot be written now may be later, or never."""
        with suppress(Exception):
            self._behind.flush()

    def isatty(self) -> bool:
        """Whether it is a terminal; False also where nobody can tell any more."""
        with suppress(Exception):
            return self._behind.isatty()
        return False

    def fileno(self) -> int:
        """Of the stream behind."""
        return self._behind.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """Of the stream behind; one that has none takes every character."""
        return getattr(self.stream, "encoding", None) or "utf-8"

    @property
    def _behind(self) -> TextIO:
        if self.stream is None:
            raise io.UnsupportedOperation("it is closed")
        return self.stream


def make_forgiving(stream: TextIO | None) -> TextIO:
    """A stream for whoever asks for one of Python's own kind."""
    return cast(TextIO, ForgivingStream(stream))


@contextmanager
def use_forgiving_streams() -> Iterator[None]:
    """Inside, what tfperf and its libraries say may fail to arrive; afterwards Python's end does not mind either."""
    open_descriptors()
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = make_forgiving(sys.stdout), make_forgiving(sys.stderr)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        for stream in before:
            _drain_stream(stream)


@contextmanager
def duplicate_stderr() -> Iterator[None]:
    """Inside, Python's stderr has a descriptor of its own, where it was the standard one.

    What native code logs is held back at times by turning descriptor 2 elsewhere (measure/quiet.py).
    """
    before, own = sys.stderr, _duplicate_stream(ForgivingStream(sys.stderr).stream)
    if own is None:
        yield
        return
    make_forgiving(before).flush()
    sys.stderr = make_forgiving(own)
    try:
        yield
    finally:
        sys.stderr = before


def _duplicate_stream(stream: TextIO | None) -> TextIO | None:
    """A stream with a copy of the descriptor of standard error; None where `stream` does not write there."""
    with suppress(OSError, ValueError, AttributeError):
        if stream is not None and stream.fileno() == STDERR:
            own = _open_copy(stream.encoding)
            os.dup2(STDERR, own.fileno(), inheritable=False)
            return own
    return None


@lru_cache
def _open_copy(encoding: str) -> TextIO:
    """One for the whole process, never closed: loggers that are made meanwhile keep it."""
    return open(os.dup(STDERR), "w", buffering=1, encoding=encoding, errors="backslashreplace")


def open_descriptors() -> None:
    """Open those standard descriptors on /dev/null that are closed.

    Else the next file that is opened, a lock or results, gets their number, and what native code logs is written to it.
    """
    for number in STANDARD:
        try:
            os.fstat(number)
        except OSError:
            with suppress(OSError):  # the lowest number that is free is taken: this one
                os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


def _drain_stream(stream: TextIO | None) -> None:
    """Write what waits in a stream, else drop it: Python would try at its end, and make the exit code 120."""
    if stream is None:
        return
    try:
        stream.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            if stream.fileno() in STANDARD:
                with open(os.devnull, "wb") as nowhere:
                    os.dup2(nowhere.fileno(), stream.fileno())
                stream.flush()
