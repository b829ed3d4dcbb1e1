"""The memory of a real model, in processes of their own, against bytes that are counted by hand."""

from pathlib import Path

import pytest

from tfperf.runcard.dump import to_json_tree
from tfperf.study.child import run_subprocess
from tfperf.study.memory import COMMAND
from tfperf.study.trial_ends import find_end
from tfperf.workloads.cards import load_checked_card

MIB = 2**20
WIDE = """import keras
import numpy as np


def build():
    model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(4096, "relu"), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    return model


def load():
    return np.ones((32, 64), "float32"), np.ones((32, 1), "float32")
"""
WEIGHTS = 4 * (64 * 4096 + 4096 + 4096 + 1)  # bytes
ACTIVATIONS = 4 * 4096  # of a sample: the hidden layer


@pytest.fixture
def measure(tmp_path):
    (tmp_path / "tfperf_made_up_wide.py").write_text(WIDE)
    path = tmp_path / "card.yaml"
    path.write_text(
        "workload: keras\nmodel: {build: 'tfperf_made_up_wide.py:build'}\n"
        "data: {build: 'tfperf_made_up_wide.py:load', validation: 0.25}\ntrain: {epochs: 1}\n"
    )
    tree = to_json_tree(load_checked_card(path, ()))

    def run(batch, limit=512 * MIB, share=None, mode="train"):
        request = {"card": tree, "mode": mode, "device": "cpu-arena", "limit": limit, "batch": batch, "share": share,
                   "more": 0, "folder": str(Path(tmp_path) / "trial")}  # fmt: skip
        return run_subprocess(COMMAND, request, lambda: False, 120)

    return run


def test_stages_hold_what_is_counted_by_hand(measure):
    record = measure(1024, share=0.1)
    stages = {stage["name"]: stage for stage in record["stages"]}
    assert stages["model built"]["device"] == pytest.approx(WEIGHTS, rel=0.05)
    slots = stages["optimizer's slots made"]["device"] - stages["model built"]["device"]
    assert 2 * WEIGHTS * 0.95 < slots < 4 * WEIGHTS  # the allocator gives a tensor up to twice what it asks for
    assert stages["TensorFlow imported"]["device"] is None and stages["TensorFlow imported"]["ram"] > 300e6
    batches = {one["batch"]: one for one in record["batches"]}
    first, last = batches[1024], batches[max(batches)]
    assert max(batches) > 1024
    per_sample = (last["least"] - first["least"]) / (last["batch"] - first["batch"])
    assert ACTIVATIONS < per_sample < 5 * ACTIVATIONS  # kept for the backward pass, and its gradient


@pytest.mark.slow  # an allocator waits ten seconds before it gives up
def test_a_batch_that_does_not_fit_is_told_and_predictions_need_less(measure):
    record = measure(20_000, limit=256 * MIB)
    assert not record.get("batches")
    end = find_end(record)
    assert end is not None and end.kind in (
        "memory",
        "suspected",
    )  # TensorFlow's kernels for the processor may crash then
    assert measure(6_000, limit=256 * MIB, mode="predict")["batches"][0]["least"] < 256 * MIB
