"""Rows that did the same work weighed against each other: which of them may be the fastest. K rows, R repeats."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student

from tfperf.arrays import BoolMask, Float64Array, Indices
from tfperf.measure.confidence import LEVEL, ConfidenceInterval


@dataclass(frozen=True)
class Standing:
    """A row's rate over that of the row `beside` (its number); `ratio` from `repeats` that both have."""

    beside: int
    ratio: ConfidenceInterval
    repeats: int


def compare_with_best(rates: Sequence[Mapping[int, float]]) -> list[Standing | None]:
    """Each row beside the fastest, or beside one that chance alone cannot make faster; None: they share no repeat.

    rates (K): positive, by repeat. Fastest is the highest mean of those that no other is faster than. Each limit is
    that of one of K - 1 comparisons which hold together with 95 % probability, so that a row which is as fast as any
    is found slower than some other in 5 % of all cases at most, however many rows there are.
    Source: Bonferroni's inequality; Hsu 1981, Annals of Statistics 9, 1026, on comparisons with the best.
    """
    logs = _stack_logarithms(rates)
    means, several = np.nanmean(logs, axis=1), (~np.isnan(logs)).sum(axis=1) > 1
    level = 1 - (1 - LEVEL) / max(1, int(several.sum()) - 1)
    beaten = np.array([_compute_limits(row - logs, level)[1] < 0 for row in logs])  # (K, K): by whom
    unbeaten = several & ~beaten.any(axis=1)
    fastest = _find_highest(means, unbeaten if unbeaten.any() else np.ones(len(logs), bool))
    out = []
    for row, by in zip(logs, beaten, strict=True):
        beside = _find_highest(means, by) if by.any() and not by[fastest] else fastest
        out.append(_make_standing(row - logs[beside], beside, level))
    return out


def _find_highest(means: Float64Array, some: BoolMask) -> int:
    return int(np.argmax(np.where(some, means, -np.inf)))


def _stack_logarithms(rates: Sequence[Mapping[int, float]]) -> Float64Array:
    """Logarithms (K, R), nan where a row lacks a repeat."""
    repeats = sorted({repeat for one in rates for repeat in one})
    return np.array([[math.log(one[r]) if r in one else math.nan for r in repeats] for one in rates])


def _make_standing(differences: Float64Array, beside: int, level: float) -> Standing | None:
    low, high, counts = _compute_limits(differences[None], level)
    if counts[0] == 0:
        return None
    middle = float(np.nanmean(differences))
    known = ConfidenceInterval(middle, float(low[0]), float(high[0])) if counts[0] > 1 else ConfidenceInterval(middle)
    return Standing(beside, known.exponentiate(), int(counts[0]))


def _compute_limits(differences: Float64Array, level: float) -> tuple[Float64Array, Float64Array, Indices]:
    """Student's limits of the means of rows (K, R), nan where there are less than two values; their counts (K)."""
    there = ~np.isnan(differences)
    counts = there.sum(axis=1)
    middle = np.where(there, differences, 0).sum(axis=1) / np.maximum(counts, 1)
    squares = np.where(there, differences - middle[:, None], 0) ** 2
    freedom = np.where(counts > 1, counts - 1, np.nan)
    half = student.ppf((1 + level) / 2, freedom) * np.sqrt(squares.sum(axis=1) / freedom / np.maximum(counts, 1))
    return middle - half, middle + half, counts
