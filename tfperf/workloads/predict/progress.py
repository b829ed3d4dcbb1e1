"""How far a prediction is, told after each commit."""

import time
from collections.abc import Callable, Sequence

from tfperf.infer.journal import JournalEntry
from tfperf.infer.prediction import PredictionFolder

ShowRecords = Callable[[int, int, float, str], None]  # that are committed, all, those a second, words


class PredictionProgress:
    """Tells how far it is, after each commit."""

    def __init__(self, folder: PredictionFolder, show: ShowRecords, files: int) -> None:
        self._folder, self._show, self._before = folder, show, folder.progress.count
        self._begin: float | None = None
        self._words = ""

    def show_commit(self, entries: Sequence[JournalEntry]) -> None:
        """What was committed."""
        now = time.monotonic()
        self._begin = self._begin or now
        done = self._folder.progress.count
        rate = (done - self._before) / (now - self._begin) if now > self._begin else 0.0
        self._show(done, self._folder.plan.records, rate, self._words)

    def say(self, text: str) -> None:
        """What happened."""
        self._words = text
