"""Rates of sources against clocks that tests turn by hand, and sums of blocks."""

import math
import time
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfperf.errors import UserError
from tfperf.inputs import rates
from tfperf.inputs.rates import count_first_axis, estimate_ratio, measure_rate, open_passes
from tfperf.measure.confidence import ConfidenceInterval


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still but for `clock.wait`, a quarter of which is CPU time."""
    now = SimpleNamespace(seconds=0.0)
    now.wait = lambda seconds: setattr(now, "seconds", now.seconds + seconds)
    fake = SimpleNamespace(perf_counter=lambda: now.seconds, process_time=lambda: now.seconds / 4)
    monkeypatch.setattr(rates, "time", fake)
    return now


def test_an_even_source_has_its_own_rate(clock):
    def make():
        while True:
            clock.wait(0.01)
            yield np.zeros((32, 3))

    found = measure_rate(open_passes(make), 1.0)
    assert found.elements.value == pytest.approx(100.0) and found.examples.value == pytest.approx(3200.0)
    assert found.cpu_seconds.value == pytest.approx(0.0025)
    assert found.elements.half == pytest.approx(0.0, abs=1e-6)
    assert found.first_seconds == pytest.approx(0.01) and found.passes == 0


def test_slow_first_elements_are_warm_up(clock):
    def make():
        for number in range(10_000):
            clock.wait(0.5 if number < 3 else 0.01)
            yield number

    assert measure_rate(open_passes(make), 1.0, warm_up=1.0).elements.value == pytest.approx(100.0)


def test_what_begins_a_pass_is_part_of_the_time(clock):
    def make():
        clock.wait(0.1)
        for _ in range(10):
            clock.wait(0.01)
            yield 0

    found = measure_rate(open_passes(make), 20.0)
    assert found.elements.value == pytest.approx(50.0, rel=0.02) and found.passes > 90


def test_an_element_longer_than_a_block_is_a_block(clock):
    def make():
        for seconds in [1.0, 1.0, 3.0] * 100:
            clock.wait(seconds)
            yield 0

    found = measure_rate(open_passes(make), 18.0, warm_up=0.0)
    assert all(one.elements == 1 for one in found.blocks)
    # the mean of 1, 1 and 1/3 a second would be 0.78
    assert found.elements.value == pytest.approx(0.6, rel=0.1) and found.elements.has_inside(0.6)


def test_intervals_of_ratios_hold_the_truth_as_often_as_they_say():
    draws, held, tries = np.random.default_rng(1), 0, 400
    for _ in range(tries):
        bottoms = draws.uniform(1.0, 3.0, 12)
        held += estimate_ratio((5.0 * bottoms + draws.normal(0.0, 1.0, 12)).tolist(), bottoms.tolist()).has_inside(5.0)
    assert abs(held / tries - 0.95) < 4 * math.sqrt(0.95 * 0.05 / tries)


def test_a_ratio_of_one_block_has_no_limits_and_none_is_below_zero():
    assert estimate_ratio([4.0], [2.0]) == ConfidenceInterval(2.0)
    assert estimate_ratio([0.0, 9.0], [1.0, 1.0]).low == 0.0


class Batches(keras.utils.PyDataset):
    def __init__(self):
        super().__init__()
        self.ends, self.asked = 0, []

    def __len__(self):
        return 3

    def __getitem__(self, number):
        self.asked.append(number)
        return np.full((4, 2), number)

    def on_epoch_end(self):
        self.ends += 1


def test_a_py_dataset_is_gone_through_by_its_numbers():
    dataset = Batches()
    open_pass = open_passes(dataset)
    assert [int(batch[0, 0]) for _ in range(2) for batch in open_pass()] == [0, 1, 2] * 2
    assert dataset.asked == [0, 1, 2] * 2 and dataset.ends == 2


def test_a_tensorflow_dataset_is_an_iterable():
    found = measure_rate(open_passes(tf.data.Dataset.range(8).batch(4)), 0.05)
    assert found.passes > 0 and found.examples.value == pytest.approx(4 * found.elements.value)


@pytest.mark.parametrize(
    ("element", "examples"), [((np.zeros((3, 2)), 1), 3), ({"a": [np.zeros(5)]}, 5), (7, 1), ((), 1), (np.zeros(()), 1)]
)
def test_examples_are_the_first_axis(element, examples):
    assert count_first_axis(element) == examples


@pytest.mark.parametrize("source", [[], lambda: iter(())])
def test_a_source_without_elements_is_refused(source):
    with pytest.raises(UserError, match="no elements"):
        measure_rate(open_passes(source), 0.1)


def test_what_is_no_source_is_refused():
    with pytest.raises(UserError, match="type int; allowed are"):
        open_passes(3)


def test_an_iterator_that_ends_is_told():
    with pytest.raises(UserError, match="gone through once"):
        measure_rate(open_passes(iter([1, 2])), 0.1, warm_up=0.0)


def test_a_measurement_ends_in_its_time():
    start = time.perf_counter()
    measure_rate(lambda: iter(lambda: time.sleep(0.001), 0), 0.2, warm_up=0.1)
    assert time.perf_counter() - start >= 0.3
