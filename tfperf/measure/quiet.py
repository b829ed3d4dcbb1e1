"""TensorFlow's start-up chatter kept off the screen."""

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import IO, TextIO

from tfperf.console.streams import ForgivingStream

# log lines of native code ("I0000 00:00:17...", and absl's notice about them), which no Python setting silences
CHATTER = re.compile(rb"^([IWE]\d{4} [\d:.]+ |WARNING: All log messages before|To enable the following instr)")
LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"  # read by TensorFlow when it is imported


def silence_tensorflow() -> None:
    """Have a TensorFlow that is still to be imported log only what ends the process, unless the user set its level.

    Its errors arrive as exceptions; beside them it logs a screenful for each program that it finds compiled already.
    """
    if "tensorflow" not in sys.modules:
        os.environ.setdefault(LOG_LEVEL, "3")


@contextmanager
def drop_native_logs() -> Iterator[None]:
    """Hold back what native code writes to stderr; at the end everything but its log lines is passed on.

    Where there is no stderr, or no room to hold anything, nothing is held back.
    """
    ForgivingStream(sys.stderr).flush()
    with ExitStack() as stack:
        with suppress(OSError):
            stderr = os.dup(2)
            stack.callback(os.close, stderr)
            held = stack.enter_context(tempfile.TemporaryFile())
            os.dup2(held.fileno(), 2)
            stack.callback(_pass_on, held, stderr)
        yield


def _pass_on(held: IO[bytes], stderr: int) -> None:
    ForgivingStream(sys.stderr).flush()
    os.dup2(stderr, 2)
    with suppress(OSError):
        held.seek(0)
        rest = b"".join(line for line in held if not CHATTER.match(line))
        if _is_stderr(sys.stderr):  # there may be a line on it that is drawn again and again
            ForgivingStream(sys.stderr).write(rest.decode(errors="backslashreplace"))
            return
        while rest:
            rest = rest[os.write(2, rest) :]


def _is_stderr(stream: TextIO | None) -> bool:
    """Whether Python's stream leads where descriptor 2 does."""
    with suppress(OSError, ValueError):
        return stream is not None and os.path.sameopenfile(stream.fileno(), 2)
    return False
