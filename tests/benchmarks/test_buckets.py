"""The benchmark of bucketing says only what its seeds bear out."""

import math

import numpy as np
import pytest

from benchmarks import buckets, buckets_side
from benchmarks.buckets import MARKS, WAYS, conclude, make_row
from benchmarks.registry import REGISTRY
from tests.runcard.cards import write
from tfperf.workloads.translate.cards import load_card
from tfperf.workloads.translate.corpus import Ragged, Split
from tfperf.workloads.translate.feeding import plan_training

MEASURE = REGISTRY["buckets"].measure
SPREAD = np.array([-3, -2, -1, -1, 0, 0, 1, 1, 2, 3])  # of ten seeds: standard deviation 1.83, interval of +-1.31


@pytest.mark.parametrize(
    ("differences", "sentence"),
    [
        (0.1 + 0.01 * SPREAD, "w harms learning: validation loss higher by 0.100, 95 % interval 0.087 to 0.113"),
        (-0.1 + 0.01 * SPREAD, "w helps learning: validation loss lower by 0.100, 95 % interval -0.113 to -0.087"),
        (0.01 + 0.01 * SPREAD, "no difference seen, and none larger than 0.023, 95 % interval -0.003 to 0.023"),
        (-0.01 + 0.01 * SPREAD, "no difference seen, and none larger than 0.023, 95 % interval -0.023 to 0.003"),
        # half of all draws of ten scatter by less than 0.963 of the truth: 0.163 may be 0.169; t = 2.013 with 46
        # degrees of freedom: 47 seeds of that scatter give 0.169 * 2.013 / sqrt(47) = 0.05
        (
            0.163 / 1.826 * SPREAD,
            "not enough seeds: 95 % interval -0.117 to 0.117; about 47 would narrow it to 0.05 either way, with even "
            "odds",
        ),
        (
            100.0 * SPREAD,
            "not enough seeds: 95 % interval -130.606 to 130.606; more than 10000 would narrow it to 0.05 either way, "
            "with even odds",
        ),
        ([0.1, math.nan, 0.1], "nothing can be said: 1 of 3 seeds have a loss that is no number"),
        ([math.inf], "nothing can be said: 1 of 1 seeds have a loss that is no number"),
        ([0.3], "not enough seeds: one tells nothing of chance"),
        ([0.0, 0.0], "no difference seen, and none larger than 0.000, 95 % interval 0.000 to 0.000"),
    ],
)
def test_each_conclusion(differences, sentence):
    assert conclude("w", list(differences)) == sentence


def record(loss, half, seconds=1.0):
    return {"losses": [9.0, half, 9.0, loss], "train_seconds": seconds, "padding_share": 0.25}


def test_a_row_is_set_beside_the_same_seeds():
    assert MARKS == 4
    found = {"none": [record(4.0, 5.0, 2.0), record(3.0, 4.0, 2.0)], "shared": [record(4.1, 5.3), record(3.1, 4.1)]}
    none, shared = make_row("none", found), make_row("shared", found)
    assert (none["validation loss"], none["difference"], none["conclusion"]) == (3.5, "", "")
    assert shared["difference"] == "0.100 [0.100, 0.100]" and shared["seeds"] == 2
    assert shared["at half the words"].startswith("0.200 [-1.07")  # 0.2 and its t(1) = 12.7 times 0.1
    assert shared["target words/s, ratio"] == "2.000 [2.000, 2.000]" and shared["padding"] == 0.25


def test_an_interrupted_benchmark_goes_on(tmp_path, monkeypatch):
    asked = []

    def run(command, request, stopped):
        if len(asked) == 5:
            raise KeyboardInterrupt
        asked.append(
            (request["card"]["seed"], request["card"]["data"]["buckets"], request["card"]["data"]["bucket_width"])
        )
        return record(4.0, 5.0)

    monkeypatch.setattr("benchmarks.record_store.child.run_subprocess", run)
    with pytest.raises(KeyboardInterrupt):
        list(MEASURE(rounds=2, folder=tmp_path))
    first = list(asked)
    asked.clear()
    rows = list(MEASURE(rounds=2, folder=tmp_path))
    assert [found["buckets"] for found in rows] == list(WAYS) and all(found["seeds"] == 2 for found in rows)
    assert first + asked == [
        (seed, *way) for seed in (1, 2) for way in (("none", 4), ("shared", 4), ("shared", 1), ("per_device", 4))
    ]


def test_all_ways_see_as_many_target_words(tmp_path):
    random = np.random.default_rng(0)
    sides = [random.integers(1, 20, 100) for _ in range(2)]
    part = Split(*(Ragged(np.zeros(n.sum(), np.int32), np.cumsum([0, *n])) for n in sides))
    text = "workload: translate\ndata: {fixed_length: 9, vocabulary: 300, batch: 4}\ntrain: {steps: 10}\n"
    for overrides in WAYS.values():
        card = load_card(write(tmp_path, text), overrides)
        words = np.concatenate(
            [sides[1][plan_training(card, part, 2, epoch).rows].sum(axis=(1, 2)) for epoch in (0, 1)]
        )
        seen = np.cumsum(words)
        marks = [1.0, seen[3], seen[3] + 1, seen[14]]  # the last in the second epoch
        assert list(buckets_side.count_steps(card, part, 2, marks)) == [
            (1, seen[0]), (4, seen[3]), (5, seen[4]), (15, seen[14])
        ]  # fmt: skip


@pytest.mark.slow
def test_a_fit_learns(tmp_path, monkeypatch):
    monkeypatch.setattr(buckets, "WORDS", 20_000)
    rows = {found["buckets"]: found for found in MEASURE(rounds=1, folder=tmp_path)}
    assert all(4 < found["validation loss"] < 7 for found in rows.values())  # log 2000 = 7.6
    assert rows["narrow"]["padding"] < rows["shared"]["padding"] < rows["none"]["padding"]


def test_the_time_it_takes_is_told():
    assert f"{buckets.SEEDS} seeds" in REGISTRY["buckets"].sweep and "minutes" in REGISTRY["buckets"].sweep
