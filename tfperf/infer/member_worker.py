"""What a member of a place does for a prediction: it runs a worker as a process, and carries messages between that and
whoever gives it work. A model that crashes ends that process, and not the member."""

import os
import pickle
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from threading import Event

from tfperf.infer.links import Link, open_link
from tfperf.infer.preparer import describe_error
from tfperf.infer.subprocesses import MessageProcess
from tfperf.infer.worker import run_worker

LOOK_SECONDS = 0.2  # between two looks at whether it is to end
LISTEN_SECONDS = 5.0  # for last words to be read


@dataclass(frozen=True)
class ForeignSpec:
    """A pickled WorkerSpec, and where its modules and files are found: folders of modules, and the current one."""

    pickled: bytes
    paths: tuple[str, ...]
    folder: str


@dataclass(frozen=True)
class MemberTask:
    """A worker that is to be run. host, port, key, number: to whom its link goes; find_environment: of its process,
    beside the member's own, found there."""

    host: str
    port: int
    key: bytes
    number: int
    spec: ForeignSpec
    find_environment: Callable[[], Mapping[str, str]]


def serve_member(task: MemberTask, stop: Event) -> None:
    """Run a worker until it, its link, or this member ends. Raises: OSError, EOFError or AuthenticationError where
    there is nobody to link to."""
    link = open_link(task.host, task.port, task.key, task.number)
    try:
        process = MessageProcess(run_foreign_worker, task.spec, task.find_environment())
    except Exception as error:
        end_link(link, describe_error(error))
        return
    has_left = Event()
    receiver = threading.Thread(target=_receive_all, args=(link, process, has_left), daemon=True)
    receiver.start()
    try:
        is_crashed = _send_all(link, process, lambda: has_left.is_set() or stop.is_set())
    finally:
        how = process.kill()
    end_link(link, how if is_crashed else "", receiver)


def end_link(link: Link, how: str, receiver: threading.Thread | None = None) -> None:
    """Say how the process ended by itself, if it did, and close. receiver: who reads the link."""
    if how:
        with suppress(OSError):
            link.connection.send_bytes(b"")
            link.connection.send_bytes(how.encode())
            if receiver is not None:
                receiver.join(LISTEN_SECONDS)  # the other side ends the link when it has read that
    link.end()
    if receiver is not None:
        receiver.join()
    link.close()


def _send_all(link: Link, process: MessageProcess, is_over: Callable[[], bool]) -> bool:
    """Hand on what the process says; whether that ended by itself."""
    while not is_over():
        if not wait([process.connection], LOOK_SECONDS):
            continue
        try:
            message = process.connection.recv_bytes()
        except (EOFError, OSError):
            return True
        try:
            link.connection.send_bytes(message)
        except OSError:
            return False
    return False


def _receive_all(link: Link, process: MessageProcess, has_left: Event) -> None:
    """Hand on what the link brings."""
    try:
        with suppress(OSError, EOFError):
            while True:
                process.send(link.connection.recv())
    finally:
        has_left.set()


def run_foreign_worker(connection: Connection, spec: ForeignSpec) -> None:
    """Run a worker in the folder, and with the modules, of whoever asked for it."""
    sys.path += [one for one in spec.paths if one not in sys.path]
    with suppress(OSError):  # a member may not have it
        os.chdir(spec.folder)
    run_worker(connection, pickle.loads(spec.pickled))
