"""Wall time by stage."""

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

LOGGER = logging.getLogger(__name__)
STAGES = ("import", "data", "build", "compile", "train", "write")


class Stopwatch:
    """Seconds spent in each stage since it was made; a stage entered twice adds up, one in another counts by itself."""

    def __init__(self, stages: Iterable[str] = STAGES) -> None:
        self._start = time.perf_counter()
        self._spent = dict.fromkeys(stages, 0.0)
        self._within: list[str] = []  # stages that are entered, outermost first

    @contextmanager
    def measure_stage(self, name: str) -> Iterator[None]:
        """Count the block's wall time to a stage."""
        start = time.perf_counter()
        self._within.append(name)
        try:
            yield
        finally:
            spent = time.perf_counter() - start
            self._within.pop()
            self._spent[name] += spent
            if self._within:
                self._spent[self._within[-1]] -= spent
            LOGGER.debug("%s took %.3f s", name, spent)

    def sum_seconds(self) -> dict[str, float]:
        """Seconds by stage, and in all."""
        return {**self._spent, "total": time.perf_counter() - self._start}


def compute_quartiles(seconds_per_step: Sequence[float]) -> dict[str, float | None]:
    """Median and quartiles in milliseconds; None where nothing was timed.

    >>> compute_quartiles([0.001, 0.002, 0.003])
    {'median': 2.0, 'q1': 1.5, 'q3': 2.5}
    """
    if not len(seconds_per_step):
        return dict.fromkeys(("median", "q1", "q3"))
    q1, q2, q3 = 1e3 * np.percentile(seconds_per_step, [25, 50, 75])
    return {"median": float(q2), "q1": float(q1), "q3": float(q3)}
