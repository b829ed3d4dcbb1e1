"""Lines for people, and what is printed for programs.

Names come from cards, packs, profiles and paths: what would command a terminal is shown as text, `\\x1b` for an escape.
"""

import re
import sys
from collections.abc import Sequence
from typing import TextIO

from tfperf.console.streams import ForgivingStream
from tfperf.errors import UserError

MOST_BYTES = 64_000  # of a message
CUT = " ... cut"
# control characters but tab and new line, marks that turn the direction of text, other ends of lines, half characters
COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def escape_controls(text: str) -> str:
    """The text with all that would command a terminal written out.

    >>> print(escape_controls("red: " + chr(27) + "[31m"))
    red: \\x1b[31m
    """
    return COMMANDS.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


def to_one_line(text: str) -> str:
    """The text, printable, without ends of lines."""
    return escape_controls(text).replace("\n", "\\n")


def cut(text: str) -> str:
    """The text, printable, in at most MOST_BYTES of UTF-8; where something is missing it says so."""
    data = escape_controls(text[:MOST_BYTES]).encode()
    if len(text) <= MOST_BYTES and len(data) <= MOST_BYTES:
        return data.decode()
    return data[: MOST_BYTES - len(CUT)].decode(errors="ignore") + CUT


def say(text: str, quiet: bool = False) -> None:
    """Tell on stderr what goes on."""
    if not quiet:
        _print(sys.stderr, text)


def show_text(text: str) -> None:
    """Tell a result on stdout."""
    _print(sys.stdout, text)


def _print(stream: TextIO | None, text: str) -> None:
    words = ForgivingStream(stream)
    words.write(cut(text) + "\n")
    words.flush()


def complain(faults: Sequence[str]) -> None:
    """Tell errors on stderr, a line for each."""
    say("\n".join(f"error: {fault}" for fault in faults))


def deliver(text: str) -> None:
    """Print on stdout what a program will read. Raises: UserError where not all of it arrives."""
    stream = ForgivingStream(sys.stdout).stream
    try:
        if stream is None:
            raise OSError("it is closed")
        stream.write(text + "\n")
        stream.flush()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"stdout: could not be written: {reason}; what arrived is not complete") from None
