"""TCP connections between machines that carry messages as pipes do, between ends that have shown each other a key."""

import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge

CONNECT_SECONDS, PAUSE_SECONDS = 30.0, 0.1
# a machine that is gone without a word is missed after IDLE + PROBES x INTERVAL
KEEPALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 4}  # s, s, 1


class Link:
    """One such connection; `connection` is read and written as that of a pipe."""

    def __init__(self, plain: socket.socket) -> None:
        plain.settimeout(None)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in KEEPALIVE.items():
            if hasattr(socket, name):  # not on every system
                plain.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        self._socket = plain
        self.connection = Connection(os.dup(plain.fileno()))

    def end(self) -> None:
        """End it for both sides, also for threads that wait for it."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Give it back; nobody may be at it any more."""
        self.connection.close()
        self._socket.close()


def open_link(host: str, port: int, key: bytes, number: int) -> Link:
    """A link to who listens there and expects this number. Raises: OSError, EOFError or AuthenticationError."""
    link = Link(socket.create_connection((host, port), CONNECT_SECONDS))
    try:
        answer_challenge(link.connection, key)
        deliver_challenge(link.connection, key)
        link.connection.send(number)
    except BaseException:
        link.close()
        raise
    return link


class LinkListener:
    """Takes links from other machines, by the numbers that are expected."""

    def __init__(self, host: str) -> None:
        """host: the address of this machine by which others reach it."""
        self.host, self.key = host, os.urandom(32)
        self._socket = open_server(host)
        self.port = int(self._socket.getsockname()[1])
        self._expected: dict[int, Callable[[Link], None]] = {}
        self._is_closed = False
        threading.Thread(target=self._listen, daemon=True).start()

    def add(self, number: int, serve: Callable[[Link], None]) -> None:
        """Have `serve` called with the link that says this number, once, in a thread of its own; it closes the link."""
        self._expected[number] = serve

    def forget(self, number: int) -> None:
        """Who says this number is not expected any more."""
        self._expected.pop(number, None)

    def close(self) -> None:
        """Take no more; links that there are stay."""
        self._is_closed = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # ends the wait for the next one
        self._socket.close()

    def _listen(self) -> None:
        while not self._is_closed:
            try:
                plain, _ = self._socket.accept()
            except OSError:  # it is closed; or who knocked has left, or there are too many
                time.sleep(PAUSE_SECONDS)
                continue
            # a thread each: a stranger who connects and says nothing keeps nobody waiting
            threading.Thread(target=self._receive_link, args=(plain,), daemon=True).start()

    def _receive_link(self, plain: socket.socket) -> None:
        serve = None
        try:
            link = Link(plain)
        except OSError:  # who knocked has left
            plain.close()
            return
        with suppress(OSError, EOFError, AuthenticationError):
            deliver_challenge(link.connection, self.key)
            answer_challenge(link.connection, self.key)
            serve = self._expected.pop(link.connection.recv(), None)
        if serve is None:
            link.close()
        else:
            serve(link)


def open_server(host: str) -> socket.socket:
    """A socket that listens at an address of this machine, or, where that is one of a gateway, at all.

    Raises: OSError.
    """
    family = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][0]
    try:
        return socket.create_server((host, 0), family=socket.AddressFamily(family), backlog=256)
    except OSError:
        return socket.create_server(("", 0), family=socket.AddressFamily(family), backlog=256)
