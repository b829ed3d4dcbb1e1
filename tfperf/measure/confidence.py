"""Intervals that hold the true value with 95 % probability, each for the figure in its middle. None: not known."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.stats import binom, binomtest, chi2
from scipy.stats import t as student

from tfperf.arrays import Float64Array

LEVEL = 0.95
MOST_VALUES = 10_000  # that are worth asking for
MOST_PAIRED = 400  # values, each of which is paired with all others


@dataclass(frozen=True)
class ConfidenceInterval:
    """A figure and its limits; they are None where nothing tells how far chance may have moved it."""

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def half(self) -> float | None:
        """Half the width."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2

    def exponentiate(self) -> "ConfidenceInterval":
        """Of the ratio, where this one is of its logarithm; without limits where no number is as large."""
        try:
            low, high = (None if limit is None else math.exp(limit) for limit in (self.low, self.high))
        except OverflowError:
            low = high = None
        return ConfidenceInterval(math.exp(self.value), low, high)

    def is_within(self, share: float) -> bool:
        """Whether the limits of a positive figure are known and not further from it than this share of it.

        >>> narrow, wide = ConfidenceInterval(100.0, 98.0, 101.0), ConfidenceInterval(100.0, 98.0, 104.0)
        >>> narrow.is_within(0.03), wide.is_within(0.03)
        (True, False)
        """
        if self.low is None or self.high is None:
            return False
        return max(self.high - self.value, self.value - self.low) <= share * self.value

    def has_inside(self, value: float) -> bool:
        """Whether the limits are known and this value is between them."""
        return self.low is not None and self.high is not None and self.low <= value <= self.high


def estimate_mean(values: Sequence[float], comparisons: int = 1) -> ConfidenceInterval:
    """The mean of independent values, by Student's t; without limits for one value. Raises: ValueError for none.

    comparisons: of so many such intervals all hold their values with 95 % probability (Bonferroni).

    >>> found = estimate_mean([1.0, 2.0, 3.0])  # 2 +- 4.303 / 3 ** 0.5
    >>> found.value, round(found.low, 3), round(found.high, 3)
    (2.0, -0.484, 4.484)
    >>> estimate_mean([2.0])
    ConfidenceInterval(value=2.0, low=None, high=None)
    """
    if not len(values):
        raise ValueError("the mean of no values")
    middle = float(np.mean(values))
    if len(values) < 2:
        return ConfidenceInterval(middle)
    return _make_interval(middle, float(np.std(values, ddof=1)) / math.sqrt(len(values)), len(values) - 1, comparisons)


def estimate_geometric_mean(values: Sequence[float]) -> ConfidenceInterval:
    """The geometric mean of positive values, by Student's t on their logarithms: no limit is below zero.

    >>> found = estimate_geometric_mean([1.0, 4.0])
    >>> round(found.value, 12), found.low > 0
    (2.0, True)
    """
    return estimate_mean(np.log(values).tolist()).exponentiate()


def estimate_middle_ratio(values: Sequence[float]) -> ConfidenceInterval:
    """The pseudomedian of positive values' logarithms, as a ratio: outliers move it little, no limit is below zero.

    >>> round(estimate_middle_ratio([1.0, 2.0, 2.0, 2.0, 100.0]).value, 12)
    2.0
    """
    return estimate_pseudomedian(np.log(values).tolist()).exponentiate()


def estimate_median(values: Sequence[float]) -> ConfidenceInterval:
    """The median, whatever the distribution; without limits for fewer than six values.

    Source: order statistics, David & Nagaraja 2003, section 7.1: the k-th value from either end, where fewer than k of
    n coins show heads with a probability of 2.5 % at most.

    >>> estimate_median([5.0, 1.0, 4.0, 2.0, 3.0, 6.0])  # six coins show the same side in 1 of 32 cases
    ConfidenceInterval(value=3.5, low=1.0, high=6.0)
    """
    ordered = np.sort(values)
    middle, count = float(np.median(ordered)), len(ordered)
    k = int(binom.ppf((1 - LEVEL) / 2, count, 0.5))  # the smallest whose probability is at least that
    return (
        ConfidenceInterval(middle)
        if k < 1
        else ConfidenceInterval(middle, float(ordered[k - 1]), float(ordered[count - k]))
    )


def estimate_pseudomedian(values: Sequence[float]) -> ConfidenceInterval:
    """The middle of values that scatter alike to both sides; without limits for fewer than six of them.

    A few outliers move it little, and it is nearly as sure as the mean where there are none.
    Source: Hodges & Lehmann 1963, doi:10.1214/aoms/1177704172: the median of the means of all pairs; the limits invert
    Wilcoxon's signed-rank test. Where there are more than MOST_PAIRED values, means of neighbours take their place.
    Raises: ValueError for no values.

    >>> estimate_pseudomedian([5.0, 1.0, 4.0, 2.0, 3.0, 60.0])
    ConfidenceInterval(value=3.5, low=1.0, high=60.0)
    """
    if not len(values):
        raise ValueError("the middle of no values")
    groups = np.array_split(np.asarray(values, np.float64), min(len(values), MOST_PAIRED))
    middles = np.array([group.mean() for group in groups])
    rows, columns = np.triu_indices(len(middles))
    means = np.sort((middles[rows] + middles[columns]) / 2)
    k = _find_signed_rank(len(middles))
    limits = () if k < 1 else (float(means[k - 1]), float(means[-k]))
    return ConfidenceInterval(float(np.median(means)), *limits)


