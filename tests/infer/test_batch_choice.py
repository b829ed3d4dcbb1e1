"""Sizes of batches that are tried, in a real worker, and which one is taken."""

import os
from contextlib import closing
from functools import partial

import numpy as np
import pytest

from tests.infer.programs import make_worker
from tfperf.errors import TrainingError
from tfperf.infer.batch_choice import BatchCalibration, MeasuredRule, choose_rule, list_rules
from tfperf.infer.micro_batches import BatchRule
from tfperf.infer.prepared import PreparedWindow, RaggedColumn
from tfperf.infer.subprocesses import MessageProcess
from tfperf.infer.worker import run_worker


def make_window(lengths):
    lengths = np.array(lengths)
    flat = np.repeat(np.arange(len(lengths)), lengths)
    return PreparedWindow(0, {"tokens": RaggedColumn(flat, lengths)}, lengths, np.arange(len(lengths)))


def calibrate(window, worker, timeout=20.0):
    return closing(BatchCalibration(partial(MessageProcess, run_worker, worker, {}), window, timeout))


def test_single_records_are_tried_first_then_ever_larger_budgets():
    rules = list_rules(make_window([3, 5, 4] * 30), is_sorted=True)  # 360 in all
    assert rules[0] == BatchRule(records=1) and [one.total_length for one in rules[1:]] == [8, 32, 128]
    fixed = list_rules(make_window([1] * 5000), is_sorted=False)
    assert [one.records for one in fixed] == [1, 4, 16, 64, 256, 1024] and not fixed[0].is_sorted
    assert list_rules(make_window([1]), True) == list_rules(make_window([7]), True) == [BatchRule(records=1)]


def test_rates_are_those_that_were_planted():
    window = make_window([2] * 64)
    with calibrate(window, make_worker(of_batch=0.01)) as calibration:
        rates = [calibration.measure(BatchRule(records=size), 0.2).rate for size in (1, 8)]
    assert rates[0] <= 100 and rates[1] <= 800  # sleeping takes longer than it should, never shorter
    assert 4 < rates[1] / rates[0] < 16


@pytest.mark.parametrize("how", ["raised", "crashed", "hung"])
def test_a_record_that_fails_is_passed_over(how):
    window = make_window([2] * 16)
    with calibrate(window, make_worker({0: how, 9: "raised"}), timeout=1.0) as calibration:
        for size in (1, 4, 16):
            found = calibration.measure(BatchRule(records=size), 0.05)
            assert found is not None and found.rate > 0


def test_a_model_that_fails_for_everything_gives_no_rate():
    window = make_window([2] * 4)
    with calibrate(window, make_worker(dict.fromkeys(range(4), "raised"))) as calibration:
        assert calibration.measure(BatchRule(records=2), 0.05) is None
        assert calibration.measure(BatchRule(records=1), 0.05) is None


def test_a_model_that_ends_every_process_ends_the_measurement():
    window = make_window([2] * 8)
    with (
        calibrate(window, make_worker(dict.fromkeys(range(8), "crashed"))) as calibration,
        pytest.raises(TrainingError, match=r"3 batches end their process, or hang: .* killed by signal 6"),
    ):
        calibration.measure(BatchRule(records=1), 0.05)


def test_no_process_is_left(tmp_path):
    with calibrate(make_window([2] * 4), make_worker()) as calibration:
        calibration.measure(BatchRule(records=2), 0.01)
        process_id = calibration._worker.process_id
    with pytest.raises(ProcessLookupError):
        os.kill(process_id, 0)


@pytest.mark.parametrize(("rates", "place"), [((10, 10.4, 10.3), 0), ((10, 20, 20.9), 1), ((10, 20, 22), 2)])
def test_the_smallest_is_taken_that_none_beats_by_more_than_a_twentieth(rates, place):
    rules = [BatchRule(records=size) for size in (1, 4, 16)]
    measured = [MeasuredRule(rule, rate) for rule, rate in zip(rules, rates, strict=True)]
    assert choose_rule(measured) == rules[place]


def test_sizes_that_run_out_of_memory_cost_what_they_do():
    """Larger batches that raise are done again one by one."""
    window = make_window([2] * 64)
    with calibrate(window, make_worker(of_batch=0.01, most=8)) as calibration:
        single, small, large = (calibration.measure(BatchRule(records=size), 0.3) for size in (1, 8, 16))
    assert choose_rule([single, small]) == BatchRule(records=8) and large is None
    assert calibration.first_error == "MemoryError: 16 records are too many"


def test_a_size_that_fails_at_times_is_told_by_its_whole_cost():
    window = make_window([2] * 64)
    with calibrate(window, make_worker({7: "raised"}, of_batch=0.01)) as calibration:
        calibration._single_rate = 100.0  # as if single records had not met the bad one
        found = calibration.measure(BatchRule(records=32), 0.3)
    assert found is not None and found.rate < 64 / (32 / 100)
    assert calibration.first_error == "ValueError: a bad record"


def test_who_waits_for_a_worker_can_be_stopped():
    def stop():
        raise KeyboardInterrupt

    window = make_window([2] * 4)
    with closing(BatchCalibration(partial(MessageProcess, run_worker, make_worker(of_batch=100.0), {}), window, 100.0,
                                  stop)) as calibration, pytest.raises(KeyboardInterrupt):  # fmt: skip
        calibration.measure(BatchRule(records=2), 0.05)
