"""When steps of a card have been timed for long enough."""

import time

import pytest

from tfperf.measure.timing import TraceCounter
from tfperf.workloads.pdf.runners import make_sampler, measure_by_rule


class Ticks:
    """A form whose steps take 2 ms, the first five of them 20 ms."""

    def __init__(self, per_call):
        self.per_call, self.taken = per_call, 0

    def measure_calls(self, number):
        steps = number * self.per_call
        slow = max(0, min(5 - self.taken, steps))
        self.taken += steps
        return steps, 1e-3 * (2 * steps + 18 * slow)

    def warm_up(self):
        self.warm = True


@pytest.mark.parametrize(
    ("per_call", "warmup", "steps", "samples", "taken"),
    [(10, 10, 50, 5, 60), (10, 5, 51, 6, 70), (200, 10, 50, 5, 1200), (1, 5, 3, 5, 10), (1, 7, 30, 30, 37)],
)
def test_steps_are_timed_in_whole_calls_after_those_of_the_warm_up(per_call, warmup, steps, samples, taken):
    form = Ticks(per_call)
    # no time was spent on starting: so many steps as are asked for, and no more
    found = measure_by_rule(lambda: form, warmup, steps, 60.0, time.perf_counter() + 60)  # type: ignore[arg-type, return-value]
    assert found["samples_ms"] == pytest.approx([2.0] * samples) and found["steps"] == samples * per_call
    assert form.taken == taken and form.warm and found["timing"]["ended"] == "starting" and not found["left_out"]


def test_without_a_warm_up_the_first_steps_count():
    found = measure_by_rule(lambda: Ticks(1), 0, 10, 60.0, time.perf_counter() + 60)  # type: ignore[arg-type, return-value]
    assert found["samples_ms"] == pytest.approx([20.0] * 5 + [2.0] * 5)


def test_a_call_in_which_something_is_traced_is_known():
    import tensorflow as tf

    double = tf.function(lambda x: 2 * x)

    class Traced:
        shapes = iter((3, 3, 4, 4))

        def measure_calls(self, number):
            double(tf.ones([next(self.shapes)]))
            return 1, 1e-3

    take_sample = make_sampler(Traced(), TraceCounter())
    assert [take_sample().clean for _ in range(4)] == [False, True, False, True]
