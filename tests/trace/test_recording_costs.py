"""What recording costs, taken off an account."""

from dataclasses import replace
from typing import Any

import pytest

from tests.trace.profiles import us
from tests.trace.test_account import MARK, NOTES, read


def test_what_recording_costs_comes_off_where_the_host_is_recorded(tmp_path):
    """Each event as much, 10 us and 70 % at most: of 20 us of dispatch, with three, 14, of an operation's 40 us 10."""
    call = {"tf_function_call": "notTraced-nonXla"}
    python: list[Any] = [("train", 100 * i, 90, MARK) for i in range(3)]
    for i in range(3):
        python += [("step", 100 * i, 60, call), ("TFE_Py_ExecuteCancelable", 100 * i + 52, 1)]
    main = [("a/A:MatMul", 100 * i + 10, 40) for i in range(3)]
    lines = {"python": us(*python), "main": us(*main)}
    # what is left slows all of the 76 that are left
    for recorded, dispatch, work, left in (
        (0.096, 4.5, 1.5, 0),
        (0.108, 13.5, 4.5, 0),
        (0.11, 14, 6, 0),
        (0.12, 14, 10, 6),
    ):
        notes = replace(NOTES, calls=3, recorded_ms=recorded, unrecorded_ms=0.09)
        account = read(tmp_path, notes, **lines).account
        assert account.overhead_ms == pytest.approx(recorded - 0.09)
        scale = 1 - left / 76
        assert 1e3 * account.sum("dispatch") == pytest.approx((20 - dispatch) * scale)
        assert 1e3 * account.sum("work") == pytest.approx((40 - work) * scale)
        assert 1e3 * account.overhead_left_ms == pytest.approx(left)


def test_where_steps_wait_for_input_recording_costs_the_difference_of_means(tmp_path):
    """Of 100 us from call to call the first has 60 of waiting, or an operation for so long."""
    python: list[Any] = [("train", 100 * i, 95, MARK) for i in range(3)]
    notes = replace(NOTES, recorded_ms=0.05, unrecorded_ms=0.05, recorded_mean_ms=0.1, unrecorded_mean_ms=0.09, calls=3)
    for name, off in (("IteratorGetNext:IteratorGetNext", 10), ("a/B:MatMul", 0)):
        main = [row for i in range(3) for row in ((name, 100 * i, 60), ("a/A:MatMul", 100 * i + 60, 30))]
        account = read(tmp_path, notes, python=us(*python), main=us(*main)).account
        assert 1e3 * (account.overhead_ms or 0.0) == pytest.approx(off)
