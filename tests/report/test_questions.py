"""Answers to the three questions, from figures made by hand."""

from dataclasses import replace

import pytest

from tfperf.report.questions import (
    BUCKETING,
    FORWARD,
    NOT_BUCKETED,
    SLOWER,
    answer_questions,
    describe_growth,
    format_growth_cells,
    format_last_cells,
)
from tfperf.results.placements import Answers, Estimate, ForwardGrowth, PlacementRow

GROWN = ForwardGrowth(
    4, 16, 38, 4, 10.0, Estimate(2.2, 2.1, 2.3), Estimate(2.0, 1.9, 2.1), Estimate(1.08, 1.05, 1.11),
    Estimate(1.02, 1.0, 1.04), (0.98, 1.96),
)  # fmt: skip
AT = "On 4 devices (16 examples of 38 columns on each)"


def late(ends, low, begins=0.0, length=0.0, last=0.5):
    """Of a device."""
    parts = {"begins": begins, "length": length, "pace": ends - begins - length}
    return {"ends": ends, "low": low, "high": 2 * ends - low, **parts, "last": last, "steps": 30, "takes": 40.0}


def row(*devices, proved=True):
    last = {f"device:{k}": one for k, one in enumerate(devices)}
    return PlacementRow({}, "Exp1", 1, proved=proved, devices=len(devices), phases={"last": last, "step_ms": 50.0})


def test_growth_names_its_factors_and_the_largest():
    first, second = describe_growth(GROWN)
    assert first == (
        f"{AT} it took 2.20 [2.10, 2.30] times as long as alone, the product of three: the devices share cores: "
        "2.00 [1.90, 2.10]; cores slow each other, in caches and on the way to memory: 1.08 [1.05, 1.11]; the host has "
        "more to do for each device: 1.02 [1.00, 1.04], within chance (0.980 cores were at work for one pass, 1.96 for "
        "all)."
    )
    assert second == "The largest is that the devices share cores."


def test_factors_below_one_say_that_their_cause_does_not_hold():
    text = describe_growth(replace(GROWN, slowing=Estimate(0.9, 0.8, 0.97), host=Estimate(0.95, 0.9, 1.1)))[0]
    assert (
        "memory: 0.900 [0.800, 0.970], so they do not; " in text
        and "device: 0.950 [0.900, 1.10], within chance " in text
    )


@pytest.mark.parametrize(
    "found",
    [
        replace(GROWN, slowing=Estimate(1.5, 1.1, 2.0)),  # overlaps the largest
        replace(GROWN, sharing=Estimate(2.0, 0.9, 4.0)),  # may be no cause at all
        replace(GROWN, host=Estimate(1.02)),
    ],
)
def test_no_factor_is_the_largest_by_chance(found):
    assert describe_growth(found)[1] == "Which of them is the largest is within chance."


@pytest.mark.parametrize(
    ("growth", "text"),
    [
        (Estimate(1.1, 0.9, 1.3), f"{AT} it took 1.10 [0.900, 1.30] times as long as alone: no growth beyond chance."),
        (Estimate(0.8, 0.7, 0.9), f"{AT} it took less time than alone: 0.800 [0.700, 0.900] times."),
    ],
)
def test_no_growth_has_no_cause(growth, text):
    assert describe_growth(replace(GROWN, growth=growth)) == [text]


def test_what_one_trial_measured_is_counted():
    once = replace(GROWN, growth=Estimate(1.1))
    assert dict(answer_questions([], Answers([once])))[FORWARD] == [
        "1 number of devices and size of batches was measured in one trial, which tells nothing of chance."
    ]
    assert dict(answer_questions([], Answers([once, GROWN, once])))[FORWARD] == [
        *describe_growth(GROWN),
        "2 numbers of devices and sizes of batches were measured in one trial, which tells nothing of chance.",
    ]
    assert format_growth_cells([once])[1][0][5] == "1.10"


def test_growth_of_devices_that_are_no_processors_has_no_factors():
    found = replace(GROWN, sharing=None, slowing=None, host=None, cores=None)
    assert describe_growth(found) == [f"{AT} it took 2.20 [2.10, 2.30] times as long as alone."]
    assert format_growth_cells([found])[1][0][6:] == ("n/a",) * 4


def test_devices_that_are_late_are_counted_by_their_largest_part():
    rows = [
        row(late(5.0, 4.0, begins=3.0), late(-5.0, -6.0)),
        row(late(-2.0, -3.0), late(2.0, 1.0, length=0.5)),
        row(late(0.5, -0.2), late(-0.5, -1.0)),
        row(late(50.0, 49.0), late(-50.0, -51.0), proved=False),
    ]
    ((question, said), _) = answer_questions(rows, Answers())
    assert question == SLOWER and said == [
        "In 2 of 3 traced placements on several devices one device ends its passes later than the mean of all beyond "
        "the scatter of steps, by 4% to 10% of a step. Largest part of it: a later begin in 1, longer examples in "
        "none, a slower pace at the same work in 1."
    ]
    assert [line[2] for line in format_last_cells(rows)[1]] == ["device:0", "device:1", "device:0"]
    assert format_last_cells(rows)[1][0][3:] == ("50% of 30", "5.00 [4.00, 6.00]", "10.0%", "3.00", "0.00", "2.00")


def test_no_device_is_late_within_the_scatter_of_steps():
    ((_, said), _) = answer_questions([row(late(0.5, -0.2), late(-0.5, -1.0))], Answers())
    assert said == [
        "In 0 of 1 traced placements on several devices one device ends its passes later than the mean of all beyond "
        "the scatter of steps."
    ]


def test_bucketing_is_answered_by_its_benchmark_alone():
    asked = dict(answer_questions([], Answers([GROWN])))
    assert list(asked) == [FORWARD, BUCKETING] and asked[BUCKETING] == [NOT_BUCKETED]
    assert answer_questions([], Answers(bucketing=["narrow, 10 seeds: a."])) == [(BUCKETING, ["narrow, 10 seeds: a."])]
    assert answer_questions([], Answers()) == []
