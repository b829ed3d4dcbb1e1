"""The largest batch that passes: a search between one that does and one that does not, each try a fresh process."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

STEP = 0.04  # by which the first tries differ; each further one by twice as much
CLOSE = 1.03  # of two batches, the smaller of which passes and the larger does not: no third is tried between them
FAR = 4  # times one that passes, above which one that does not says little of where between them the limit is
PASSES = 3  # that a recommended batch needs, each in a process of its own
STEP_DOWN = 0.97  # of a batch that has failed after it had passed
LEAST_TRIES = 4  # kept for what is verified


@dataclass
class BatchSearch:
    """Tries batches. passes: whether one does; most: tries in all, without those after a step down; floor: a batch
    that has passed, beside others perhaps; ceiling: one above it that has not, 0 where none is known."""

    passes: Callable[[int], bool]
    most: int
    floor: int
    ceiling: int = 0
    tries: int = 0
    failed: list[int] = field(default_factory=list)

    def run(self, start: int) -> int:
        """The largest batch that has passed three times, 0 where none has; start: one that is thought to be near it."""
        return self._verify(self._search(max(start, self.floor)))

    def _try(self, batch: int) -> bool:
        self.tries += 1
        passed = self.passes(batch)
        if not passed:
            self.failed.append(batch)
        return passed

    def _search(self, batch: int) -> int:
        """One that has passed once, with a failed one close above it, as far as the tries reach."""
        low, high, step = self.floor, self.ceiling, STEP
        if high and batch >= high:
            batch = self._choose(low, high, step)
        while self.tries < self.most - LEAST_TRIES + 1:
            if batch <= self.floor or (high and batch >= high):
                break
            if self._try(batch):
                low = batch
            else:
                high = batch
            if high and (high / low <= CLOSE or high - low <= 1):
                break
            batch = self._choose(low, high, step)
            step *= 2
        return low

    def _choose(self, low: int, high: int, step: float) -> int:
        if not high:
            return max(low + 1, int(low * (1 + step)))
        if high > FAR * low:
            return math.isqrt(low * high)
        return max((low + high) // 2, int(high * (1 - step)) if low == self.floor else 0)

    def _verify(self, batch: int) -> int:
        """Step down until one passes three times; the first pass of one above the floor was in the search."""
        left = PASSES - (batch != self.floor)
        while batch and left:
            if self._try(batch):
                left -= 1
            else:
                batch, left = min(batch - 1, int(batch * STEP_DOWN)), PASSES
        return batch
