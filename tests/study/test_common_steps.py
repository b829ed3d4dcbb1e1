"""Times of trials over the same steps."""

import pytest

from tfperf.study.common_steps import compute_common_times


def make_record(per_call, first, samples, left_out=0):
    middle = {"ms_per_step": {"median": 7.0}, "samples": len(samples), "samples_ms": samples}
    return middle | {"first_step": first, "steps_per_call": per_call, "left_out": left_out}


def time_epochs(per_call, first, count, epoch=10, step=1.0, end=20.0):
    """Samples of a training whose epochs end after ten steps, which takes a while; ms a step."""
    samples = []
    for number in range(count):
        steps = range(first + number * per_call, first + (number + 1) * per_call)
        samples.append(step + end * sum(1 for one in steps if (one + 1) % epoch == 0) / per_call)
    return make_record(per_call, first, samples)


def test_ends_of_epochs_count_alike_in_calls_of_one_step_and_of_a_whole_epoch():
    """Their medians are 1 and 3 ms."""
    short, long = time_epochs(1, 13, 95), time_epochs(10, 20, 40)
    assert compute_common_times(short, long) == pytest.approx((3.0, 3.0))
    assert compute_common_times(long, short) == pytest.approx((3.0, 3.0))


def test_only_steps_that_both_have_timed_count():
    """One of them came to the end of an epoch that the other did not see."""
    short, long = time_epochs(1, 0, 40, epoch=50), time_epochs(16, 0, 10, epoch=50)
    assert compute_common_times(short, long) == pytest.approx((1.0, 1.0))


def test_calls_whose_ends_are_not_the_same_lose_no_more_than_the_shorter_ones_at_the_borders():
    """Calls of 4 begin at 12, 16, ..., those of 11 at 11, 22, 33."""
    short = make_record(4, 8, [9.0, *[1.0] * 8, 9.0])
    long = make_record(11, 11, [2.0, 3.0, 4.0])
    assert compute_common_times(short, long) == pytest.approx((1.0, 3.0))


@pytest.mark.parametrize(
    "other",
    [
        make_record(1, 0, [1.0, 1.0], left_out=1), make_record(1, 90, [1.0]),
        {"ms_per_step": {"median": 7.0}, "samples": 1, "samples_ms": [7.0], "steps_per_call": 1, "left_out": 0},
    ],
)  # fmt: skip
def test_without_common_steps_medians_are_compared(other):
    assert compute_common_times(make_record(1, 0, [1.0] * 10), other) == (7.0, 7.0)
