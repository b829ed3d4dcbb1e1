"""The time that a running prediction says is left, in real processes and in runs that are played."""

import threading
import time
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest

from tests.infer.programs import make_preparer, make_worker, measure
from tfperf.infer.dispatch_records import BatchEvent, DispatchHooks, DispatchRule, Slot, WindowEvent
from tfperf.infer.dispatcher import Dispatcher
from tfperf.infer.length_sampler import EACH, GROUPS, LengthGroup, LengthSampler
from tfperf.infer.micro_batches import BatchRule
from tfperf.infer.outlook import Outlook
from tfperf.infer.preparer import PreparerSpec
from tfperf.infer.sampled_records import SampledRecords, draw_groups, draw_numbers
from tfperf.measure.confidence import ConfidenceInterval


class Clock:
    """Time that a test sets."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def play(outlook, clock, batches, *, worker=0, slot=0, seconds=0.1, cost=10.0):
    """Batches one after the other, first lease at 0."""
    for _ in range(batches):
        clock.now += seconds
        outlook.note_batch(BatchEvent(slot, clock.now, seconds, 5, cost, worker))


def make_outlook(records=10_000, window=100, rule=BatchRule(total_length=10)):  # noqa: B008
    clock = Clock()
    return Outlook(records, window, rule, clock), clock


def test_nothing_is_told_before_a_worker_has_done_more_than_its_first_batch():
    outlook, clock = make_outlook()
    assert outlook.estimate_seconds_left() is None and outlook.compute_useful_share() is None
    outlook.note_window(WindowEvent(0, 100, 200.0, 200.0, 20))
    play(outlook, clock, 1)
    assert outlook.estimate_seconds_left() is None
    assert outlook.compute_useful_share() == pytest.approx(1.0)


def test_what_is_left_costs_as_much_as_records_that_were_prepared():
    outlook, clock = make_outlook(records=1000)
    for window in range(2):
        outlook.note_window(WindowEvent(window, 100, 150.0, 200.0, 20))
    play(outlook, clock, 1, seconds=30.0)  # compiles
    play(outlook, clock, 10)
    # 400 - 110 of what is prepared, 800 records of 2 each, at 100 a second
    left = outlook.estimate_seconds_left()
    assert left.value == pytest.approx((400 - 110 + 1600) / 100) and left.low is None


def test_groups_that_are_ahead_say_what_is_left():
    outlook, clock = make_outlook(records=1000)
    outlook.note_window(WindowEvent(0, 100, 100.0, 200.0, 20))  # a padding of 2
    outlook.set_groups([LengthGroup(50, 1000.0), *(LengthGroup(first, 3.0) for first in range(100, 1000, 50))])
    play(outlook, clock, 1)
    play(outlook, clock, 100, cost=1.0)
    left = outlook.estimate_seconds_left()
    assert left.value == pytest.approx((200 - 110 + 900 * 2 * 3.0) / 10)
    assert left.low == pytest.approx(left.value, rel=0.08) and left.low < left.value < left.high


def test_rates_are_those_since_the_newest_worker_began():
    outlook, clock = make_outlook(records=100)
    outlook.note_window(WindowEvent(0, 100, 3000.0, 3000.0, 300))
    play(outlook, clock, 50, seconds=1.0)
    play(outlook, clock, 1, worker=1, slot=1)
    play(outlook, clock, 20, worker=1, slot=1)
    assert outlook.estimate_seconds_left().value == pytest.approx((3000 - 710) / 100)
    assert outlook.slots[0].records == 250 and outlook.slots[1].records == 105
    # two slots of 10 and 100 a second, of which one worked at a time
    assert outlook.compute_useful_share() == pytest.approx(710 / (52.1 * 110))


def test_batches_that_cost_something_whatever_is_in_them_count_by_their_number():
    """Batches of 10 records take 0.1 s and 1 ms for each unit of length; the second half is three times as long."""
    outlook, clock = make_outlook(2000, rule=BatchRule(records=10))
    for window in range(2):
        outlook.note_window(WindowEvent(window, 100, 1000.0, 1000.0, 10))
    outlook.set_groups([LengthGroup(first, 10.0 if first < 1000 else 30.0) for first in range(0, 2000, 20)])
    play(outlook, clock, 1, cost=100.0)
    for cost in (50.0, 150.0) * 5:
        play(outlook, clock, 1, seconds=0.1 + cost / 1000, cost=cost)
    left = outlook.estimate_seconds_left()
    # 9 batches that are prepared, 80 as long, 100 that are three times as long
    assert left.value == pytest.approx(9 * 0.2 + 80 * 0.2 + 100 * 0.4, rel=1e-6)
    plain = outlook._estimate_batch_cost()
    outlook.note_batch(BatchEvent(0, clock.now, 20.0, 10, 100.0, 0, is_single=True))
    assert outlook._estimate_batch_cost() == pytest.approx(plain, rel=1e-12)


@pytest.mark.parametrize("rule", [BatchRule(total_length=100), BatchRule(records=40, total_length=100)])
def test_batches_of_a_length_are_as_many_as_it_takes(rule):
    """Batches of a length of 100 take 0.3 s, those of 50 take 0.2 s: there are more of them where records are long."""
    outlook, clock = make_outlook(2000, rule=rule)
    outlook.note_window(WindowEvent(0, 100, 500.0, 500.0, 5))
    outlook.set_groups([LengthGroup(first, 10.0) for first in range(100, 2000, 20)])
    play(outlook, clock, 1, cost=100.0)
    for cost in (100.0, 50.0) * 5:
        play(outlook, clock, 1, seconds=0.1 + 2 * cost / 1000, cost=cost)
    left = outlook.estimate_seconds_left()
    assert left.value == pytest.approx(1900 * 10 / 100 * 0.3, rel=1e-6)  # nothing is left of what is prepared


def test_what_is_done_twice_leaves_no_negative_time():
    outlook, clock = make_outlook(records=100)
    outlook.note_window(WindowEvent(0, 100, 100.0, 100.0, 10))
    play(outlook, clock, 30)
    assert outlook.estimate_seconds_left().value == 0.0


def test_groups_are_neighbours_from_all_parts():
    found = draw_groups(6400, 64, 32, 1)
    assert found.shape == (64, 32) and np.all(np.diff(found, axis=1) == 1)
    assert np.all(found[:, 0] // 100 == np.arange(64)) and np.all(found[:, -1] // 100 == np.arange(64))
    with pytest.raises(ValueError, match="100 records have no 10 groups of 11"):
        draw_groups(100, 10, 11, 1)


def test_drawn_records_are_those_of_the_reader():
    reader = make_preparer(500, 64).open_reader()
    numbers = draw_numbers(500, 50, 3, 0)
    assert len(set(numbers.tolist())) == 50 and list(numbers) == sorted(numbers)
    assert list(numbers) != list(draw_numbers(500, 50, 3, 1))
    columns, ids = SampledRecords(reader, numbers).read(10, 40)
    np.testing.assert_array_equal(columns["number"], numbers[10:40])
    np.testing.assert_array_equal(ids, 10 * numbers[10:40])


def sample(records, faults=None, timeout=20.0):
    found, come = [], threading.Event()

    def give(groups):
        found.extend(groups)
        come.set()

    sampler = LengthSampler(make_preparer(records, 64, faults), records, timeout, give)
    come.wait(timeout)
    sampler.close()
    return found


def test_a_process_measures_lengths_all_over_the_source():
    records = GROUPS * EACH * 4
    numbers = draw_groups(records, GROUPS, EACH, 1)
    groups = sample(records, {int(numbers[3, 5]): "crashed", int(numbers[9, 0]): "raised"})
    assert [one.first for one in groups] == [int(one) for one in numbers[:, 0]]
    for place in (0, 20, GROUPS - 1):
        truth = np.mean([measure(int(one)) for one in numbers[place]])
        assert groups[place].mean == pytest.approx(truth)


def test_few_records_need_no_sample():
    begin = time.monotonic()
    assert sample(2 * GROUPS * EACH - 1, timeout=0.2) == [] and time.monotonic() - begin < 5


@dataclass(frozen=True)
class Drawn:
    """Records of lengths that are drawn, and drift."""

    records: int
    seed: int
    drift: float

    @property
    def lengths(self):
        draws = np.random.default_rng(self.seed)
        spread = draws.lognormal(0.0, 0.6, self.records)
        return np.ceil(20 * spread * np.linspace(1.0, self.drift, self.records)).astype(int)

    def read(self, first, last):
        return {"number": np.arange(first, last), "length": self.lengths[first:last]}, np.arange(first, last)


def prepare_drawn(columns):
    return {
        "tokens": [np.full(size, number) for number, size in zip(columns["number"], columns["length"], strict=True)]
    }


def build_prepare():
    return prepare_drawn


def estimate_at_a_twentieth(seed, drift, records=12_000, seconds=150e-6):
    """The interval at 5 % of the records, and the seconds that were left then."""
    spec = PreparerSpec(partial(Drawn, records, seed, drift), build_prepare, 200)
    rule = BatchRule(total_length=200)  # some 70 batches in a twentieth of it
    outlook, done = Outlook(records, 200, rule), [0]
    told: list[tuple[ConfidenceInterval | None, float]] = []

    def note(event):
        outlook.note_batch(event)
        done[0] += event.records
        if done[0] >= records / 20 and not told:
            told.append((outlook.estimate_seconds_left(), time.monotonic()))

    hooks = DispatchHooks(lambda *_: None, note, note_window=outlook.note_window)
    slots = [Slot("fast", make_worker(seconds=seconds)), Slot("slow", make_worker(seconds=seconds, slowness=1.0001))]
    is_known = threading.Event()

    def give(groups):
        outlook.set_groups(groups)
        is_known.set()

    sampler = LengthSampler(spec, records, 20.0, give)
    assert is_known.wait(60.0)  # a twentieth of so short a run may be over before; workers load no model here
    windows = records // 200
    Dispatcher(slots, spec, DispatchRule(rule), hooks).run(
        iter(range(windows)), windows, lambda window: np.zeros(200, bool)
    )
    end = time.monotonic()
    sampler.close()
    left, at = told[0]
    return left, end - at


@pytest.mark.slow
def test_intervals_of_real_runs_hold_the_truth():
    found = [estimate_at_a_twentieth(seed, 3.0 if seed % 2 else 1.0) for seed in range(20)]
    halves = [left.half / left.value for left, _ in found]
    held = [left.low <= truth <= left.high for left, truth in found]
    errors = [round(left.value / truth - 1, 3) for left, truth in found]
    print(f"held {sum(held)} of 20; half widths {np.round(halves, 3).tolist()}; errors {errors}")
    assert sum(held) >= 18 and max(halves) <= 0.15
