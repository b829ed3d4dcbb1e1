"""What is kept of events in bins is what a slow sum over all of them gives, in as much memory for many as for few."""

import math
from typing import Any

import numpy as np
import pytest

from tests.infer.programs import make_preparer, make_worker
from tfperf.infer import event_log
from tfperf.infer.dispatch_records import BatchEvent, DispatchHooks, DispatchRule, Slot, UnitEvent
from tfperf.infer.event_log import (
    MOST_BINS,
    MOST_FAULTS,
    STEPS,
    EventLog,
    TimeBins,
    find_size,
    keep_events,
)
from tfperf.infer.micro_batches import BatchRule
from tfperf.infer.prediction import PredictionFolder, PredictionPlan, run_prediction

SLOTS = 3
estimate_quantiles: Any = event_log.estimate_quantiles  # None only of empty histograms


def make_events(seconds, count=400, seed=0):
    """Batches of all slots, one after the other in each; some last a moment, some for a tenth of all."""
    draws = np.random.default_rng(seed)
    found = []
    for slot in range(SLOTS):
        spans = draws.exponential(size=count) ** 3
        ends = np.cumsum(spans) * seconds / spans.sum()
        for end, span in zip(ends, np.diff(ends, prepend=0.0), strict=True):
            records = int(draws.integers(1, 64))
            found.append(BatchEvent(slot, float(end), float(span * draws.uniform(0.2, 1)), records, records * 3.5))
    return found


def spread(events, width, bins):
    """(bins, slots, 3), event by event and bin by bin."""
    found = np.zeros((bins, SLOTS, 3))
    for one in events:
        begin = max(0.0, one.at - one.seconds)
        for number in range(bins):
            inside = max(0.0, min(one.at, (number + 1) * width) - max(begin, number * width))
            found[number, one.slot] += np.array([one.records, one.cost, one.seconds]) * inside / (one.at - begin)
    return found


@pytest.mark.parametrize("seconds", [0.4, 7.0, 5000.0])
def test_the_course_is_that_of_the_events(seconds):
    events, log = make_events(seconds), EventLog(SLOTS)
    for one in sorted(events, key=lambda one: one.at):
        log.add_batch(one)
    course = log.course
    assert course.values.shape == (MOST_BINS, SLOTS, 3)
    used = seconds / course.seconds
    assert used <= MOST_BINS and (used > MOST_BINS / 2 - 1 or seconds < 1), "as narrow as they may be"
    # sums of n terms in float64, in another order: n * eps of their sum, for shares of up to 1200 events
    np.testing.assert_allclose(course.values, spread(events, course.seconds, MOST_BINS), rtol=0, atol=1e-8)
    for slot, total in enumerate(log.totals):
        mine = [one for one in events if one.slot == slot]
        assert (total.records, total.batches) == (sum(one.records for one in mine), len(mine))
        assert total.cost == pytest.approx(sum(one.cost for one in mine))
        assert total.busy_seconds == pytest.approx(sum(one.seconds for one in mine))


def test_a_batch_without_time_and_one_on_an_edge_are_counted_once():
    log = EventLog(1)
    for event in (BatchEvent(0, 1.0, 0.0, 5, 5.0), BatchEvent(0, 2.0, 1.0, 7, 7.0), BatchEvent(0, 0.5, 3.0, 1, 1.0)):
        log.add_batch(event)
    assert log.course.values[:, 0, 0].sum() == pytest.approx(13)
    width = log.course.seconds
    assert log.course.values[int(1.0 / width), 0, 0] == pytest.approx(5 + 7 * width)


def test_a_bin_is_not_missed_at_the_end_of_all_of_them():
    bins = TimeBins(4, (1, 1), 1.0)
    bins.spread(0.0, np.nextafter(4.0, 0), 0, [4.0])
    assert bins.seconds == 1.0
    bins.spread(3.5, 4.0, 0, [2.0])
    assert bins.seconds == 2.0
    np.testing.assert_allclose(bins.values[:, 0, 0], [2, 4, 0, 0])


