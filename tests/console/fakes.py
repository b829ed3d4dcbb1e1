"""Streams as a terminal, and as ones that take nothing."""

import errno
import io
import re


class Terminal(io.StringIO):
    """Keeps what is drawn; its width is the variable COLUMNS, as rich reads it."""

    encoding = "utf-8"

    def isatty(self):
        return True


class Gone(Terminal):
    """A terminal that went away, or a pipe whose reader has."""

    def __init__(self, error=None):
        super().__init__()
        self.error = error or OSError(errno.EIO, "Input/output error")

    def write(self, text):
        raise self.error

    flush = close = lambda self: None


def on_terminal(monkeypatch, name, columns):
    """A terminal of so many columns in place of sys.stdout or sys.stderr."""
    terminal = Terminal()
    monkeypatch.setattr(f"sys.{name}", terminal)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    return terminal


def drawn(terminal):
    """The lines without colours and movements."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue()).replace("\r", "\n").split("\n")
