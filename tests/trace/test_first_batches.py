"""Waits for the first batch of an epoch, for which a shuffle buffer is filled, in profiles made by hand."""

from typing import Any

import pytest

from tests.trace.profiles import us, write
from tests.trace.test_findings import CALL, MARK, find
from tfperf.trace.attribution import read_attribution
from tfperf.trace.findings import list_findings
from tfperf.trace.host_events import FIRST_BATCH
from tfperf.trace.notes import parse_notes
from tfperf.trace.rules.waits import FEED, FILLED


def list_steps(first: float, steps: int = 8, at: int = 0) -> tuple[list[Any], list[Any], float]:
    """Twenty-five steps in epochs of so many, of which that one waits so many ms, the others one; and when they end."""
    python: list[Any] = []
    main: list[Any] = []
    begin = 0.0
    for number in range(25):
        wait = 1000.0 * (first if number % steps == at else 1)
        python += [("train", begin, wait + 2000, MARK), ("step", begin, wait + 2000, CALL),
                   ("Iterator::Root", begin + 50, wait - 50)]  # fmt: skip
        main += [("dense/A:MatMul", begin + wait, 2000)]
        begin += wait + 2000
        if number % steps == steps - 1:  # a callback evaluates something
            python += [("tfperf.epoch", begin, 10), ("evaluate", begin + 2, 5, CALL)]
        begin += 20
    return python, main, begin


@pytest.mark.parametrize("path, first, steps, at, told", [
    ("Shuffle::Map", 20, 8, 0, True), ("Batch::Shuffle", 20, 8, 0, True), ("ShuffleAndRepeat::Map", 20, 8, 0, True),
    ("Shuffle::Map", 20, 8, 4, True),  # of a dataset that repeats itself within an epoch of Keras
    ("Shuffle::Map", 20, 3, 0, False),  # a third of all steps
    ("Shuffle::Map", 3, 8, 0, False), ("Map::ShuffledFiles", 20, 8, 0, False), ("Map", 20, 8, 0, False),
])  # fmt: skip
def test_a_buffer_that_is_filled_in_each_epoch_is_to_be_smaller(path, first, steps, at, told, tmp_path):
    python, main, end = list_steps(first, steps, at)
    ahead = {"tf_data_private_threadpool/1": [(f"Iterator::Root::Prefetch::{path}", 0, end)]}
    (one,) = [one for one in find(tmp_path, python, main, "keras", lines=ahead) if one.rule == "input"]
    assert one.change == (FILLED if told else FEED) and ("most of it 3 times in 24 steps" in one.what) == told
    if told:
        assert one.gain_ms == pytest.approx(3 * 19.95 / 24)  # but for the waits of the steps between


def test_what_waits_for_the_first_batch_counts_as_often_as_epochs_begin_in_the_training(tmp_path):
    """Three of 24 steps wait for it; in the training four of a hundred do."""
    python, main, end = list_steps(20)
    told = parse_notes({"own": True, "optimizers": [], "program": "keras", "calls_per_epoch": 25})
    lines = {"/host:CPU": {"p": us(*python), "m": us(*main)}}
    ahead = {"tf_data_private_threadpool/1": us(("Iterator::Root::Shuffle", 0, end))}
    found = read_attribution(write(tmp_path / "vm.xplane.pb", {"/host:CPU": lines["/host:CPU"] | ahead}), told)
    account = found.account
    waits = {one.name: one.ms for one in account.list("input")}
    assert waits == pytest.approx({FIRST_BATCH: 19.95 / 25, "": 0.95 * 21 / 24})
    (one,) = [one for one in list_findings(found) if one.rule == "input"]
    assert one.change == FILLED and one.gain_ms == pytest.approx(19.95 / 25)
