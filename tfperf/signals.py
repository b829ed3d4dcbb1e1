"""SIGINT, SIGTERM and SIGHUP as a request to end: at once, or, where work would be lost, at the next safe point.

Python's handlers wait until native code returns. A program of its own therefore has a thread that ends the process
where that takes too long: everything on the disk is whole at any moment, as it has to be for a SIGKILL.
"""

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from tfperf.errors import SIGNALLED, Interrupted

LOGGER = logging.getLogger(__name__)
NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PATIENCE_SECONDS = 2.5  # for the main thread to come back and end in order
POLL_SECONDS = 0.05
AGAIN_SECONDS = 0.02  # after an error that Python dropped
_listening: list["Signals"] = []  # the innermost last


@dataclass
class Signals:
    """The first signal asks for the end, the second acts as if nobody listened.

    Within `defer` the first one is only noted: who is there looks at `received`. Elsewhere it raises Interrupted. Where
    Python drops that, since it came while a `__del__` ran, it is raised again soon after; where native code drops it,
    by the next `defer`, at the latest at the end of `listen`.
    """

    received: int | None = None
    advice: str = ""  # what can be done afterwards, for the message
    _deferrals: int = 0
    _before: dict[int, object] = field(default_factory=dict)
    _was_raised: bool = False
    _again: threading.Timer | None = None
    _hook_before: Callable[["sys.UnraisableHookArgs"], Any] = sys.__unraisablehook__

    def _handle(self, number: int, _: FrameType | None) -> None:
        self.received = number
        self._restore()  # first: a second signal ends whatever hangs here
        LOGGER.info("signal %d came", number)
        if not self._deferrals:
            self._was_raised = True
            self.stop_if_asked()

    def _take_dropped(self, dropped: "sys.UnraisableHookArgs") -> None:
        """Let the signal come once more, where Python drops what was raised for it: here that would be dropped, too."""
        if not isinstance(dropped.exc_value, Interrupted) or self.received is None:
            self._hook_before(dropped)
            return
        self._before[self.received] = signal.signal(self.received, self._handle)
        main = threading.main_thread().ident
        self._again = threading.Timer(AGAIN_SECONDS, signal.pthread_kill, [main, self.received])
        self._again.daemon = True
        self._again.start()

    def _forget_dropped(self) -> None:
        if self._again is not None:
            self._again.cancel()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._before.clear()

    def stop_if_asked(self, step: int | None = None) -> None:
        """Raise Interrupted where a signal came; `step`: of the training, for the message."""
        if self.received is not None:
            self._forget_dropped()
            raise Interrupted(self.received, step, self.advice)

    @contextmanager
    def defer(self) -> Iterator[None]:
        """Let the block come to its end whatever signal comes. Raises: Interrupted where one before was dropped."""
        if self._was_raised and not self._deferrals:
            self.stop_if_asked()
        self._deferrals += 1
        try:
            yield
        finally:
            self._deferrals -= 1

    @contextmanager
    def listen(self, strict: bool = False) -> Iterator["Signals"]:
        """Listen while the block runs; only the main thread can.

        strict: end the process where it has not ended PATIENCE_SECONDS after a signal; for programs, not for libraries.
        """
        main = threading.current_thread() is threading.main_thread()
        for number in NUMBERS if main else ():
            # a program started by nohup is to survive the end of its terminal
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._handle)
        _listening.append(self)
        if main:
            self._hook_before, sys.unraisablehook = sys.unraisablehook, self._take_dropped
        if strict and main:
            _start_watch()
        try:
            yield self
            if self._was_raised:
                self.stop_if_asked()
        finally:
            _listening.remove(self)
            self._forget_dropped()
            if main:
                sys.unraisablehook = self._hook_before
            self._restore()


def _start_watch() -> None:
    """Start the thread that ends the process; it learns of a signal from Python's wake-up descriptor."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    if (other := signal.set_wakeup_fd(writer, warn_on_full_buffer=False)) != -1:
        signal.set_wakeup_fd(other)
        return
    with suppress(OSError):
        # a copy: what native code says is held back at times (measure/quiet.py)
        threading.Thread(target=_watch, args=(reader, os.dup(2)), daemon=True, name="signals").start()


def _watch(reader: int, stderr: int) -> None:
    while (number := os.read(reader, 1)[0]) not in NUMBERS:
        pass
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        time.sleep(POLL_SECONDS)
        if any(one._deferrals for one in _listening):
            end = time.monotonic() + PATIENCE_SECONDS
    advice = next((one.advice for one in reversed(_listening) if one.advice), "")
    with suppress(OSError):
        os.write(stderr, f"{Interrupted(number, None, advice)}\n".encode())
    _kill_children()
    os._exit(SIGNALLED + number)


def _kill_children() -> None:
    """End the processes that this one started, where the system tells which they are (Linux)."""
    for path in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError, ValueError):
            for child in path.read_text().split():
                os.kill(int(child), signal.SIGKILL)
