"""How long a step takes alone, of machines that are quiet and of others."""

import pytest

from tests.report.input_records import make_found
from tfperf.inputs.bound import estimate_step_seconds


@pytest.mark.parametrize(
    ("model", "spread", "seconds"),
    [
        (10.0, 0.02, 0.1 / 1.02),  # one thread of two cores: the interval says that it is no faster
        (10.0, 0.9, 0.1 / 1.9),  # not known: its share of the CPU time, which is less than the interval allows
        (10.0, 1.5, 0.05),
        (25.0, 0.02, 0.04),  # as measured, though CPU time would say more
    ],
)
def test_a_disturbed_step_takes_what_its_cpu_time_says_within_its_interval(model, spread, seconds):
    # both: 0.2 CPU-s of a step and its batch in 0.1 s on two cores, half of it the step's
    found = make_found(model, 20.0, 10.0, {}, (0.1, 0.1, 0.2), spread)
    assert estimate_step_seconds(found, 2.0) == pytest.approx(seconds)


def test_where_cores_are_free_a_step_takes_what_was_measured():
    found = make_found(10.0, 20.0, 10.0, {}, (0.1, 0.1, 0.2), 0.9)
    assert estimate_step_seconds(found, 4.0) == pytest.approx(0.1)
