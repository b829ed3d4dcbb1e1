"""The memory of a translator against bytes that are counted by hand; batches of any length; what is refused."""

import json

import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner

from tests.workloads.memory_process import MIB, measure_card
from tests.workloads.translate.translations import make_card
from tfperf.cli import main
from tfperf.place.devices import HOST
from tfperf.workloads.translate.cards import load_card
from tfperf.workloads.translate.feeding import build_dataset
from tfperf.workloads.translate.memory import TranslationMemoryTrial, count_longer_side, plan_repeated
from tfperf.workloads.translate.sizes import count_parameters
from tfperf.workloads.translate.vocabulary import END, PAD, START

LENGTH, UNITS, ROWS, PAIRS = 8, 64, 3000, 400
SYNTHETIC = f"""\
workload: translate
title: sizes
data: {{fixed_length: {LENGTH}, vocabulary: {ROWS}, pairs: 400, batch: 8}}
model: {{units: {UNITS}, layers: 1}}
train: {{steps: 100, steps_per_call: 5}}
decode: {{beam: 1, max_length: 4}}
memory: {{device: cpu-arena}}
"""
LOGITS = 4 * (LENGTH + 1) * ROWS  # bytes of a pair: a label for each piece and END


@pytest.fixture
def synthetic(tmp_path):
    (tmp_path / "card.yaml").write_text(SYNTHETIC)
    return tmp_path / "card.yaml"


def make_trial(card, mode="train"):
    trial = TranslationMemoryTrial(card, mode)
    trial.read_data()
    return trial


@pytest.mark.slow
def test_stages_hold_what_is_counted_by_hand(synthetic):
    record = measure_card(synthetic, PAIRS)
    stages, weights = record["stages"], 4 * count_parameters(load_card(synthetic), ROWS)
    assert stages["model built"]["device"] == pytest.approx(weights, rel=0.06)
    slots = stages["optimizer's slots made"]["device"] - stages["model built"]["device"]
    assert 2 * weights < slots < 4 * weights  # Adam's; the allocator gives a tensor up to twice what it asks for
    (point,) = record["batches"]
    each = (point["least"] - stages["optimizer's slots made"]["device"]) / PAIRS
    assert LOGITS < each < 3 * LOGITS  # logits, whose place their gradient takes; the layers have 40 times less
    assert stages[f"validation, batch {PAIRS}"]["device_peak"] < point["least"], "there are no gradients"


def test_the_host_stands_for_the_device(synthetic):
    trial = make_trial(load_card(synthetic))
    assert trial._devices.each == (HOST,) and [*trial.list_lengths()] == [], "all pairs have one length"


def test_batches_have_the_length_that_is_asked_for(tmp_path):
    card = load_card(make_card(tmp_path))
    trial = make_trial(card)
    half, typical, longest = trial.list_lengths()
    assert half == typical // 2 and typical < longest == 12 and typical % card.data.bucket_width == 0
    split = trial._split
    sides = count_longer_side(split)
    for length in (1, half, typical, longest):
        plan = plan_repeated(split, 400, length)
        rows = plan.rows.ravel()
        assert len(rows) == 400 and set(rows) <= set(range(len(split))), "real pairs, again and again"
        (((source, target),), labels) = next(iter(build_dataset(split, plan)))
        assert source.shape == (400, length) and target.shape == (400, length + 2)
        assert tf.reduce_all(target[:, 0] == START) and int(labels) == np.count_nonzero(target[:, 1:] != PAD)
        whole = sides[rows] <= length
        assert whole.all() == (sides.min() <= length) and np.all(tf.reduce_any(target == END, 1).numpy()[whole])
        if whole.all():
            assert sides[rows[0]] == sides[sides <= length].max(), "the longest ones come first"


@pytest.mark.slow
def test_the_largest_number_of_pairs_passes_and_the_law_holds(synthetic):
    out, small = synthetic.parent / "out", ["model.units=16"]  # whose optimizer does not hide what few pairs need
    arguments = ["memory", str(synthetic), "-o", str(out), "--budget", "0.25", "-q", "--set", *small]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    found = json.loads((out / "memory.json").read_text())["modes"]["train"]
    most, law = found["largest"]["batch"], found["law"]
    assert found["largest"]["passes"] == 3 and most > 0.5 * 2**28 / (3 * LOGITS)
    assert f"largest: {most} sentence pairs, passed in 3 fresh processes" in result.output
    # which the study did not measure
    (point,) = measure_card(synthetic, 3 * most // 4, limit=256 * MIB, overrides=small)["batches"]
    assert law["fixed"] + law["per_sample"] * point["batch"] == pytest.approx(point["least"], rel=0.05)
    (translated,) = measure_card(synthetic, most, 256 * MIB, mode="predict", overrides=small)["batches"]
    assert translated["least"] < 0.5 * point["least"], "there are no gradients, and logits of one piece alone"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("placement.devices=2", r"placement.devices: got 2; memory is measured on one device; allowed: 1"),
        ("placement={engine: multiworker, merge: ring}", "placement.engine: got 'multiworker'"),
        ("placement={engine: central, merge: host}", "placement.engine: got 'central'"),
        ("placement.preset=Exp1", "placement.preset: got 'Exp1'"),
        ("placement={variables: device, updates: host}", "placement.updates: got 'host'"),
        ("engine.lstm=cudnn", "engine.lstm: got 'cudnn'"),
    ],
)  # fmt: skip
def test_what_cannot_be_measured_is_refused_before_anything_is_written(synthetic, given, said):
    result = CliRunner().invoke(main, ["memory", str(synthetic), "-o", str(synthetic.parent / "out"), "--set", given])
    assert result.exit_code == 2 and said in result.output and not (synthetic.parent / "out").exists()
