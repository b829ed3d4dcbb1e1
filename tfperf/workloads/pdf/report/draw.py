"""Draws pictures for the process that started this one; ends with it. Run as a program, with pipes as input and output.

In come frames of bytes: the pickled result, then pickled pictures one by one; out go PNG files in the same order. What
fails ends the process: who waits for the picture draws it, and meets the error, himself.
"""

import gc
import os
import pickle
import signal
import struct
import sys
from typing import IO

LENGTH = struct.Struct("<Q")


def send(stream: IO[bytes], content: bytes) -> None:
    """Write a frame. Raises: OSError."""
    stream.write(LENGTH.pack(len(content)) + content)
    stream.flush()


def receive(stream: IO[bytes]) -> bytes | None:
    """Read a frame; None at the end of the stream, or where it breaks off."""
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(head)
    content = stream.read(length)
    return content if len(content) == length else None


def main() -> None:
    """Draw until the input ends."""
    # Ctrl-C reaches the whole group: it is the other process that decides what happens then
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    output = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library says is no picture
    gc.disable()  # it does not live long
    # all that takes time before there is a result
    from tfperf.report.style import apply_style
    from tfperf.workloads.pdf.report import plots_pdf  # noqa: F401
    from tfperf.workloads.pdf.report.pictures import draw

    content = receive(sys.stdin.buffer)
    if content is None:
        return
    result = pickle.loads(content)
    with apply_style():
        while (content := receive(sys.stdin.buffer)) is not None:
            send(output, draw(result, pickle.loads(content)))


if __name__ == "__main__":
    main()
