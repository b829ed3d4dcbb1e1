"""The process that prepares windows, watched and begun again where it dies or hangs."""

import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection

from tfperf.errors import TrainingError
from tfperf.infer.leases import Loss, RecordFailure
from tfperf.infer.prepared import PreparedWindow
from tfperf.infer.preparer import PreparerSpec, run_preparer
from tfperf.infer.subprocesses import MessageProcess, receive_all

MOST_STARTS = 3  # of a worker or preparer, none of which came to an end
START_SECONDS = 900.0  # to load a model, or to open files
TICK_SECONDS = 0.2  # between two looks at deadlines


class PreparerWatch:
    """The process that prepares windows, in the order in which they are asked for."""

    def __init__(self, spec: PreparerSpec, timeout: float, clock: Callable[[], float]) -> None:
        self._spec, self._timeout, self._clock = spec, timeout, clock
        self.requested: list[int] = []
        self._skipped: dict[int, dict[int, RecordFailure]] = {}  # of windows, records that are known to fail
        self._is_single: set[int] = set()
        self._current: int | None = None  # record that is prepared by itself
        self._starts = 0
        self._start()

    def _start(self) -> None:
        self._starts += 1
        self._process: MessageProcess | None = MessageProcess(run_preparer, self._spec, {})
        self._deadline = self._clock() + START_SECONDS
        for window in self.requested:
            self._send(window)

    @property
    def connection(self) -> Connection | None:
        """What it says comes from there."""
        return None if self._process is None else self._process.connection

    def wait(self, seconds: float) -> bool:
        """Whether it says something within that time."""
        return self._process is not None and self._process.connection.poll(seconds)

    def request(self, window: int) -> None:
        """One more."""
        self.requested.append(window)
        if len(self.requested) == 1:
            self._deadline = self._clock() + max(self._timeout, START_SECONDS if self._starts else 0.0)
        self._send(window)

    def _send(self, window: int) -> None:
        assert self._process is not None
        self._process.send((window, window in self._is_single, self._skipped.get(window, {})))

    def receive(self) -> Iterator[PreparedWindow]:
        """Windows that are prepared. Raises: TrainingError where the source fails."""
        assert self._process is not None
        for message in receive_all(self._process.connection):
            self._deadline = self._clock() + self._timeout
            if message is None:
                self._restart("crashed")
                return
            kind, *rest = message
            if kind == "failed":
                raise TrainingError(f"source: {rest[0]}")
            if kind == "begin":
                self._current = rest[1]
            elif kind == "window":
                self.requested.remove(rest[0].window)
                self._current, self._starts = None, 0
                yield rest[0]

    def is_late(self) -> bool:
        """Whether it hung, and was begun again."""
        if not self.requested or self._clock() <= self._deadline:
            return False
        self._restart("hung")
        return True

    def _restart(self, reason: Loss) -> None:
        assert self._process is not None
        how = self._process.kill()
        if self._starts > MOST_STARTS and self._current is None:
            raise TrainingError(f"source: {how}, {self._starts} times")
        for window in self.requested[:1]:  # none: it was killed while it had nothing to do
            if self._current is not None:
                told = how if reason == "crashed" else f"no answer for {self._timeout:g} s"
                self._skipped.setdefault(window, {})[self._current] = RecordFailure(window, self._current, reason, told)
                self._starts = 0
            self._is_single.add(window)
        self._current = None
        self._start()

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process = None


def prepare_first(spec: PreparerSpec, timeout: float, check: Callable[[], None] = lambda: None) -> PreparedWindow:
    """The first window, in a process of its own, whatever its records do to that.

    check: called while it waits; raises where the command is to end. Raises: TrainingError where the source fails.
    """
    watch = PreparerWatch(spec, timeout, time.monotonic)
    try:
        watch.request(0)
        while True:
            if watch.wait(TICK_SECONDS):
                for one in watch.receive():
                    return one
            check()
            watch.is_late()
    finally:
        watch.stop()
