"""A thread that reads figures again and again while something else runs.

What changes between two readings is not seen: a mean of readings describes a stage, and no reading stands for a peak.
"""

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

PERIOD = 0.1  # seconds
Reading = tuple[Mapping[str, float | None], frozenset[str]]  # figures by name, and words that hold at the moment


@dataclass
class _Readings:
    """What was read since it was last asked for."""

    count: int = 0
    failed: int = 0
    figures: dict[str, list[float]] = field(default_factory=dict)
    words: Counter[str] = field(default_factory=Counter)

    def add(self, reading: Reading) -> None:
        figures, words = reading
        self.count += 1
        self.words.update(words)
        for name, value in figures.items():
            values = self.figures.setdefault(name, [])
            if value is not None:
                values.append(value)

    def summarise(self) -> dict[str, Any]:
        return {
            "readings": self.count, "failed_readings": self.failed,
            "figures": {name: _summarise(values) for name, values in self.figures.items()},
            "share_of_readings": {word: count / self.count for word, count in sorted(self.words.items())},
        }  # fmt: skip


def _summarise(values: list[float]) -> dict[str, float | int] | None:
    """None of a figure that could never be had."""
    if not values:
        return None
    return {
        "readings": len(values), "mean_of_readings": sum(values) / len(values),
        "lowest_reading": min(values), "highest_reading": max(values),
    }  # fmt: skip


class PeriodicReader:
    """Reads every `period` seconds, the first time at once, until it is stopped; it keeps no process alive.

    A reading that fails is counted, and the next one is tried. Where a reading takes longer than the period, the next
    one follows a period after it.
    """

    def __init__(self, read: Callable[[], Reading], period: float = PERIOD) -> None:
        self.period = period
        self._read = read
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._found = _Readings()
        self._thread = threading.Thread(target=self._run, name="tfperf readings", daemon=True)

    def __enter__(self) -> "PeriodicReader":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def take(self) -> dict[str, Any]:
        """What was read since this was last called: counts, and of each figure mean and extremes of its readings."""
        with self._lock:
            found, self._found = self._found, _Readings()
        return found.summarise()

    def _run(self) -> None:
        while True:
            try:
                reading = self._read()
            except Exception:  # whatever a driver does, the measurement goes on
                with self._lock:
                    self._found.failed += 1
            else:
                with self._lock:
                    self._found.add(reading)
            if self._stop.wait(self.period):
                return
