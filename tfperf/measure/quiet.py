"""TensorFlow's start-up chatter kept off the screen."""

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

# log lines of native code ("I0000 00:00:17...", and absl's notice about them), which no Python setting silences
CHATTER = re.compile(rb"^([IWE]\d{4} [\d:.]+ |WARNING: All log messages before|To enable the following instr)")


@contextmanager
def native_logs_dropped() -> Iterator[None]:
    """Hold back what native code writes to stderr; at the end everything but its log lines is passed on."""
    sys.stderr.flush()
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(stderr, 2)
            os.close(stderr)
            held.seek(0)
            rest = b"".join(line for line in held if not CHATTER.match(line))
            os.write(2, rest)
