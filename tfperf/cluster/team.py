"""A team takes tasks, each of its members one at a time."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event
from typing import Any, Protocol

RunTask = Callable[[Any, Event], Any]  # of a task; it ends early once the event is set


class Team(Protocol):
    """Members that work at the same time; leaving its context ends what they do."""

    @property
    def size(self) -> int:
        """How many members there are now; 0 while none has come yet."""

    def submit(self, run_task: RunTask, task: Any) -> "Future[Any]":
        """Have a member carry out a task; no more than `size` at a time."""


@dataclass(frozen=True)
class ThreadTeam:
    """Threads of this process, each of which waits for a child process."""

    size: int
    pool: ThreadPoolExecutor
    stop: Event = field(default_factory=Event)

    def submit(self, run_task: RunTask, task: Any) -> "Future[Any]":
        """Have a thread carry out a task."""
        return self.pool.submit(run_task, task, self.stop)


@contextmanager
def open_threads(size: int) -> Iterator[ThreadTeam]:
    """A team of threads of this process."""
    with ThreadPoolExecutor(size) as pool:
        team = ThreadTeam(size, pool)
        try:
            yield team
        finally:
            team.stop.set()
            pool.shutdown(cancel_futures=True)
