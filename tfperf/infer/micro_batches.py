"""Which records go through the model together: told by their numbers and lengths alone, whoever computes them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tfperf.arrays import Int64Array


@dataclass(frozen=True)
class BatchRule:
    """How records of a window are put together: by number, or by a budget of length with padding."""

    records: int | None = None  # at most, in a batch; None: no limit but that of length
    total_length: int | None = None  # at most, padding counted; one record may have more, and is alone then
    is_sorted: bool = True  # by length, so that batches have little padding; else as they come

    def __post_init__(self) -> None:
        """Raises: ValueError where neither is given, or one is below 1."""
        if self.records is None and self.total_length is None:
            raise ValueError("a batch needs a limit of records or of length")
        if min(limit for limit in (self.records, self.total_length) if limit is not None) < 1:
            raise ValueError(f"limits of a batch are at least 1: {self}")


@dataclass(frozen=True)
class MicroBatch:
    """Records that go through the model in one call."""

    window: int
    place: int  # among the batches of its window
    records: tuple[int, ...]  # their numbers in the window, in the order in which they are computed
    longest: int  # length of the longest record

    @property
    def padded_length(self) -> int:
        """What is computed: each record as long as the longest."""
        return max(1, self.longest) * len(self.records)


def cut_window(window: int, lengths: Sequence[int] | Int64Array, rule: BatchRule) -> list[MicroBatch]:
    """The batches of a window, the longest records first, so that what is left at the end of a run is short.

    Records of equal length keep their order, so the outcome depends on numbers and lengths alone.

    >>> [one.records for one in cut_window(0, [2, 7, 3, 2], BatchRule(total_length=7))]
    [(1,), (2, 0), (3,)]
    >>> [one.records for one in cut_window(0, [2, 7, 3, 2], BatchRule(records=3, is_sorted=False))]
    [(0, 1, 2), (3,)]
    """
    sizes = np.asarray(lengths, np.int64)
    order = np.argsort(-sizes, kind="stable") if rule.is_sorted else np.arange(len(sizes))
    found: list[MicroBatch] = []
    chosen: list[int] = []
    longest = 0
    for number in map(int, order):
        size = max(longest, int(sizes[number]))
        is_full = rule.records is not None and len(chosen) == rule.records
        is_long = rule.total_length is not None and max(1, size) * (len(chosen) + 1) > rule.total_length
        if chosen and (is_full or is_long):
            found.append(MicroBatch(window, len(found), tuple(chosen), longest))
            chosen, size = [], int(sizes[number])
        chosen.append(number)
        longest = size
    if chosen:
        found.append(MicroBatch(window, len(found), tuple(chosen), longest))
    return found
