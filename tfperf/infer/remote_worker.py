"""A worker on another machine, as who gives it work sees it."""

import pickle
import queue
import threading
from contextlib import suppress
from multiprocessing.connection import Pipe
from typing import Any

from tfperf.infer.leases import WorkerLoss
from tfperf.infer.links import Link


class RemoteWorker:
    """What `MessageProcess` is for a process of this machine: `connection` is what it says.

    A thread takes that from the link, so that who reads waits for no message of which half has come when its machine
    stopped. An empty message says that its process has ended; the next one how.
    """

    def __init__(self, member: str) -> None:
        """member: the machine that it is to run on, in words."""
        self.member = member
        self.connection, self._inlet = Pipe(duplex=False)
        self._outbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._link: Link | None = None
        self._is_over = False
        self._ending = ""  # how its process ended, where its member has told

    @property
    def loss(self) -> WorkerLoss:
        """Its process crashed, or else it is gone with its member."""
        return "crashed" if self._ending else "gone"

    def send(self, message: Any) -> None:
        """Have it told soon; nothing where it is gone."""
        self._outbox.put(message)

    def kill(self) -> str:
        """Have its member end it; how it had ended."""
        self.end()
        self.connection.close()
        return self._ending or f"{self.member} has left, or cannot be reached"

    def end(self, how: str = "") -> None:
        """Let nothing come from it any more. how: what ended its process, if that is known."""
        with self._lock:
            was_over, self._is_over = self._is_over, True
            self._ending = self._ending or how
            if self._link is not None:
                self._link.end()  # `serve` does the rest
            elif not was_over:
                self._inlet.close()

    def serve(self, link: Link) -> None:
        """Hand on what a link brings, until that ends."""
        with self._lock:
            if self._is_over:
                link.close()
                return
            self._link = link
        sender = threading.Thread(target=self._send_all, args=(link,), daemon=True)
        sender.start()
        with suppress(OSError, EOFError):
            while message := link.connection.recv_bytes():
                self._inlet.send_bytes(message)
            self._ending = link.connection.recv_bytes().decode(errors="replace")
        link.end()
        self._outbox.put(None)
        sender.join()
        link.close()
        self._inlet.close()

    def _send_all(self, link: Link) -> None:
        with suppress(OSError, ValueError):  # its member is gone: `serve` notices
            while (message := self._outbox.get()) is not None:
                link.connection.send_bytes(pickle.dumps(message, protocol=5))
