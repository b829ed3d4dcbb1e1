"""How long a prediction still takes: intervals that hold the truth as often as they say, in runs that are played."""

import math

import numpy as np
import pytest

from tfperf.infer.time_left import CostSample, RateLog, estimate_time_left
from tfperf.measure.confidence import ConfidenceInterval

GROUPS, EACH = 64, 8


def play(seed, drift):
    """The estimate at 5 % of the way, and the truth. drift: how many times as long the last records are."""
    draws = np.random.default_rng(seed)
    records = 40_000
    costs = draws.lognormal(0.0, 0.6, records) * np.linspace(1.0, drift, records)
    first = draws.choice(records - EACH, GROUPS, replace=False)
    sample = CostSample(tuple(float(costs[one : one + EACH].mean()) for one in first))
    speed = draws.lognormal(math.log(100.0), 0.1, records // 20)  # of each batch of 20
    seconds = costs.reshape(-1, 20).sum(1) / speed
    done = records // 400  # batches, a twentieth of all
    log, now = RateLog(), 0.0
    for cost, spent in zip(costs.reshape(-1, 20).sum(1)[:done], seconds[:done], strict=True):
        now += float(spent)
        log.add(now, float(cost))
    left = records - 20 * done
    return estimate_time_left(log.estimate_rate(now), 0.0, left, sample.estimate_mean()), float(seconds[done:].sum())


@pytest.mark.parametrize("drift", [1.0, 3.0])
def test_intervals_are_narrow_and_hold_the_truth(drift):
    found = [play(seed, drift) for seed in range(60)]
    held = [left.low is not None and left.high is not None and left.low <= truth <= left.high for left, truth in found]
    assert np.mean(held) >= 0.9
    assert np.median([((left.high or np.inf) - (left.low or 0.0)) / 2 / left.value for left, _ in found]) <= 0.25


def test_what_is_known_needs_no_sample():
    rate = ConfidenceInterval(10.0, 9.9, 10.1)
    found = estimate_time_left(rate, 100.0, 0, ConfidenceInterval(1.0))
    assert found.low is not None and found.high is not None
    assert found.value == 10.0 and 9.5 < found.low < 10.0 < found.high < 10.5
    assert estimate_time_left(rate, 0.0, 0, ConfidenceInterval(1.0)).value == 0.0
    assert estimate_time_left(ConfidenceInterval(10.0), 100.0, 0, ConfidenceInterval(1.0)).low is None


def test_few_batches_tell_no_interval():
    log = RateLog()
    with pytest.raises(ValueError, match="nothing was computed"):
        log.estimate_rate(1.0)
    log.add(0.5, 10.0)
    assert log.estimate_rate(2.0) == ConfidenceInterval(5.0)
