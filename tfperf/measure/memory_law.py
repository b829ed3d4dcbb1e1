"""How much memory a batch takes: peaks of a few batches as a line, which holds for batches of one regime.

The peak of a step is the larger of two phases: the optimizer's, which a batch hardly changes, and that of the
activations, which each sample adds to. A line through points of both is wrong for either: only the largest batches
whose points lie on one line are fitted, and what they do not enclose is told from what they do.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student_t

# of a peak: points of one regime scatter by less than the first, and lie off their line by less than the second, or by
# less than so many times what they scatter by
MOST_NOISE, SETTLED, FAR_OFF = 0.06, 0.06, 2.5
# of a peak: what an allocator's rounding and the order of operations usually make of it, from process to process too,
# and for how many points this counts beside what the points themselves say, since three to six of them say little
USUAL_NOISE, USUAL_POINTS = 0.025, 6
LEVEL = 0.975
LEVEL_LINE = 1e-9  # of a peak, below which what a line adds over all its batches is rounding
STEEPER = 1.5  # times the slope of smaller batches, that makes them another phase
STRAIGHT = 0.25  # of the squares of one line, below which two lines are told from it


@dataclass(frozen=True)
class MemoryLaw:
    """`fixed + per_sample * batch` bytes, of batches from `batches[0]` on.

    batches: those that it was fitted to, of which `left_out` smaller ones were of another regime: where these grow
    less with the batch they are the optimizer's phase, whose line is `smaller` (fixed, per_sample), and the peak is the
    larger of both. noise: of a peak, as a share of it; None where there were two points, which say nothing of it.
    """

    fixed: float
    per_sample: float
    batches: tuple[int, ...]
    left_out: tuple[int, ...]
    noise: float | None
    settled: bool
    smaller: tuple[float, float] | None = None

    def predict(self, batch: float) -> float:
        """Bytes at the peak of a batch."""
        found = self.fixed + self.per_sample * batch
        if self.smaller is None:
            return found
        return max(found, self.smaller[0] + self.smaller[1] * batch)

    def predict_interval(self, batch: float) -> tuple[float, float] | None:
        """Limits that hold the peak of one more measurement with 95 %; None where two points were fitted."""
        if self.noise is None:
            return None
        points = np.array(self.batches, float)
        square = float(np.mean([self.predict(b) ** 2 for b in self.batches]))
        apart = 1 / len(points) + (batch - points.mean()) ** 2 / float(np.sum((points - points.mean()) ** 2))
        middle = self.predict(batch)
        bytes_off = self.noise * math.sqrt(middle**2 + square * apart)
        half = student_t.ppf(LEVEL, len(points) - 2 + USUAL_POINTS) * bytes_off
        return float(middle - half), float(middle + half)

    def find_batch(self, budget: float) -> int:
        """The largest batch whose peak is within so many bytes; 0 where there is none that the law speaks of."""
        if self.per_sample <= 0:
            return 0
        found = math.floor((budget - self.fixed) / self.per_sample)
        return found if found >= self.batches[0] else 0

    def list_warnings(self) -> list[str]:
        """What to know before it is used."""
        found = []
        if self.fixed < 0:
            found.append(
                f"the fixed part is below zero ({self.fixed:.4g} bytes): the points were padded otherwise or lie in "
                "another regime; nothing is said of smaller ones"
            )
        if self.noise is None:
            found.append("fitted to two points: there is no interval")
        if not self.settled:
            found.append("the peak does not grow on one line yet: what is larger may take more than this")
        return found


def fit_law(points: Sequence[tuple[int, float]]) -> MemoryLaw:
    """The law of the largest batches that lie on one line. points: batch and bytes at its peak, two at least.

    Least squares of bytes: what an allocator needs beside the tensors changes with their sizes, and the largest batches
    tell most of larger ones. Raises: ValueError for fewer than two batches.
    """
    known = sorted(dict(points).items())
    if len(known) < 2:
        raise ValueError(f"got {len(known)} batches; must be at least 2")
    first = next((first for first in range(len(known) - 2) if _are_of_one_line(known[first:])), len(known) - 2)
    first += _find_kink(known[first:])
    chosen, left_out = known[first:], known[:first]
    fixed, slope = _find_line(chosen)
    noise = _combine_noise(chosen) if len(chosen) > 2 else None
    settled = len(chosen) > 2 and slope > 0
    fitted, others = (tuple(batch for batch, _ in part) for part in (chosen, left_out))
    return MemoryLaw(fixed, slope, fitted, others, noise, settled, _fit_smaller(left_out, slope))


def _fit_smaller(points: Sequence[tuple[int, float]], slope: float) -> tuple[float, float] | None:
    """The line of smaller batches that grow less; None where there is none."""
    while points:
        fixed, own = (points[0][1], 0.0) if len(points) == 1 else _find_line(points)
        on_it = len(points) == 1 or _estimate_spread(points) <= SETTLED
        if on_it and slope > STEEPER * own:
            return fixed, own
        points = points[:-1]  # one between both phases
    return None


def _find_line(points: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """Its fixed part, and what a sample adds: none where peaks do not grow."""
    fixed, slope, *_ = *map(float, _fit_line(points).coef), 0.0  # a slope of zero is left out there
    (last, peak) = points[-1]
    return (peak, 0.0) if abs(slope) * last < LEVEL_LINE * peak else (fixed, slope)


def _fit_line(points: Sequence[tuple[int, float]]) -> np.polynomial.Polynomial:
    batches, peaks = (np.array(column, float) for column in zip(*points, strict=True))
    return np.polynomial.Polynomial.fit(batches, peaks, 1).convert()


def _estimate_noise(points: Sequence[tuple[int, float]]) -> float:
    """The standard deviation of peaks from their line, as a share of them; the larger count more."""
    apart = _sum_squares(points) / sum(peak**2 for _, peak in points)
    return math.sqrt(apart * len(points) / (len(points) - 2))


def _combine_noise(points: Sequence[tuple[int, float]]) -> float:
    """The same, pooled with what is usual."""
    own, count = _estimate_noise(points), len(points) - 2
    return math.sqrt((USUAL_POINTS * USUAL_NOISE**2 + count * own**2) / (USUAL_POINTS + count))


def _are_of_one_line(points: Sequence[tuple[int, float]]) -> bool:
    """Whether points, three at least, are near their line, as far as they scatter."""
    near = max(SETTLED, FAR_OFF * _combine_noise(points))
    return _estimate_noise(points) <= MOST_NOISE and _estimate_spread(points) <= near


def _find_kink(points: Sequence[tuple[int, float]]) -> int:
    """Where a steeper line begins that, with one through what is below it, fits much better than one line; 0: nowhere.

    Points of both phases lie near one line where the optimizer's needs nearly as much as the largest batches.
    """
    best, least = 0, STRAIGHT * _sum_squares(points)
    for first in range(2, len(points) - 2):
        below, above = points[:first], points[first:]
        found = _sum_squares(below) + _sum_squares(above)
        if found < least and _find_line(above)[1] > STEEPER * _find_line(below)[1]:
            best, least = first, found
    return best


def _sum_squares(points: Sequence[tuple[int, float]]) -> float:
    """Of deviations from their line, in square bytes."""
    line = _fit_line(points)
    return float(sum((peak - line(batch)) ** 2 for batch, peak in points))


def _estimate_spread(points: Sequence[tuple[int, float]]) -> float:
    """The largest deviation of peaks from their line, as a share of them."""
    line = _fit_line(points)
    return max(abs(float(line(batch)) / peak - 1) for batch, peak in points)
