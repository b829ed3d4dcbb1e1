"""Real processes that run a small model: each record once, whatever dies, hangs or raises."""

import time
from functools import partial

import numpy as np
import pytest

from tests.infer.programs import fail, make_preparer, make_truth, make_worker
from tfperf.errors import TrainingError
from tfperf.infer.dispatch_records import DispatchHooks, DispatchRule, Slot
from tfperf.infer.dispatcher import Dispatcher
from tfperf.infer.micro_batches import BatchRule
from tfperf.infer.worker import WorkerSpec

RECORDS, WINDOW = 300, 64


class Collector:
    """What came out."""

    def __init__(self):
        self.rows, self.failures, self.events, self.said = {}, {}, [], []

    def give(self, window, numbers, values, ids, failures):
        for place, number in enumerate(numbers):
            record = window * WINDOW + number
            assert record not in self.rows and record not in self.failures and ids[place] == 10 * record
            if failures:
                self.failures[record] = failures[place]
            else:
                self.rows[record] = values["rows"][place]


def run(workers, preparer=None, *, timeout=20.0, records=RECORDS, done=None, stop=None, batch=None):
    found = Collector()
    hooks = DispatchHooks(found.give, found.events.append, found.said.append, stop or (lambda: False))
    rule = DispatchRule(batch or BatchRule(total_length=64), timeout=timeout)
    preparer = preparer or make_preparer(records, WINDOW)
    slots = [Slot(f"cpu:{place}", spec) for place, spec in enumerate(workers)]
    count = -(-records // WINDOW)
    done = done or (lambda window: np.zeros(min(WINDOW, records - window * WINDOW), bool))
    Dispatcher(slots, preparer, rule, hooks).run(iter(range(count)), count, done)
    return found


def check(found, failed=()):
    truth = make_truth(RECORDS)
    assert sorted(found.failures) == sorted(failed)
    assert sorted(found.rows) == sorted({*range(RECORDS)} - {*failed})
    for record, row in found.rows.items():
        np.testing.assert_array_equal(row, truth[record])


def test_two_workers_do_all_of_it():
    found = run([make_worker(of_batch=0.05), make_worker(of_batch=0.05)])
    check(found)
    assert {one.slot for one in found.events} == {0, 1} and sum(one.records for one in found.events) == RECORDS


def test_bad_records_are_marked_and_cost_no_other():
    bad = {5: "raised", 70: "crashed", 200: "hung"}
    start = time.monotonic()
    found = run([make_worker(bad), make_worker(bad)], timeout=1.5)
    check(found, bad)
    assert {record: one.reason for record, one in found.failures.items()} == bad
    assert sum(one.records for one in found.events) == RECORDS and sum(one.is_single for one in found.events) == 3
    assert "a bad record" in found.failures[5].message and "no answer for 1.5 s" in found.failures[200].message
    assert time.monotonic() - start < 20


def test_a_batch_that_is_run_record_by_record_takes_the_time_of_all_of_them():
    found = run([make_worker({5: "raised"}, of_batch=0.03)], batch=BatchRule(records=20))
    check(found, [5])
    (single,) = (one for one in found.events if one.is_single)
    assert single.records == 20 and 19 * 0.03 <= single.seconds < 10 * 19 * 0.03
    assert max(one.seconds for one in found.events if not one.is_single) < single.seconds / 2


def test_records_that_cannot_be_prepared_are_marked():
    bad = {3: "raised", 64: "crashed", 65: "hung"}
    found = run([make_worker()], make_preparer(RECORDS, WINDOW, bad), timeout=1.5)
    check(found, bad)
    assert {record: one.reason for record, one in found.failures.items()} == bad


def test_what_is_done_is_not_done_again():
    done = np.zeros(RECORDS, bool)
    done[64:192] = True
    found = run([make_worker()], done=lambda window: done[window * WINDOW : (window + 1) * WINDOW])
    assert sorted(found.rows) == [*range(64), *range(192, RECORDS)]


def test_a_model_that_cannot_be_loaded_ends_the_run():
    with pytest.raises(TrainingError, match=r"queue.devices: cpu:0: .*a bad record"):
        run([WorkerSpec(partial(fail, "raised"))])


@pytest.mark.parametrize("how", ["raised", "crashed"])
def test_a_model_that_fails_for_everything_ends_the_run_and_blames_no_record(how):
    with pytest.raises(TrainingError, match="queue: nothing comes out"):
        run([make_worker(dict.fromkeys(range(RECORDS), how))])


def test_a_source_that_fails_ends_the_run():
    with pytest.raises(TrainingError, match="source: TypeError"):
        run([make_worker()], make_preparer("many", WINDOW))
