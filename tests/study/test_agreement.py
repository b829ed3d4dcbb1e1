import math

import pytest

from tfperf.study.agreement import compare_losses

POINTS = {"training": [100, 100], "validation": [10, 0]}
EXACT = {"training": [100.0, 5000.0], "validation": [50.0, 0.0], "positivity": [0.0, 2.0], "integrability": [1.0, 3.0]}


def record(**changed):
    return {"losses": EXACT | changed, "points": POINTS}


@pytest.mark.parametrize(
    ("changed", "worst"),
    [
        ({}, 0.0),
        ({"training": [100.0, 5000.5]}, 1e-4),
        ({"validation": [49.9, 0.0]}, 2e-3),
        ({"positivity": [1e-7, 2.0]}, 1e-7),  # where the reference has none
        ({"integrability": [1.0, 3.0003]}, 1e-4),
    ],
)
def test_exact_forms_are_compared_by_the_largest_relative_difference(changed, worst):
    found = compare_losses(record(**changed), record())
    assert found["worst"] == pytest.approx(worst, rel=1e-6) and found["allowed"] == 1e-5
    assert found["agrees"] is (worst <= 1e-5)


@pytest.mark.parametrize(
    ("changed", "worst"),
    [
        ({"training": [100.05, 5000.0]}, 5e-4),  # 0.0005 a point at chi2 / N = 1
        ({"training": [100.0, 5002.0]}, 4e-4),  # 0.02 a point at chi2 / N = 50
        ({"validation": [50.3, 0.0]}, 6e-3),  # 0.03 a point at chi2 / N = 5
        ({"positivity": [0.0, 9.0]}, 0.0),  # penalties have no tolerance that could be told
    ],
)
def test_reduced_forms_may_differ_by_the_tolerance_in_each_point(changed, worst):
    found = compare_losses(record(**changed), record(), tolerance=1e-3)
    assert found["worst"] == pytest.approx(worst, rel=1e-6, abs=1e-15) and found["allowed"] == 1e-3
    assert found["agrees"] is (worst <= 1e-3)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("name", list(EXACT))
def test_what_is_no_number_never_agrees(bad, name):
    for row in (0, 1):
        values = list(EXACT[name])
        values[row] = bad
        found = compare_losses(record(**{name: values}), record())
        assert found == {"worst": None, "allowed": 1e-5, "agrees": False}
