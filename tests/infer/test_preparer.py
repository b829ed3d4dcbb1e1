"""A window is prepared whole, or record by record where one of them does not fit: the others keep their values."""

import os
import signal
import time

import numpy as np
import pytest

from tests.infer.programs import make_preparer
from tfperf.infer.prepared import RaggedColumn, join_column
from tfperf.infer.preparer import prepare_window
from tfperf.infer.preparer_watch import PreparerWatch


def prepare(columns, function=lambda columns: columns):
    count = len(next(iter(columns.values())))
    return prepare_window(0, columns, np.arange(count), function)


def messages(window):
    return {one.number: one.message for one in window.failures}


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([1, None, 3], "a value is missing (null)"),
        ([[1, 2], None, [3]], "a value is missing (null)"),
        ([[1, 2], [3, None], [3]], "a value is list of unequal or odd values"),
        (
            ["a", b"\xff", "c"],
            "values: bytes that are no UTF-8 of shape (), where other records have texts of shape ()",
        ),
        (
            [np.zeros((4, 2)), np.zeros((4, 3)), np.zeros((5, 2))],
            "values: numbers of shape (n, 3), where other records",
        ),
        ([1.5, "x", 2.5], "values: texts of shape (), where other records have numbers"),
        ([[1], 2, [3]], "values: numbers of shape (), where other records have numbers of shape (n,)"),
    ],
)
def test_one_odd_value_is_its_own_failure(values, told):
    window = prepare({"values": values})
    assert list(messages(window)) == [1] and told in messages(window)[1]
    good = window.take([0, 2])["values"]
    np.testing.assert_array_equal(good.flat if isinstance(good, RaggedColumn) else good, np.concatenate(
        [np.atleast_1d(values[0]), np.atleast_1d(values[2])]))  # fmt: skip


def test_the_first_one_may_be_odd():
    window = prepare({"values": [np.zeros((2, 1)), *[np.zeros((2, 3))] * 5]})
    assert list(messages(window)) == [0]


def test_empty_lists_leave_whole_numbers_whole():
    window = prepare({"values": [[1, 2], [], [2**53 + 1]]})
    column = window.columns["values"]
    assert not window.failures and column.flat.dtype == np.int64 and column.flat[-1] == 2**53 + 1
    odd = prepare({"values": [[], [1], None, [2]]}).take([0, 1, 3])["values"]
    assert odd.flat.dtype == np.int64 and odd.lengths.tolist() == [0, 1, 1]


def test_a_dense_column_stays_dense_beside_a_failure():
    def function(columns):
        if (columns["x"] < 0).any():
            raise ValueError("below zero")
        return {"x": np.stack([columns["x"]] * 7, 1)}

    window = prepare({"x": np.array([1.0, -1.0, 2.0])}, function)
    assert messages(window) == {1: "ValueError: below zero"}
    assert window.columns["x"].shape == (3, 7) and window.lengths.tolist() == [1, 1, 1]


def test_several_values_for_one_record_are_refused():
    window = prepare({"x": [1.0, 2.0]}, lambda columns: {"x": [*columns["x"], 0.0]})
    assert messages(window) == {0: "ValueError: 2 values of 1 records", 1: "ValueError: 2 values of 1 records"}
    assert window.columns == {}


def test_records_with_other_names_are_told():
    def function(columns):
        assert len(columns["x"]) == 1
        return {"y" if columns["x"][0] == 2 else "x": columns["x"]}

    assert messages(prepare({"x": [1, 2, 3]}, function)) == {1: "has y, where other records have x"}


def test_values_that_are_none_are_refused():
    for values in ([None], [{}], [object()]):
        with pytest.raises(ValueError, match="must be numbers or texts"):
            join_column(values)


def test_a_preparer_that_is_killed_while_it_has_nothing_to_do_is_begun_again():
    watch = PreparerWatch(make_preparer(100, 20), 20.0, time.monotonic)

    def wait_for_one():
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if watch.wait(0.2) and (found := list(watch.receive())):
                return found[0]
        raise AssertionError("nothing came")

    try:
        watch.request(0)
        assert wait_for_one().window == 0
        assert watch._process is not None
        os.kill(watch._process.process_id, signal.SIGKILL)
        assert watch.wait(20.0) and list(watch.receive()) == []
        watch.request(3)
        assert wait_for_one().ids[0] == 600
    finally:
        watch.stop()
