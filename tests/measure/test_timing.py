"""When steps have been timed for long enough, by clocks made by hand."""

from itertools import cycle, repeat

import numpy as np
import pytest

from tfperf.errors import TrainingError
from tfperf.measure import timing
from tfperf.measure.confidence import ConfidenceInterval
from tfperf.measure.timing import Sample, TimingRule, time_steps


class Clock:
    """Stands for time: samples take what they say."""

    def __init__(self, seconds, clean=None):
        self.now, self.seconds, self.clean = 0.0, iter(seconds), iter(clean or repeat(True))

    def take(self):
        seconds = next(self.seconds)
        self.now += seconds
        return Sample(10, seconds, next(self.clean))

    def perf_counter(self):
        return self.now


def timed(monkeypatch, clock, fewest=1, starting=1e9, most=1e9):
    monkeypatch.setattr(timing, "time", clock)
    return time_steps(clock.take, TimingRule(fewest, starting, most), most)


def test_equal_samples_are_enough_as_soon_as_the_median_has_an_interval(monkeypatch):
    found = timed(monkeypatch, Clock(repeat(0.5)))
    assert (found.ended, found.steps, found.seconds, found.samples) == ("interval", 60, 3.0, [50.0] * 6)
    assert found.make_record(2.0)["timing"] == {
        "seconds": 3.0, "starting_seconds": 2.0, "ended": "interval",
        "interval": {"of": "median of the samples of this trial", "low": 50.0, "high": 50.0},
    }  # fmt: skip


def test_scattered_samples_go_on_until_starting_took_no_longer(monkeypatch):
    found = timed(monkeypatch, Clock(cycle([0.5, 1.5])), starting=8.2)
    assert found.ended == "starting" and found.seconds == 8.5 and len(found.samples) == 9
    assert found.make_record(8.2)["ms_per_step"]["median"] == 50.0


def test_scattered_samples_end_where_many_make_the_median_sure(monkeypatch):
    # 1 to 1.2 s: the median's interval shrinks as 1 / sqrt(n), and is 3 % wide long before 1000 samples
    noise = np.random.default_rng(0).uniform(1, 1.2, 1000)
    found = timed(monkeypatch, Clock(noise))
    middle = found.make_record(0)["timing"]["interval"]
    assert found.ended == "interval" and 6 < len(found.samples) < 200
    assert middle["high"] <= 1.03 * np.median(found.samples) and middle["low"] >= 0.97 * np.median(found.samples)


def test_the_budget_ends_it_before_all(monkeypatch):
    found = timed(monkeypatch, Clock(cycle([3.0, 9.0])), fewest=100, most=10.0)
    assert found.ended == "budget" and found.samples == [300.0, 900.0]
    assert found.make_record(1.0)["timing"]["interval"] == {
        "of": "median of the samples of this trial", "low": None, "high": None
    }  # fmt: skip


def test_as_many_as_are_asked_for_come_at_least(monkeypatch):
    found = timed(monkeypatch, Clock(repeat(0.5)), fewest=20, starting=1.0)
    assert found.ended == "starting" and len(found.samples) == 20


def test_no_list_grows_without_end(monkeypatch):
    monkeypatch.setattr(timing, "MOST_SAMPLES", 50)
    found = timed(monkeypatch, Clock(cycle([1e-9, 1.0])))
    assert found.ended == "samples" and len(found.samples) == 50


def test_samples_in_which_something_was_traced_are_left_out_and_counted(monkeypatch):
    clock = Clock([*[5.0] * 2, *[1.0] * 3, 7.0, *[1.0] * 20], [*[False] * 2, *[True] * 3, False, *[True] * 20])
    found = timed(monkeypatch, clock)
    assert (found.samples, found.left_out, found.seconds) == ([100.0] * 6, 3, 6.0)
    with pytest.raises(TrainingError, match="in all 3 samples of 15 s something was traced or compiled"):
        timed(monkeypatch, Clock(repeat(5.0), repeat(False)), most=12.0)


def test_each_end_has_words():
    rule = TimingRule(1, 1.0, 10.0)
    assert {rule([1.0], 1.0, 1.0), rule([1.0], 0.1, 11.0), rule([1.0] * 6, 0.1, 1.0)} <= timing.ENDS.keys()
    assert rule([], 0.0, 11.0) == ""
    assert not ConfidenceInterval(1.0).is_within(0.5) and ConfidenceInterval(1.0, 0.98, 1.02).is_within(0.03)
