"""Processes that answer messages over a pipe: started fresh, watched, and killed with all that they started.

They are programs of their own, not copies of this one: TensorFlow must not be forked, and the user's main program is
not to be run again in each.
"""

import os
import pickle
import queue
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from tempfile import TemporaryFile
from typing import Any

from tfperf.infer.leases import WorkerLoss

ERROR_LENGTH = 4000  # bytes of what it said last, that are kept
MOST_LISTS = 64  # of messages that are taken from one process before others have their turn
OWN_ERROR = "tfperf.errors.UserError: "  # as a traceback ends with it
PATIENCE_SECONDS = 5.0  # for one that is asked to end


class MessageProcess:
    """One such process. `connection` is what it says; what it is told goes through a thread, since one that hangs does
    not read."""

    def __init__(self, serve: Callable[[Connection, Any], None], spec: Any, environment: Mapping[str, str]) -> None:
        """serve: a function of a module, called there with its end of the pipe and `spec`, which can be pickled.

        environment: of its variables, beside those of this process.
        """
        self.connection, theirs = Pipe()
        self._errors = TemporaryFile()  # noqa: SIM115 - closed at its end
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import serve_messages; serve_messages({theirs.fileno()})"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self._errors, pass_fds=[theirs.fileno()],
            env={**os.environ, **environment}, start_new_session=True,
        )  # fmt: skip
        theirs.close()
        self._outbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        threading.Thread(target=self._send_all, daemon=True).start()
        # what they are can only be unpickled once modules are found there
        self.send((list(sys.path), pickle.dumps(serve), pickle.dumps(spec)))

    @property
    def loss(self) -> WorkerLoss:
        """What it is when its connection ends."""
        return "crashed"

    @property
    def process_id(self) -> int:
        """Of the operating system."""
        return self._process.pid

    def send(self, message: Any) -> None:
        """Have it told soon; nothing where it is gone."""
        self._outbox.put(message)

    def _send_all(self) -> None:
        with suppress(OSError, ValueError):  # it is gone: its end of the pipe tells so to who reads
            while (message := self._outbox.get()) is not None:
                self.connection.send_bytes(pickle.dumps(message, protocol=5))

    def kill(self) -> str:
        """End it with all that it has started; how it ended, and what it said last. One that is about to end by itself
        is waited for, since its reason comes after the end of its pipe."""
        if self._is_ending():
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(PATIENCE_SECONDS)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        return self._end()

    def _is_ending(self) -> bool:
        """Whether its end of the pipe is closed."""
        if self.connection.closed:
            return False
        poller = select.poll()
        poller.register(self.connection, select.POLLHUP)
        return any(events & select.POLLHUP for _, events in poller.poll(0))

    def stop(self) -> None:
        """Let it end by itself, since its pipe does; kill it where that takes too long."""
        self._outbox.put(None)
        self.connection.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(PATIENCE_SECONDS)
        self.kill()

    def _end(self) -> str:
        code = self._process.wait()
        self._outbox.put(None)
        self.connection.close()
        if self._errors.closed:
            return ""
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - ERROR_LENGTH))
        said = self._errors.read().decode(errors="replace")
        self._errors.close()
        ended = f"killed by signal {-code}" if code < 0 else f"ended with {code}"
        lines = [line for line in said.splitlines() if line.strip()]
        return (
            f"its process was {ended}"
            if code < 0
            else f"its process {ended}" + (f": {lines[-1].removeprefix(OWN_ERROR)}" if lines else "")
        )


def serve_messages(descriptor: int) -> None:
    """What such a process runs: its first message says what."""
    connection = Connection(descriptor)
    paths, serve, spec = _receive_first(connection)
    sys.path[:] = paths
    serve, spec = pickle.loads(serve), pickle.loads(spec)
    try:
        serve(connection, spec)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        os._exit(0)  # the parent is gone, or wants no more


def _receive_first(connection: Connection) -> tuple[list[str], bytes, bytes]:
    found: tuple[list[str], bytes, bytes] = pickle.loads(connection.recv_bytes())
    return found


def receive_all(connection: Connection) -> Iterator[tuple[Any, ...] | None]:
    """All messages that are there, but for those after MOST_LISTS lists of them; None: the other end is gone."""
    try:
        for _ in range(MOST_LISTS):
            found = connection.recv()
            yield from found if isinstance(found, list) else [found]
            if not connection.poll(0):
                return
    except (EOFError, OSError):
        yield None
