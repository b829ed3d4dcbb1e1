"""When passes begin and end in each step, from runs made by hand."""

import numpy as np
import pytest

from tfperf.place.passes import compare_ends, find_span
from tfperf.trace.runs import OperationRuns


def runs(*rows):
    """Of (node, begin, end)."""
    node, begin, end = np.array(sorted(rows, key=lambda row: row[1]), np.int64).T
    zero = np.zeros(len(node), np.intp)
    return OperationRuns(node.astype(np.intp), begin, end, end, end, zero, zero)


BOTH = np.array([True, True, False])


def test_a_span_goes_from_the_first_to_the_last_operation_of_each_step():
    found = find_span(runs((0, 10, 20), (1, 20, 50), (2, 0, 90), (0, 110, 130), (1, 125, 160)), BOTH, 2)
    assert found is not None and [side.tolist() for side in found] == [[10, 110], [50, 160]]


def test_an_operation_in_a_loop_runs_several_times_in_each_step():
    found = find_span(runs((0, 10, 20), (0, 20, 30), (0, 110, 120), (0, 120, 135)), BOTH, 2)
    assert found is not None and [side.tolist() for side in found] == [[10, 110], [30, 135]]


def test_small_operations_are_no_begin_or_end():
    found = find_span(runs((1, 0, 1), (0, 1000, 2000), (1, 2990, 2991), (0, 3000, 4000)), BOTH, 2)
    assert found is not None and [side.tolist() for side in found] == [[1000, 3000], [2000, 4000]]


@pytest.mark.parametrize(
    "rows",
    [
        [(0, 10, 20), (0, 20, 30), (0, 110, 120)],  # three runs in two steps
        [(0, 10, 20), (1, 120, 130), (0, 25, 45), (1, 140, 150)],  # the second step begins before the first one's end
        [(2, 10, 20)],
    ],
)
def test_spans_that_are_not_known_are_none(rows):
    assert find_span(runs(*rows), BOTH, 2) is None


def spans(*devices):
    """Of (begins ms, ends ms) of each device."""
    return {f"device:{k}": tuple(1e6 * np.array(side) for side in one) for k, one in enumerate(devices)}


def test_the_end_of_a_device_is_late_by_begin_length_and_pace():
    told = compare_ends(spans(([0, 100, 200], [10, 110, 210]), ([4, 104, 204], [20, 121, 219])), [9.0, 11.0])
    late = told["device:1"]
    assert late["ends"] == pytest.approx(5.0) and late["begins"] == pytest.approx(2.0)
    assert late["length"] == pytest.approx(0.1 * (10 + 16) / 2)
    assert late["ends"] == pytest.approx(late["begins"] + late["length"] + late["pace"])
    assert told["device:0"]["ends"] == pytest.approx(-5.0) and (late["last"], late["steps"]) == (1.0, 3)
    # Student's t with two degrees of freedom, for two intervals at once
    assert late["high"] - late["ends"] == pytest.approx(6.205 * 0.5 / np.sqrt(3), rel=1e-3)


def test_one_device_is_never_late():
    assert compare_ends(spans(([0, 100], [10, 110])), [5.0]) == {}


def test_equal_devices_are_rarely_called_late():
    rng, wrong = np.random.default_rng(1), 0
    for _ in range(400):
        ends = 100 * np.arange(30) + rng.normal(50, 5, (8, 30))
        told = compare_ends(spans(*((100 * np.arange(30), end) for end in ends)), [1.0] * 8)
        wrong += max(one["low"] for one in told.values()) > 0
    assert wrong / 400 <= 0.05
