"""How trials of real models end that fail: each by a fault that is planted in the user's own code."""

import re
import sys
from pathlib import Path

import pytest

from tfperf.errors import CardError, TrainingError
from tfperf.runcard.dump import to_json_tree
from tfperf.study.child import run_subprocess
from tfperf.study.memory import COMMAND, run_memory_study
from tfperf.study.trial_ends import find_end
from tfperf.workloads.cards import load_checked_card

pytestmark = pytest.mark.slow  # each imports TensorFlow, once at least

MIB = 2**20
NETS = """import ctypes
import keras
import numpy as np
import tensorflow as tf


class Planted(keras.layers.Layer):
    def call(self, inputs):
        {fault}
        return inputs


def build():
    model = keras.Sequential([keras.Input((64,)), Planted(), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model


def load():
    return np.ones((32, 64), "float32"), np.ones((32, 1), "float32")
"""
ENDLESS = "inputs = tf.while_loop(lambda x: tf.constant(True), lambda x: (x + 1,), (inputs,))[0]"
FAULTS = {
    "allocation": (
        "tf.py_function(lambda: bytearray(1 << 62) and None, [], [])", "memory",
        "the allocator had none left: MemoryError",
    ),
    # a tensor of 1 GiB within a limit of 256 MiB
    "tensor": (
        "inputs += tf.reduce_sum(tf.random.uniform((2**28,)))", "memory",
        r"the allocator had none left: OOM when allocating tensor with shape\[268435456\]",
    ),
    "segmentation fault": ("tf.py_function(lambda: ctypes.string_at(0) and None, [], [])", "suspected", "SIGSEGV"),
    "endless": (ENDLESS, "suspected", "timeout: not done after 40 s"),
}  # fmt: skip
OTHERS = {
    "tf.debugging.assert_less(inputs, 0.0, 'too large')": "in a step: raised InvalidArgumentError(.|\n)*too large",
    "raise ValueError('out of memory, says this layer alone')": "raised ValueError(.|\n)*says this layer alone",
}


@pytest.fixture
def make_card(tmp_path):
    def make(name, fault):
        (tmp_path / f"{name}.py").write_text(NETS.replace("{fault}", fault))
        path = tmp_path / "card.yaml"
        path.write_text(
            f"workload: keras\nmodel: {{build: '{name}.py:build'}}\ndata: {{build: '{name}.py:load'}}\n"
            "train: {epochs: 1}\nengine: {xla: false}\nmemory: {budget: 0.25, device: cpu-arena}\n"
        )
        return load_checked_card(path, ())

    return make


@pytest.mark.parametrize("fault", FAULTS)
def test_ends_of_real_models_are_named(tmp_path, make_card, fault):
    code, kind, said = FAULTS[fault]
    request = {
        "card": to_json_tree(make_card("tfperf_made_up_fault", code)), "mode": "train", "device": "cpu-arena",
        "limit": 256 * MIB, "batch": 8, "share": None, "more": 0, "folder": str(Path(tmp_path) / "trial"),
    }  # fmt: skip
    record = run_subprocess(COMMAND, request, lambda: False, 40)
    assert record is not None
    end = find_end(record)
    assert end is not None and end.kind == kind, end
    assert re.search(said, end.why), end.why


@pytest.mark.parametrize("fault", OTHERS)
def test_a_model_that_fails_for_another_reason_ends_the_study_and_is_named(tmp_path, make_card, fault):
    with pytest.raises(CardError, match=OTHERS[fault]):
        run_memory_study(make_card("tfperf_made_up_other", fault), tmp_path / "out", lambda *_: None)


def test_an_endless_step_ends_the_study_and_is_named(tmp_path, make_card):
    card = make_card("tfperf_made_up_endless", ENDLESS)
    with pytest.raises(TrainingError, match=r"train: batch 1 fails: timeout: not done after 25 s; .* does not end"):
        run_memory_study(card, tmp_path / "out", lambda *_: None, timeout=25)
    assert sys.modules.get("tfperf_made_up_endless") is None  # it has never run here
