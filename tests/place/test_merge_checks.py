"""Shares of devices in what is merged, read off graphs of merges, and held against what they have to be."""

import pytest
import tensorflow as tf

from tfperf.place.function_graphs import record_graphs
from tfperf.place.graphs import make_step_record
from tfperf.place.merge_checks import check_merges, compute_shares
from tfperf.place.merge_finder import FoundMerge
from tfperf.place.statistics import merge_values
from tfperf.place.step import mark_found
from tfperf.place.transfers import NeededMerge

SIZE, DEVICE = 2000, "/job:localhost/replica:0/task:0/device:CPU:1"


def shares(merge):
    """Of each device in what a function makes of the values of three, as it is assigned."""
    given = [tf.Variable(tf.ones(SIZE)) for _ in range(3)]
    statistic, factor = tf.Variable(tf.zeros(SIZE)), tf.Variable(2.0)

    def step():
        found = []
        for k, variable in enumerate(given):
            with tf.name_scope(f"tower_{k}"):
                found.append(mark_found("statistic", [0.9 * variable + 0.1, variable * 2.0]))
        value = merge(*zip(*found, strict=True), factor)
        with tf.name_scope("statistic_0"):
            statistic.assign(value)

    call = tf.function(step, autograph=False)
    call()
    (one,) = make_step_record(record_graphs(call), {}).merged
    return {number: round(share, 4) for number, share in one.shares.items()}


def test_equal_values_keep_their_marks():
    """TensorFlow makes one operation of equal ones."""
    totals = [tf.Variable(tf.zeros(SIZE)) for _ in range(2)]
    given = tf.Variable(tf.ones(SIZE))

    def step():
        with tf.name_scope("tower_0"):
            read = given.read_value()
            found = [*mark_found("told", [read * 2.0]), *mark_found("statistic", [read * 2.0, read * 2.0])]
        for number, total in enumerate(totals):
            with tf.name_scope(f"statistic_{number}"):
                total.assign(found[1 + number])
        return found[0]

    call = tf.function(step, autograph=False)
    call()
    merged = make_step_record(record_graphs(call), {}).merged
    assert sorted((one.number, dict(one.shares)) for one in merged) == [(0, {0: 1}), (1, {0: 1})]


def beside(values):
    """The first twice, then the others."""
    return [values[0], *values]


@pytest.mark.parametrize(
    ("merge", "want"),
    [
        (lambda own, other, factor: merge_values("sum", own), {0: 1, 1: 1, 2: 1}),
        (lambda own, other, factor: merge_values("mean", own), {0: 0.3333, 1: 0.3333, 2: 0.3333}),
        (lambda own, other, factor: merge_values("first", own), {0: 1}),
        (lambda own, other, factor: merge_values("sum", beside(own)), {0: 2, 1: 1, 2: 1}),
        (lambda own, other, factor: merge_values("mean", beside(own)), {0: 0.5, 1: 0.25, 2: 0.25}),
        (lambda own, other, factor: own[0] + (own[1] + own[2]) * 0.5, {0: 1, 1: 0.5, 2: 0.5}),
        (lambda own, other, factor: merge_values("sum", own) * factor, {}),
        (lambda own, other, factor: merge_values("sum", other), {}),
        (lambda own, other, factor: tf.maximum(own[0], own[1]), {}),
    ],
    ids=["sum", "mean", "first", "twice", "mean twice", "by hand", "unknown factor", "another's", "no sum"],
)
def test_shares_of_devices_are_read_off_a_graph(merge, want):
    assert shares(merge) == want


def faults(merge, found, own=None, **ran):
    needed = NeededMerge("average", "statistic", 0, DEVICE, compute_shares(merge, range(2), 0), own)
    return list(check_merges([FoundMerge("statistic", 0, DEVICE, "assign", found, **ran)], [needed]))


def test_merges_are_held_against_what_they_have_to_be():
    assert faults("sum", {0: 1, 1: 1}) == faults("mean", {0: 0.5, 1: 0.5}) == faults("first", {0: 1}) == []
    for merge, found in (
        ("sum", {0: 1}),
        ("sum", {0: 2, 1: 1}),
        ("mean", {0: 1, 1: 1}),
        ("first", {1: 1}),
        ("sum", {}),
    ):
        assert len(faults(merge, found)) == 1
    assert faults("mean", {0: 1, 1: 1}) == [
        "merge of average: CPU:1 takes 1 of device 0 + 1 of device 1; must be 0.5 of device 0 + 0.5 of device 1: assign"
    ]


def test_a_device_hands_its_own_value_to_a_collective():
    handed = {"own": 1, "all_reduced": True}
    assert faults("sum", {1: 1.0}, **handed) == []
    assert len(faults("sum", {0: 1.0}, **handed)) == len(faults("mean", {1: 1}, **handed)) == 1


def test_a_merge_that_nothing_takes_is_a_fault():
    needed = NeededMerge("metric a", "told", 1, None, {0: 1.0})
    assert list(check_merges([], [needed])) == ["merge of metric a: nothing takes it in the graphs that ran"]
