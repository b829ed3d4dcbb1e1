"""Passes over a sample: rates of events that are made up, and of workers of planted rates."""

import time
from dataclasses import replace
from functools import partial

import pytest

from tests.infer.programs import make_preparer, make_worker
from tfperf.errors import TrainingError
from tfperf.infer.dispatch_records import BatchEvent, DispatchRule, Slot
from tfperf.infer.micro_batches import BatchRule
from tfperf.infer.prepared import RaggedColumn
from tfperf.infer.preparer_watch import prepare_first
from tfperf.infer.sampled_records import open_repeated
from tfperf.infer.sampling import measure_alone, measure_preparing, run_pass, summarise_events

RECORDS = 400
RULE = DispatchRule(BatchRule(records=10), waits_for_all=True)


def make_events(slot, seconds, count, first=0.0, records=4, cost=8.0):
    return [BatchEvent(slot, first + seconds * (number + 1), seconds, records, cost) for number in range(count)]


def test_slow_first_batches_count_for_nothing():
    slow = [BatchEvent(0, 30.0, 30.0, 4, 8.0), BatchEvent(0, 60.0, 30.0, 4, 8.0)]
    found = summarise_events([*slow, *make_events(0, 0.5, 10, 60.0)], 1)
    assert found.rate == pytest.approx(8.0) and found.slot_rates == pytest.approx((8.0,))
    assert found.useful_share == pytest.approx(1.0)


def test_two_workers_count_from_when_both_are_warm():
    events = [*make_events(0, 1.0, 20), *make_events(1, 2.0, 10)]
    found = summarise_events(events, 2)
    assert found.rate == pytest.approx(6.0) and found.slot_rates == pytest.approx((4.0, 2.0))
    assert found.useful_share == pytest.approx(1.0)


def test_a_worker_that_waits_lowers_the_useful_share():
    pauses = [BatchEvent(1, 2.0 * number, 1.0, 4, 8.0) for number in range(1, 11)]
    found = summarise_events([*make_events(0, 1.0, 20), *pauses], 2)  # from 4 s to 20 s, one worked half of it
    assert found.useful_share == pytest.approx(0.75) and found.rate == pytest.approx(6.0)


def test_what_is_left_at_the_end_does_not_count():
    """A worker that has no more batches would lower the rate, whatever there is in a run that goes on."""
    found = summarise_events([*make_events(0, 1.0, 20), *make_events(1, 1.0, 12)], 2)
    assert found.rate == pytest.approx(8.0) and found.useful_share == pytest.approx(1.0)


def test_records_of_different_cost_count_by_it():
    long = [BatchEvent(0, at, 1.0, 1, 10.0) for at in (1.0, 2.0, 3.0)]
    short = [BatchEvent(0, 3.0 + at / 10, 0.1, 1, 1.0) for at in range(1, 11)]
    # 13 records of a cost of 40 in all, at 10 a second
    assert summarise_events([*long, *short], 1).rate == pytest.approx(10 * 13 / 40)


def test_too_few_batches_tell_nothing():
    assert summarise_events(make_events(0, 1.0, 9), 1).rate is None
    assert summarise_events(make_events(0, 1.0, 10), 1).rate == pytest.approx(4.0)
    assert summarise_events(make_events(0, 1.0, 40), 2).rate is None
    assert summarise_events([*make_events(0, 1.0, 40), *make_events(1, 10.0, 3)], 2).rate is None


def test_a_pass_finds_planted_rates():
    slots = [Slot("fast", make_worker(of_batch=0.02)), Slot("slow", make_worker(of_batch=0.06))]
    found = run_pass(slots, make_preparer(RECORDS, 128), RECORDS, RULE, lambda: False)
    # sleeping for 20 ms takes longer, never shorter
    fast, slow = (rate or 0.0 for rate in found.slot_rates)
    assert fast <= 500 and slow <= 1000 / 6 and 2 < fast / slow <= 3.5 and found.failed == 0
    alone = measure_alone(slots[0], make_preparer(RECORDS, 128), RULE.batch, lambda: False)
    assert 0 < (alone.rate or 0.0) <= (alone.slot_rates[0] or 0.0) <= 500


def test_a_process_that_dies_alone_is_an_error():
    with pytest.raises(TrainingError, match="queue: cpu: its process was killed by signal 6"):
        measure_alone(Slot("cpu", make_worker({3: "crashed"})), make_preparer(RECORDS, 128), RULE.batch, lambda: False)


def test_records_that_kill_their_preparation_cost_no_other():
    found = prepare_first(make_preparer(RECORDS, 20, {7: "crashed"}), 20.0)
    assert [one.number for one in found.failures] == [7] and len(found.ids) == 20
    tokens = found.columns["tokens"]
    assert isinstance(tokens, RaggedColumn) and tokens.take([3]).flat.tolist() == [3] * int(found.lengths[3])


def test_preparation_is_timed_alone():
    spec = make_preparer(RECORDS, 50)
    found = measure_preparing(spec, [3, 1], 20.0, lambda: False)
    assert (found.rate or 0.0) > 0 and found.slot_rates == ()
    slow = replace(spec, build_prepare=partial(partial, prepare_slowly, seconds=0.004))
    found = measure_preparing(slow, [3, 1], 20.0, lambda: False)
    assert 100 < (found.rate or 0.0) <= 250
    assert measure_preparing(spec, [3, 1], 20.0, lambda: True).rate is None


def prepare_slowly(columns, seconds):
    time.sleep(seconds * len(columns["number"]))
    return {"tokens": list(columns["number"][:, None])}


def test_records_are_gone_through_again():
    whole, again = make_preparer(7, 4).open_reader(), open_repeated(make_preparer(7, 4).open_reader, 3)
    assert again.records == 21
    for first, last in ((0, 7), (5, 9), (6, 21), (13, 15)):
        columns, ids = again.read(first, last)
        wanted = [number % 7 for number in range(first, last)]
        assert [*columns["number"]] == wanted and [*ids] == [whole.read(n, n + 1)[1][0] for n in wanted]
