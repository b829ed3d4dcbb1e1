"""Intervals against scipy's, published examples, and what an interval promises."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import t as student
from scipy.stats import ttest_ind, ttest_rel, wilcoxon

from tfperf.measure.confidence import (
    ConfidenceInterval,
    estimate_geometric_mean,
    estimate_mean,
    estimate_median,
    estimate_middle_ratio,
    estimate_paired_difference,
    estimate_pseudomedian,
    estimate_repeats,
    estimate_share_difference,
    estimate_welch_difference,
)

approx: Any = pytest.approx  # stands in records for a number
A, B = [1.0, 1.3, 0.9, 1.1], [1.9, 1.2, 1.6]


def get_limits(found):
    assert found.low is not None and found.high is not None
    return found.low, found.high


def test_means_are_those_of_students_t():
    # 4.303: 97.5 % of Student's t with 2 degrees of freedom
    half = 4.302652729696142 * np.std(B, ddof=1) / math.sqrt(3)
    assert estimate_mean(B) == ConfidenceInterval(*(approx(np.mean(B) + sign * half) for sign in (0, -1, 1)))
    assert estimate_mean(B).half == approx(half)


def test_one_value_has_no_interval_and_none_no_mean():
    assert estimate_mean([2.0]) == ConfidenceInterval(2.0) and estimate_mean([2.0]).half is None
    assert estimate_welch_difference([1.0], B) == ConfidenceInterval(approx(np.mean(B) - 1))
    with pytest.raises(ValueError, match="no values"):
        estimate_welch_difference([], B)


def test_differences_are_those_of_scipy():
    want = ttest_ind(B, A, equal_var=False).confidence_interval(0.95)
    means = np.mean(A), np.mean(A[:3]), np.mean(B)
    assert estimate_welch_difference(A, B) == ConfidenceInterval(*map(approx, (means[2] - means[0], *want)))
    want = ttest_rel(B, A[:3]).confidence_interval(0.95)
    assert estimate_paired_difference(A[:3], B) == ConfidenceInterval(*map(approx, (means[2] - means[1], *want)))


def test_values_without_spread_differ_by_exactly_that():
    assert estimate_welch_difference([1.0, 1.0], [3.0, 3.0]) == ConfidenceInterval(2.0, 2.0, 2.0)
    assert estimate_paired_difference([1.0, 2.0], [1.0, 2.0]) == ConfidenceInterval(0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("first", "second", "low", "high"),
    [((56, 70), (48, 80), 0.0524, 0.3339), ((9, 10), (3, 10), 0.1705, 0.8090), ((5, 56), (0, 29), -0.0381, 0.1926)],
)
def test_shares_are_those_of_the_paper(first, second, low, high):
    """Newcombe 1998, table II, method 10, contrasts (a), (b) and (d)."""
    found = estimate_share_difference(second, first)
    assert (found.low, found.high) == (approx(low, abs=5e-5), approx(high, abs=5e-5))
    assert found.value == approx(first[0] / first[1] - second[0] / second[1])


def test_nineteen_of_twenty_intervals_hold_the_truth():
    rng, tests = np.random.default_rng(1), 2000
    draws = [(rng.normal(1, 1, 3).tolist(), rng.normal(2, 0.2, 4).tolist()) for _ in range(tests)]
    found = [estimate_welch_difference(*pair) for pair in draws]
    share_right = np.mean([low <= 1 <= high for low, high in map(get_limits, found)])
    # Satterthwaite's degrees of freedom are approximate for so few values; four standard errors beside
    assert abs(share_right - 0.95) < 0.01 + 4 * math.sqrt(0.05 * 0.95 / tests)


@pytest.mark.parametrize("count", [6, 9, 20, 101])
def test_the_medians_interval_holds_it_as_often_as_it_says(count):
    rng, tests = np.random.default_rng(count), 4000
    draws = rng.exponential(size=(tests, count))
    found = [estimate_median(row) for row in draws]
    assert found[0].value == np.median(draws[0]) and found[0].low in draws[0] and found[0].high in draws[0]
    share_right = np.mean([low <= math.log(2) <= high for low, high in map(get_limits, found)])
    # order statistics promise 95 % at least, and a step of the binomial more at most
    assert 0.95 - 4 * math.sqrt(0.05 * 0.95 / tests) < share_right < 0.985
    assert estimate_median(draws[0][:5]).low is None


@pytest.mark.parametrize("count", [6, 7, 12, 20])
def test_the_pseudomedians_limits_are_where_the_signed_rank_test_begins_to_reject(count):
    values = np.random.default_rng(count).normal(size=count)
    low, high = get_limits(estimate_pseudomedian(values.tolist()))
    for limit, out in ((low, -1), (high, 1)):
        inside, outside = (wilcoxon(values - limit - step, method="exact").pvalue for step in (-1e-9 * out, 1e-9 * out))
        assert outside <= 0.05 < inside or (count == 6 and outside == 0.03125)
    assert estimate_pseudomedian(values[:5].tolist()).low is None
    means = [(one + other) / 2 for k, one in enumerate(values) for other in values[k:]]
    assert estimate_pseudomedian(values.tolist()).value == approx(np.median(means))
    with pytest.raises(ValueError, match="no values"):
        estimate_pseudomedian([])


def test_the_pseudomedian_of_very_many_values_takes_no_longer():
    values = np.random.default_rng(0).normal(3.0, size=20_000)
    found = estimate_pseudomedian(values.tolist())
    low, high = get_limits(found)
    # as sure as the mean, whose error is 1 / sqrt(20000), within some percent
    assert low < 3.0 < high and high - low == approx(2 * 1.96 / math.sqrt(len(values)), rel=0.2)


def test_one_block_that_stood_still_hardly_moves_a_middle_ratio():
    rates = [2.0, 2.1, 1.9, 2.05, 1.95, 2.02, 1.98, 2.0, 2.0, 2.1, 1.9, 2.0]
    found = estimate_middle_ratio([*rates, 0.1])
    assert found.value == approx(2.0, rel=0.01) and found.is_within(0.05)
    assert not estimate_geometric_mean([*rates, 0.1]).is_within(0.2)


def test_positive_figures_have_positive_limits():
    found = estimate_geometric_mean([1.0, 10.0, 100.0])
    assert found.value == approx(10.0) and 0 < get_limits(found)[0] < 1
    assert get_limits(estimate_mean([1.0, 10.0, 100.0]))[0] < 0
    want = np.exp(math.log(10) - 4.302652729696142 * math.log(10) / math.sqrt(3))
    assert found.low == approx(want)
    assert estimate_geometric_mean([1e-300, 1e300]) == ConfidenceInterval(approx(1.0)), "limits beyond numbers are none"


def test_repeats_that_would_make_an_interval_narrow():
    logs = [0.0, 0.1, 0.05, 0.02]
    needed = estimate_repeats(logs, 0.1)
    assert needed is not None
    scale = np.std(logs, ddof=1) * math.sqrt(3 / 2.3659738843753377)  # the median of chi2 with 3 degrees of freedom
    widths = [2 * math.sinh(student.ppf(0.975, n - 1) * scale / math.sqrt(n)) for n in (needed - 1, needed)]
    assert widths[0] > 0.1 >= widths[1]
    assert [estimate_repeats(few, 0.1) for few in ([0.0], [0.0, 0.0], [0, 50])] == [None, 2, None]


@pytest.mark.parametrize("count", [2, 3, 5, 10])
def test_the_repeats_that_are_said_are_enough_in_half_of_all_cases(count):
    rng, tests, enough = np.random.default_rng(count), 400, 0
    for _ in range(tests):
        needed = estimate_repeats((0.1 * rng.normal(size=count)).tolist(), 0.1)
        found = estimate_mean((0.1 * rng.normal(size=needed)).tolist()).exponentiate()
        low, high = get_limits(found)
        enough += high - low <= 0.1 * found.value
    # 37 % from two values and 44 % from three without regard to how often few values scatter too little
    assert abs(enough / tests - 0.5) < 0.06 + 3 * math.sqrt(0.25 / tests)


def test_a_ratio_has_the_limits_of_its_logarithm():
    assert ConfidenceInterval(0.0, -math.log(2), math.log(4)).exponentiate() == ConfidenceInterval(
        1.0, 0.5, approx(4.0)
    )
    assert ConfidenceInterval(0.0).exponentiate() == ConfidenceInterval(1.0)
