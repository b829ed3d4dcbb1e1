"""Whether trials became slower or faster as a sweep went on, whatever their points."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student

from tfperf.arrays import Float64Array, Indices
from tfperf.measure.confidence import LEVEL, ConfidenceInterval
from tfperf.study.finished_trials import FinishedTrial, make_point_key

MOST_COMMON = 0.9  # of neighbours: of more, trials could not tell any slope


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


def estimate_drift(ended: Sequence[FinishedTrial]) -> Drift | None:
    """Of trials in the order in which they ended; None where there are too few repeats to tell.

    A straight line through the logarithms of the times over the trials' places, each point with a level of its own.
    Source: analysis of covariance with one common slope, Scheffe 1959, chapter 6. What lasts from one trial to the next
    and goes by is no drift: errors count as larger by what they have in common with those before.
    """
    times, places, names = [], [], []
    for place, trial in enumerate(ended):
        if trial.ms is not None:
            times.append(trial.ms)
            places.append(place / max(len(ended) - 1, 1))
            names.append(make_point_key(trial.values))
    _, group = np.unique(names, return_inverse=True) if names else (0, np.zeros(0, np.intp))
    y, x = (_subtract_means(np.array(values, float), group) for values in (np.log(times), places))
    freedom, spread = len(y) - len(set(names)) - 1, float(x @ x)
    if freedom < 1 or spread < 1e-12:
        return None
    slope = float(x @ y) / spread
    rest = y - slope * x
    error = float(np.sqrt((rest**2).sum() / freedom / spread)) * _estimate_inflation(rest, freedom)
    half = float(student.ppf((1 + LEVEL) / 2, freedom)) * error
    found = ConfidenceInterval(slope, slope - half, slope + half).exponentiate()
    return None if found.low is None or found.high is None else Drift(found.value, found.low, found.high, len(y))


def _estimate_inflation(rest: Float64Array, freedom: int) -> float:
    """By how much an error of a slope is larger where residuals, in order, follow those before them: AR(1), at least 1.

    Levels of points, taken away, take as large a share of it as of the degrees of freedom.
    Source: Bartlett 1935, Journal of the Royal Statistical Society 98, 536.
    """
    whole = float(rest @ rest)
    common = float(rest[:-1] @ rest[1:]) / whole * len(rest) / freedom if whole else 0.0
    common = min(max(common, 0.0), MOST_COMMON)
    return float(np.sqrt((1 + common) / (1 - common)))


def _subtract_means(values: Float64Array, group: Indices) -> Float64Array:
    """Each value less the mean of its group."""
    if not len(values):
        return values
    return values - (np.bincount(group, values) / np.bincount(group))[group]