@cache
def _find_signed_rank(count: int) -> int:
    """How many sums of signed ranks are so low that together their probability is (1 - LEVEL) / 2 at most."""
    ways = np.ones(1)  # of a sum, of its ranks each of which is left out or in
    for rank in range(1, count + 1):
        ways = np.pad(ways, (0, rank)) + np.pad(ways, (rank, 0))
    return int(np.searchsorted(np.cumsum(ways), (1 - LEVEL) / 2 * 2.0**count, side="right"))


def estimate_repeats(logarithms: Sequence[float], width: float) -> int | None:
    """How many values would make the interval of their ratio so wide, as a share of it, if they scatter as these do.

    With even odds: of few values the scatter is mostly found too small, so it is taken as large as its median would be.
    None: one value tells nothing of its scatter, or more than MOST_VALUES would be needed.
    """
    if len(logarithms) < 2:
        return None
    freedom, half = len(logarithms) - 1, math.asinh(width / 2)
    error = float(np.std(logarithms, ddof=1)) * math.sqrt(freedom / chi2.median(freedom))
    narrow = _compute_half_widths() * error <= half
    return int(np.argmax(narrow)) + 2 if narrow.any() else None


@cache
def _compute_half_widths() -> Float64Array:
    """Half the interval of a mean of 2, 3, ... MOST_VALUES values that scatter by 1."""
    counts = np.arange(2, MOST_VALUES + 1)
    halves: Float64Array = student.ppf((1 + LEVEL) / 2, counts - 1) / np.sqrt(counts)
    return halves


def estimate_paired_difference(before: Sequence[float], now: Sequence[float]) -> ConfidenceInterval:
    """The mean of now - before, values belonging together two by two.

    >>> estimate_paired_difference([10.0, 20.0, 30.0], [11.0, 21.0, 31.0])
    ConfidenceInterval(value=1.0, low=1.0, high=1.0)
    """
    return estimate_mean(np.subtract(now, before).tolist())


def estimate_welch_difference(before: Sequence[float], now: Sequence[float]) -> ConfidenceInterval:
    """Mean of now - mean of before, of independent values with different spreads.

    Source: Welch 1947, Biometrika 34, 28; degrees of freedom by Satterthwaite 1946. Without limits where one side has
    one value. Raises: ValueError where one has none.

    >>> found = estimate_welch_difference([10.0, 11.0, 12.0], [15.0, 16.0, 17.0])
    >>> found.value, found.has_inside(0.0)
    (5.0, False)
    """
    difference = estimate_mean(now).value - estimate_mean(before).value
    if min(len(before), len(now)) < 2:
        return ConfidenceInterval(difference)
    variances = [float(np.var(values, ddof=1)) / len(values) for values in (before, now)]
    variance = sum(variances)
    if variance == 0:
        return ConfidenceInterval(difference, difference, difference)
    freedom = variance**2 / sum(p**2 / (len(v) - 1) for p, v in zip(variances, (before, now), strict=True))
    return _make_interval(difference, math.sqrt(variance), freedom)


def estimate_share_difference(before: tuple[int, int], now: tuple[int, int]) -> ConfidenceInterval:
    """Difference of two shares, each (how many, of how many).

    Source: Newcombe 1998, Statistics in Medicine 17, 873, method 10: from Wilson's intervals of both.

    >>> found = estimate_share_difference((48, 80), (56, 70))  # Newcombe's table II, line a: 0.2, 0.0524 to 0.3339
    >>> round(found.value, 4), round(found.low, 4), round(found.high, 4)
    (0.2, 0.0524, 0.3339)
    """
    (a, a_low, a_high), (b, b_low, b_high) = (_compute_wilson_limits(*counts) for counts in (before, now))
    low = b - a - math.hypot(b - b_low, a_high - a)
    high = b - a + math.hypot(b_high - b, a - a_low)
    return ConfidenceInterval(b - a, low, high)


def _compute_wilson_limits(count: int, total: int) -> tuple[float, float, float]:
    limits = binomtest(count, total).proportion_ci(LEVEL, method="wilson")
    return count / total, float(limits.low), float(limits.high)


def _make_interval(middle: float, error: float, freedom: float, comparisons: int = 1) -> ConfidenceInterval:
    half = float(student.ppf(1 - (1 - LEVEL) / 2 / comparisons, freedom)) * error
    return ConfidenceInterval(middle, middle - half, middle + half)