@pytest.mark.parametrize("slots", [1, 64, 1000, 5000])
def test_memory_does_not_grow_with_what_happens(slots):
    log = EventLog(slots)
    size = log.course.values.nbytes + log.units.values.nbytes
    assert size < 3e6 and len(log.course.values) % 2 == 0
    for at in np.geomspace(1e-3, 1e9, 50):
        log.add_unit(UnitEvent(0, at, 3, 30.0, 1.0))
        log.add_batch(BatchEvent(0, at, at / 10, 1, 1.0))
    for _ in range(10 * MOST_FAULTS):
        log.add_fault(1e9, "crashed")
    assert log.course.values.nbytes + log.units.values.nbytes == size
    assert len(log.faults) == MOST_FAULTS and log.fault_count == 10 * MOST_FAULTS
    assert log.course.values[:, 0, 0].sum() == pytest.approx(50) == log.units.values[:, 0].sum()


def test_quantiles_are_right_to_a_step_of_the_histogram():
    sizes = np.random.default_rng(1).lognormal(-1, 1.2, 5000)
    log = EventLog(1)
    for number, size in enumerate(sizes):
        log.add_unit(UnitEvent(0, number / 10, max(1, round(10 * size)), 1.0, float(size)))
    counts = log.units.values.sum(axis=0)
    found = estimate_quantiles(counts[0])
    for share, one in zip((0.1, 0.5, 0.9), (found.low, found.median, found.high), strict=True):
        assert abs(math.log2(one / np.quantile(sizes, share))) <= 0.6 / STEPS
    assert counts[1].sum() == 5000 and estimate_quantiles(counts[1]).median == pytest.approx(
        10 * found.median, rel=0.15
    )
    assert estimate_quantiles(0 * counts[0]) is None


@pytest.mark.parametrize("batches", [1, 2, 3, 5, 8, 11])
def test_few_batches_are_told_exactly(batches):
    counts = np.zeros_like(EventLog(1).units.values[0, 0])
    counts[find_size(batches)] += 1
    assert round(estimate_quantiles(counts).median) == batches


def test_sizes_beyond_all_limits_are_in_the_last_bins():
    top = len(EventLog(1).units.values[0, 0]) - 1
    assert find_size(0.0) == find_size(1e-9) == 0 and find_size(1e300) == top


def test_hooks_are_told_and_the_log_keeps_it():
    told: list[Any] = []
    log = EventLog(2)
    hooks = DispatchHooks(
        lambda *_: told.append("rows"), told.append, told.append, lambda: True, note_unit=told.append,
        note_end=lambda *end: told.append(end),
    )  # fmt: skip
    kept: Any = keep_events(log, hooks, lambda: 4.5)
    batch, unit = BatchEvent(1, 2.0, 1.0, 8, 80.0), UnitEvent(1, 0.5, 2, 160.0, None)
    kept.note_unit(unit)
    kept.note(batch)
    kept.note_end(1, 2.0)
    kept.say("crashed")
    kept.give()
    assert told == [unit, batch, (1, 2.0), "crashed", "rows"] and kept.is_stopped()
    assert (log.totals[1].records, log.totals[1].first, log.totals[1].last) == (8, 0.5, 2.0)
    assert log.totals[0].first is None and log.faults[0].at == 4.5
    assert log.units.values[:, 1].sum() == 1 and log.units.values[:, 0].sum() == 0, "nobody could predict its time"


def test_a_prediction_logs_what_its_workers_do(tmp_path):
    plan = PredictionPlan(300, 64, "out.h5", "float32", "<i8", {"batch": {}})
    folder = PredictionFolder(tmp_path, plan)
    folder.open(False)
    batches, units = [], []
    hooks = DispatchHooks(lambda *_: None, batches.append, note_unit=units.append)
    slots = [Slot(name, make_worker({70: "crashed"}, of_batch=0.02)) for name in ("a", "b")]
    rule = DispatchRule(BatchRule(total_length=64))
    result = run_prediction(
        folder, slots, make_preparer(300, 64), rule, lambda size: None, lambda entries: None, hooks
    )  # fmt: skip
    log = result.log
    assert folder.progress.is_complete and result.records == 300 and result.first_lease is not None
    for slot, total in enumerate(log.totals):
        mine = [one for one in batches if one.slot == slot]
        assert mine and total.records == sum(one.records for one in mine)
        assert total.first is not None and total.last is not None
        assert 0 <= total.first < total.last <= result.seconds
    assert log.units.values[:, 1].sum() == len(units) >= 4
    assert {one.batches for one in units if one.seconds is None} == {1}, "the first one tells the pace"
    assert sum(one.batches for one in units) >= len(batches), "what a lost worker had is handed out again"
    assert log.fault_count >= 1 and any("crashed, at record 6 of window 1" in one.text for one in log.faults)
    assert all(0 <= one.at <= result.seconds for one in log.faults)
