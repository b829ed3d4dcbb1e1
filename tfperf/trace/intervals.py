"""Sets of half-open time intervals [begin, end): two arrays (n), begins ascending, nothing touching. Unit: ns."""

from dataclasses import dataclass

import numpy as np

from tfperf.arrays import BoolMask, Times


@dataclass(frozen=True)
class Intervals:
    """Disjoint intervals in order; make them with `merge_intervals`.

    >>> busy = merge_intervals(np.array([0, 5]), np.array([4, 9]))
    >>> len(busy), busy.length
    (2, 8)
    """

    begin: Times
    end: Times

    @property
    def length(self) -> int:
        """Their total length."""
        return int((self.end - self.begin).sum())

    def __len__(self) -> int:
        return len(self.begin)

    def clip(self, begin: int, end: int) -> "Intervals":
        """What of them lies in [begin, end).

        >>> merge_intervals(np.array([0, 5]), np.array([4, 9])).clip(3, 6)
        Intervals(begin=array([3, 5]), end=array([4, 6]))
        """
        first, last = np.searchsorted(self.end, begin, "right"), np.searchsorted(self.begin, end, "left")
        low, high = np.maximum(self.begin[first:last], begin), np.minimum(self.end[first:last], end)
        some = high > low
        return Intervals(low[some], high[some])

    def find_gaps(self, begin: int, end: int) -> "Intervals":
        """What of [begin, end) they leave free.

        >>> merge_intervals(np.array([0, 5]), np.array([4, 9])).find_gaps(0, 10)
        Intervals(begin=array([4, 9]), end=array([ 5, 10]))
        """
        inside = self.clip(begin, end)
        low, high = np.concatenate([[begin], inside.end]), np.concatenate([inside.begin, [end]])
        free = high > low
        return Intervals(low[free], high[free])

    def subtract(self, other: "Intervals") -> "Intervals":
        """What lies here and not in the other.

        >>> merge_intervals(np.array([0]), np.array([9])).subtract(merge_intervals(np.array([2]), np.array([4])))
        Intervals(begin=array([0, 4]), end=array([2, 9]))
        """
        return self.intersect(other.find_gaps(int(self.begin[0]), int(self.end[-1]))) if len(self) else self

    def add(self, other: "Intervals") -> "Intervals":
        """What lies in one of the two.

        >>> merge_intervals(np.array([0]), np.array([4])).add(merge_intervals(np.array([2]), np.array([9])))
        Intervals(begin=array([0]), end=array([9]))
        """
        return merge_intervals(np.append(self.begin, other.begin), np.append(self.end, other.end))

    def intersect(self, other: "Intervals") -> "Intervals":
        """What lies in both.

        >>> merge_intervals(np.array([0]), np.array([9])).intersect(merge_intervals(np.array([7]), np.array([12])))
        Intervals(begin=array([7]), end=array([9]))
        """
        cuts = sort_distinct(self.begin, self.end, other.begin, other.end)
        if len(cuts) < 2:
            return NOTHING
        low = cuts[:-1]
        both = self.contains(low) & other.contains(low)
        return merge_intervals(low[both], cuts[1:][both])

    def join(self, gap: int) -> "Intervals":
        """The same, with what lies between two of them where that is no longer than a gap.

        >>> merge_intervals(np.array([0, 5, 20]), np.array([4, 9, 30])).join(2)
        Intervals(begin=array([ 0, 20]), end=array([ 9, 30]))
        """
        new = self.begin[1:] - self.end[:-1] > gap
        return Intervals(self.begin[np.append(True, new)], self.end[np.append(new, True)]) if len(self) else self

    def sum_lengths(self, cuts: Times) -> Times:
        """Length that lies in each of the ranges between neighbouring `cuts` (m + 1, ascending): (m).

        >>> merge_intervals(np.array([0, 5]), np.array([4, 9])).sum_lengths(np.array([0, 2, 6, 10]))
        array([2, 3, 3])
        """
        upto: Times = np.array([0, *np.cumsum(self.end - self.begin)], np.int64)
        ends = np.array([0, *self.end], np.int64)
        index = np.searchsorted(self.begin, cuts, "right")  # how many begin before each cut; the last may reach over it
        lengths: Times = np.diff(upto[index] - np.where(index > 0, np.maximum(ends[index] - cuts, 0), 0))
        return lengths

    def count_long(self) -> int:
        """How many of them are at least a tenth as long as they are on average.

        >>> merge_intervals(np.array([0, 5, 9]), np.array([1, 6, 99])).count_long()
        1
        """
        lengths = self.end - self.begin
        return int((10 * lengths >= lengths.mean()).sum()) if len(self) else 0

    def contains(self, times: Times) -> BoolMask:
        """Which times lie in one of them."""
        index = np.searchsorted(self.begin, times, "right") - 1
        return (index >= 0) & (times < self.end[np.maximum(index, 0)]) if len(self) else np.zeros(len(times), bool)


NOTHING = Intervals(np.zeros(0, np.int64), np.zeros(0, np.int64))


def sort_distinct(*times: Times) -> Times:
    """All times in order, each once; np.unique takes a hundred times as long for a million of them.

    >>> sort_distinct(np.array([4, 1, 9]), np.array([9, 2]))
    array([1, 2, 4, 9])
    """
    every = np.sort(np.concatenate(times))
    return every[np.append(True, every[1:] != every[:-1])] if len(every) else every


def merge_intervals(begin: Times, end: Times) -> Intervals:
    """The union of intervals [begin, end) (n) in any order, which may overlap; empty ones count for nothing.

    >>> merge_intervals(np.array([5, 0, 2]), np.array([9, 3, 4]))
    Intervals(begin=array([0, 5]), end=array([4, 9]))
    """
    some = end > begin
    if not some.any():
        return NOTHING
    order = np.argsort(begin[some], kind="stable")
    begin, reach = begin[some][order], np.maximum.accumulate(end[some][order])
    new = np.concatenate([[True], begin[1:] > reach[:-1]])
    return Intervals(begin[new], reach[np.concatenate([new[1:], [True]])])
