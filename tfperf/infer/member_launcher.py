"""Starts workers on the members of a place: Dask brings the members and watches them, messages go over links."""

import logging
import os
import pickle
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tfperf.cluster.site import Site
from tfperf.cluster.teams import open_members
from tfperf.errors import UserError
from tfperf.infer.dispatch_records import MemberSlot
from tfperf.infer.links import LinkListener
from tfperf.infer.member_worker import ForeignSpec, MemberTask, serve_member
from tfperf.infer.preparer import describe_error
from tfperf.infer.remote_worker import RemoteWorker
from tfperf.infer.seats import Seats

if TYPE_CHECKING:
    from tfperf.cluster.workers import WorkerTeam

LOGGER = logging.getLogger(__name__)
LOOK_SECONDS = 0.5  # between two looks at who is there


class MemberLauncher:
    """Starts workers on members that are there, as they come and go. It has to be closed."""

    def __init__(self, site: Site, slots: Sequence[MemberSlot], clock: Callable[[], float] = time.monotonic) -> None:
        """Raises: UserError where Dask is not installed. Nothing is asked for before `open`."""
        self._members = open_members(site)
        self._slots = slots
        self._seats = Seats(site.kind, 1 + max(one.member for one in slots), clock)
        self._workers: dict[int, RemoteWorker] = {}  # the last one of each slot
        self._futures: dict[int, Any] = {}  # of these; Dask forgets what nobody holds
        self._numbers: dict[int, int] = {}
        self._count = 0
        self._lock = threading.Lock()
        self._stack = ExitStack()
        self._team: WorkerTeam | None = None
        self._refusal, self._has_any = "", False  # as they were seen last

    def open(self) -> None:
        """Ask for the members, if that is not done yet. Raises: UserError where the place cannot be had."""
        if self._team is not None:
            return
        self._team = self._stack.enter_context(self._members)
        address = urlsplit(self._team.address)
        if address.scheme != "tcp" or address.hostname is None:
            raise UserError(f"--on: Dask's scheduler is at {self._team.address}; must be at tcp://")
        self._listener = LinkListener(address.hostname)
        self._stack.callback(self._listener.close)
        self._is_closed = threading.Event()
        watch = threading.Thread(target=self._watch, args=(self._team,), daemon=True)
        watch.start()
        self._stack.callback(watch.join)
        self._stack.callback(self._is_closed.set)

    def close(self) -> None:
        """End all members, and what runs there."""
        for worker in self._workers.values():
            worker.end()
        self._futures.clear()
        self._stack.close()

    def start(self, slot: int) -> RemoteWorker | None:
        """A worker on the slot's member; None: no machine has that place at present.

        Raises: UserError where the queue refused jobs, and no machine is there.
        """
        self.open()
        assert self._team is not None
        member = self._find_member(slot)
        if member is None:
            if self._refusal and not self._has_any:
                raise UserError(self._refusal)
            return None
        worker = RemoteWorker(member)
        self._count += 1
        self._listener.forget(self._numbers.get(slot, 0))
        self._listener.add(self._count, worker.serve)
        with self._lock:
            self._workers[slot], self._numbers[slot] = worker, self._count
        future = self._team.submit_to(member, serve_member, self._make_task(slot))
        future.add_done_callback(partial(_end_with_error, worker))
        self._futures[slot] = future
        return worker

    def pop_news(self) -> Sequence[str]:
        """Who is there, where some have been waited for for long; what the queue refused."""
        return self._seats.pop_news()

    def _find_member(self, slot: int) -> str | None:
        """Where a worker of a slot is to run. Who has just been lost is not trusted before it is seen again."""
        with self._lock:
            number, old = self._slots[slot].member, self._workers.pop(slot, None)
            if old is not None and old.loss == "gone":
                self._seats.release(number, old.member)
            return self._seats.find(number)

    def _make_task(self, slot: int) -> MemberTask:
        one, here = self._slots[slot], self._listener
        paths = tuple(str(Path(path).resolve()) for path in sys.path)
        spec = ForeignSpec(pickle.dumps(one.spec), paths, os.getcwd())
        return MemberTask(here.host, here.port, here.key, self._count, spec, one.find_environment)

    def _watch(self, team: "WorkerTeam") -> None:
        """See who is there, until it is closed."""
        while True:
            try:
                self._update_members(team)
            except Exception as error:  # of Dask, which may know better the next time
                LOGGER.info("members cannot be listed: %s", describe_error(error))
            if self._is_closed.wait(LOOK_SECONDS):
                return

    def _update_members(self, team: "WorkerTeam") -> None:
        there = team.list_members()
        with self._lock:
            self._refusal, self._has_any = next(iter(team.refusals), ""), bool(there)
            self._seats.update(there, self._refusal)
            lost = [one for one in self._workers.values() if one.member not in there]
        for worker in lost:
            worker.end()


def _end_with_error(worker: RemoteWorker, future: Any) -> None:
    """End a worker whose task has ended; with what it raised, if it did."""
    error = future.exception() if future.status == "error" else None
    worker.end("" if error is None else f"{worker.member}: {describe_error(error)}")
