"""Steps that take longer after a cause, in profiles made and worked out by hand."""

from typing import Any

import numpy as np
import pytest

from tests.trace.profiles import us, write
from tfperf.trace.attribution import read_attribution
from tfperf.trace.notes import parse_notes

NOTES = parse_notes({"own": True, "optimizers": ["adam"]})
CALLS, CALL = 25, {"tf_function_call": "notTraced-nonXla"}


def read(tmp_path, lasts, works, starts, split=False):
    """Calls of 100 us or more: `starts` (n) to be started, `works` (n) of operations, a callback of `lasts` (n)."""
    python: list[Any] = []
    main: list[Any] = []
    begin = 0.0
    for number, (callback, work, start) in enumerate(zip(lasts, works, starts, strict=True)):
        python += [("train", begin, start + work + 5, {"step_num": number}), ("step", begin, start + work + 5, CALL)]
        parts = 2 if split and work > 60 else 1
        main += [("a/A:MatMul", begin + start + part * work / parts, work / parts) for part in range(parts)]
        begin += start + work + 5
        if callback:
            python.append(("tfperf.callback:Own.on_train_batch_end", begin, callback))
        begin += callback + 20
    found = read_attribution(
        write(tmp_path / "vm.xplane.pb", {"/host:CPU": {"python": us(*python), "main": us(*main)}}), NOTES
    )
    return found.account, begin


def make(every=3, longer=12.0, noise=0.0):
    """Callbacks of 200 us after each so-manieth call; the call behind takes `longer` to be started and for its work."""
    draws = np.random.default_rng(1)
    lasts = np.where(np.arange(CALLS) % every == every - 1, 200.0, 0.0)
    after = np.append(0.0, lasts[:-1]) > 0
    works = 60 + longer * after + noise * draws.normal(size=CALLS)
    return lasts, works, 10 + longer / 2 * after


def test_what_calls_take_longer_after_a_callback_is_its_own(tmp_path):
    """Eight callbacks and calls of 18 us more behind them, in 24 periods."""
    account, _ = read(tmp_path, *make())
    (callback,) = account.list("callback")
    assert callback.slows_ms == pytest.approx(8 * 18 / 24 / 1e3, rel=0.15) and callback.ms == pytest.approx(
        8 * 218 / 24 / 1e3, rel=0.03
    )
    assert account.sum("work") == pytest.approx(60 / 1e3, rel=0.01)
    assert sum(one.slows_ms for one in account.charges) == pytest.approx(callback.slows_ms, rel=0.02)


@pytest.mark.parametrize("case", ["always", "no longer", "by chance", "too few"])
def test_nothing_is_charged_that_may_be_something_else(case, tmp_path):
    every, longer, noise = {
        "always": (1, 12, 0.0),
        "no longer": (3, 0, 0.0),
        "by chance": (3, 3, 8.0),
        "too few": (9, 12, 0.0),
    }[case]
    lasts, works, starts = make(every, longer, noise)
    account, _ = read(tmp_path, lasts, works, starts)
    (callback,) = account.list("callback")
    assert callback.slows_ms == 0 and callback.ms == pytest.approx(lasts[:-1].sum() / (CALLS - 1) / 1e3)
    assert account.sum("work") == pytest.approx(works[:-1].mean() / 1e3)


def test_the_time_is_the_same_with_and_without(tmp_path):
    lasts, works, starts = make()
    account, _ = read(tmp_path, lasts, works, starts)
    whole = (lasts[:-1] + works[:-1] + 25).sum() + starts[
        1:
    ].sum()  # from the first operation of the first call to that of the last
    assert account.period_ms == pytest.approx(whole / (CALLS - 1) / 1e3)


def test_long_batches_wait_longer_and_work_longer_and_neither_is_the_others_effect(tmp_path):
    python: list[Any] = []
    main: list[Any] = []
    begin = 0.0
    for number in range(CALLS):
        waits, works = (120, 400) if number % 3 == 2 else (10, 80)
        python += [
            ("train", begin, waits + works + 20, {"step_num": number}),
            ("step", begin, waits + works + 20, CALL),
        ]
        main += [("IteratorGetNext:IteratorGetNext", begin + 5, waits), ("a/A:MatMul", begin + 5 + waits, works)]
        begin += waits + works + 40
    path = write(tmp_path / "vm.xplane.pb", {"/host:CPU": {"python": us(*python), "main": us(*main)}})
    account = read_attribution(path, NOTES).account
    assert all(one.slows_ms == 0 for one in account.charges) and account.sum("input") < 0.06


def test_no_more_is_moved_than_calls_are_longer(tmp_path):
    """After a callback calls take 60 us more to be started, and 50 less for their work."""
    lasts = np.where(np.arange(CALLS) % 3 == 2, 200.0, 0.0)
    after = np.append(0.0, lasts[:-1]) > 0
    account, _ = read(tmp_path, lasts, np.where(after, 70.0, 120.0), np.where(after, 70.0, 10.0))
    assert sum(one.slows_ms for one in account.charges) <= 8 * 10.1 / (CALLS - 1) / 1e3


@pytest.mark.parametrize(
    "case, moved", [("the same", True), ("more operations", False), ("more than twice as long", False)]
)
def test_calls_with_other_work_are_not_slowed_by_what_comes_before(case, moved, tmp_path):
    """Each third call, behind a callback of 200 us, takes 12 us more, in one operation or two, or 80 us more."""
    lasts, works, starts = make(longer=80.0 if case == "more than twice as long" else 12.0)
    account, _ = read(tmp_path, lasts, works, starts, split=case == "more operations")
    (callback,) = account.list("callback")
    assert (callback.slows_ms > 0) == moved
