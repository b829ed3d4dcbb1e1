"""The break-even beside a clock that is let run epoch by epoch, both ways."""

import random

import pytest

from tfperf.inputs.break_even import find_break_even


def count_epochs(preparation, now, stored, most=10_000):
    """The first whole epoch at whose end the stored way is no later; None: not within `most`."""
    return next((n for n in range(most) if preparation + n * stored <= n * now), None)


@pytest.mark.parametrize("seed", range(20))
def test_it_is_where_two_clocks_meet(seed):
    draw = random.Random(seed)
    now, stored = (draw.uniform(0.1, 10) for _ in range(2))
    found = find_break_even(30.0, now, stored)
    truth = count_epochs(30.0, now, stored)
    assert (found is None) == (truth is None)
    assert found is None or truth - 1 < found <= truth + 1e-9


def test_what_costs_nothing_pays_at_once_and_what_gains_nothing_never():
    assert find_break_even(0.0, 2.0, 1.0) == 0.0
    assert find_break_even(1.0, 1.0, 1.0) is None


@pytest.mark.parametrize("times", [(-1.0, 1.0, 1.0), (1.0, -1.0, 1.0), (1.0, 1.0, -1.0)])
def test_times_below_zero_are_refused(times):
    with pytest.raises(ValueError, match="at least 0"):
        find_break_even(*times)
