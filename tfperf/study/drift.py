"""Whether trials became slower or faster as a sweep went on, whatever their points."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from tfperf.study.intervals import LEVEL, Interval
from tfperf.study.rows import Row, point_key


@dataclass(frozen=True)
class Drift:
    """Time of a step in the last trial of a sweep over that in the first, for the same point.

    value, low, high: of the ratio, with the limits of its 95 % interval; trials: that it is drawn from.
    """

    value: float
    low: float
    high: float
    trials: int

    @property
    def seen(self) -> bool:
        """Whether chance alone would not do it."""
        return not self.low <= 1 <= self.high


def drift(ended: Sequence[Row]) -> Drift | None:
    """Of trials in the order in which they ended; None where there are too few repeats to tell.

    A straight line through the logarithms of the times over the trials' places, each point with a level of its own.
    Source: analysis of covariance with one common slope, Scheffe 1959, chapter 6.
    """
    times, places, names = [], [], []
    for place, row in enumerate(ended):
        if row.ms is not None:
            times.append(row.ms)
            places.append(place / max(len(ended) - 1, 1))
            names.append(point_key(row.values))
    _, group = np.unique(names, return_inverse=True) if names else (0, np.zeros(0, np.intp))
    y, x = (_without_means(np.array(values, float), group) for values in (np.log(times), places))
    freedom, spread = len(y) - len(set(names)) - 1, float(x @ x)
    if freedom < 1 or spread < 1e-12:
        return None
    slope = float(x @ y) / spread
    error = float(np.sqrt(((y - slope * x) ** 2).sum() / freedom / spread))
    half = float(student.ppf((1 + LEVEL) / 2, freedom)) * error
    found = Interval(slope, slope - half, slope + half).exponential()
    return None if found.low is None or found.high is None else Drift(found.value, found.low, found.high, len(y))


def _without_means(values: NDArray[np.float64], group: NDArray[np.intp]) -> NDArray[np.float64]:
    """Each value less the mean of its group."""
    if not len(values):
        return values
    return values - (np.bincount(group, values) / np.bincount(group))[group]
