from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tfperf.trace.intervals import NOTHING, Intervals, merge_intervals

SPAN = 40
times = st.integers(0, SPAN)
some = st.lists(st.tuples(times, times), max_size=12)


def grid(pairs):
    """Which unit steps are covered, the slow way."""
    out = np.zeros(SPAN, bool)
    for begin, end in pairs:
        out[begin:end] = True
    return out


def make(pairs):
    begin, end = np.array(pairs, np.int64).reshape(-1, 2).T
    return merge_intervals(begin, end)


def to_grid(intervals):
    return grid(zip(intervals.begin, intervals.end, strict=True))


def is_canonical(intervals):
    return (intervals.begin < intervals.end).all() and (intervals.end[:-1] < intervals.begin[1:]).all()


@given(some)
def test_union_covers_what_its_parts_cover(pairs):
    found = make(pairs)
    assert is_canonical(found) and found.length == grid(pairs).sum()
    np.testing.assert_array_equal(to_grid(found), grid(pairs))


@given(some, some)
def test_common_is_covered_by_both(one, other):
    found = make(one).intersect(make(other))
    assert is_canonical(found)
    np.testing.assert_array_equal(to_grid(found), grid(one) & grid(other))


@given(some, times, times)
def test_gaps_and_the_clipped_rest_make_up_the_range(pairs, begin, end):
    begin, end = min(begin, end), max(begin, end)
    free, inside = make(pairs).find_gaps(begin, end), make(pairs).clip(begin, end)
    assert is_canonical(free) and is_canonical(inside)
    np.testing.assert_array_equal(to_grid(free), grid([(begin, end)]) & ~grid(pairs))
    np.testing.assert_array_equal(to_grid(inside), grid([(begin, end)]) & grid(pairs))


@given(some, st.lists(times, min_size=2, max_size=6))
def test_covered_length_between_cuts(pairs, cuts):
    cuts = np.sort(np.array(cuts, np.int64))
    want = [grid(pairs)[a:b].sum() for a, b in pairwise(cuts)]
    np.testing.assert_array_equal(make(pairs).sum_lengths(cuts), want)


def test_intervals_that_touch_are_one():
    assert len(make([(0, 3), (3, 5)])) == 1 and len(make([(0, 3), (4, 5)])) == 2
    assert len(make([(2, 2)])) == 0 == NOTHING.length
    assert isinstance(make([]), Intervals)
