"""Intervals against scipy's, published examples, and what an interval promises."""

import math

import numpy as np
import pytest
from scipy.stats import ttest_ind, ttest_rel

from tfperf.study.intervals import Interval, mean, paired, share, welch

A, B = [1.0, 1.3, 0.9, 1.1], [1.9, 1.2, 1.6]


def test_means_are_those_of_students_t():
    # 4.303: 97.5 % of Student's t with 2 degrees of freedom
    half = 4.302652729696142 * np.std(B, ddof=1) / math.sqrt(3)
    assert mean(B) == Interval(*(pytest.approx(np.mean(B) + sign * half) for sign in (0, -1, 1)))
    assert mean(B).half == pytest.approx(half)


def test_one_value_has_no_interval_and_none_no_mean():
    assert mean([2.0]) == Interval(2.0) and mean([2.0]).half is None
    assert welch([1.0], B) == Interval(pytest.approx(np.mean(B) - 1))
    with pytest.raises(ValueError, match="no values"):
        welch([], B)


def test_differences_are_those_of_scipy():
    want = ttest_ind(B, A, equal_var=False).confidence_interval(0.95)
    assert welch(A, B) == Interval(pytest.approx(np.mean(B) - np.mean(A)), *map(pytest.approx, want))
    want = ttest_rel(B, A[:3]).confidence_interval(0.95)
    assert paired(A[:3], B) == Interval(pytest.approx(np.mean(B) - np.mean(A[:3])), *map(pytest.approx, want))


def test_values_without_spread_differ_by_exactly_that():
    assert welch([1.0, 1.0], [3.0, 3.0]) == Interval(2.0, 2.0, 2.0)
    assert paired([1.0, 2.0], [1.0, 2.0]) == Interval(0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("first", "second", "low", "high"),
    [((56, 70), (48, 80), 0.0524, 0.3339), ((9, 10), (3, 10), 0.1705, 0.8090), ((5, 56), (0, 29), -0.0381, 0.1926)],
)
def test_shares_are_those_of_the_paper(first, second, low, high):
    """Newcombe 1998, table II, method 10, contrasts (a), (b) and (d)."""
    found = share(second, first)
    assert (found.low, found.high) == (pytest.approx(low, abs=5e-5), pytest.approx(high, abs=5e-5))
    assert found.value == pytest.approx(first[0] / first[1] - second[0] / second[1])


def test_nineteen_of_twenty_intervals_hold_the_truth():
    rng, tests = np.random.default_rng(1), 2000
    found = [welch(rng.normal(1, 1, 3).tolist(), rng.normal(2, 0.2, 4).tolist()) for _ in range(tests)]
    share_right = np.mean([f.low <= 1 <= f.high for f in found])
    # Satterthwaite's degrees of freedom are approximate for so few values; four standard errors beside
    assert abs(share_right - 0.95) < 0.01 + 4 * math.sqrt(0.05 * 0.95 / tests)


def test_a_ratio_has_the_limits_of_its_logarithm():
    assert Interval(0.0, -math.log(2), math.log(4)).exponential() == Interval(1.0, 0.5, pytest.approx(4.0))
    assert Interval(0.0).exponential() == Interval(1.0)
