"""What is recorded is written also where the program ends before its window does."""

import atexit
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType


class Rescue:
    """Calls `save` where the process ends, by SIGTERM too if nothing of the program's own waits for that."""

    def __init__(self, save: Callable[[], None]) -> None:
        self.save = save
        self._handles = False

    def start(self) -> None:
        """Wait for the end."""
        atexit.register(self.save)
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._end)
            self._handles = True

    def stop(self) -> None:
        """It is written: wait no longer."""
        atexit.unregister(self.save)
        main = threading.current_thread() is threading.main_thread()
        if self._handles and main and signal.getsignal(signal.SIGTERM) == self._end:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._handles = False

    def _end(self, number: int, frame: FrameType | None) -> None:
        """Save, and end as the signal would have ended it."""
        self.save()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
