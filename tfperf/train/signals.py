"""SIGINT and SIGTERM as a request to stop at the next safe point."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType


@dataclass
class Signals:
    """The first SIGINT or SIGTERM asks for a stop at the end of the call, the second acts as if nobody listened."""

    received: int | None = None
    _before: dict[int, object] = field(default_factory=dict)

    def _handle(self, number: int, _: FrameType | None) -> None:
        self.received = number
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._before.clear()

    @contextmanager
    def listening(self) -> Iterator["Signals"]:
        """Listen while the block runs; only the main thread can."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)
        try:
            yield self
        finally:
            self._restore()
