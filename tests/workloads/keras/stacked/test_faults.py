"""Faults that stacks of replicas are known for, planted one by one: the comparison with lanes sees each."""

import json
from functools import cache

import keras
import pytest
import tensorflow as tf
from click.testing import CliRunner
from keras import layers

from tests.workloads.keras.replicas import nets
from tests.workloads.keras.stacked.pairs import EXACT, compare_states, draw, make_factory, train, use_float64
from tfperf.cli import main
from tfperf.train import choosing
from tfperf.workloads.keras.replicas.forms import LANES, STACKED
from tfperf.workloads.keras.stacked import optimizer
from tfperf.workloads.keras.stacked.draws import draw_replicas
from tfperf.workloads.keras.stacked.layers import batch_normalization, dense, dropout
from tfperf.workloads.keras.stacked.stack import KerasStack

REPLICAS, STEPS = 3, 3
DATA = draw(21, 4), draw(21, 2, seed=1)


def build():
    """With draws, statistics and clipping."""
    hidden = [layers.Dense(5, "tanh"), layers.BatchNormalization(momentum=0.7), layers.Dropout(0.3)]
    model = keras.Sequential([keras.Input((4,)), *hidden, layers.Dense(2)])
    model.compile(keras.optimizers.SGD(1e-1, momentum=0.9, global_clipnorm=0.1), "mse", metrics=["mae"])
    return model


@cache
def train_lanes():
    """The truth, and what makes both forms."""
    with use_float64():
        factory = make_factory(build, DATA, replicas=REPLICAS)
        return factory, train(factory, LANES, STEPS)


def compare():
    """AssertionError where the stack as it is now is not as the lanes."""
    factory, lanes = train_lanes()
    with use_float64():
        stack = train(factory, STACKED, STEPS)
    compare_states(factory, lanes, stack, EXACT)


def plant_fan_in(patch):
    """Kernels drawn with the replicas as one of their axes, which makes them smaller."""
    start = KerasStack.start

    def start_otherwise(self, starts):
        start(self, starts)
        for name, one in self.weights.items():
            if "kernel" in name:
                one.assign(keras.initializers.GlorotUniform(seed=1)(one.shape, one.dtype))

    patch.setattr(KerasStack, "start", start_otherwise)


def plant_common_draws(patch):
    """What the first replica drops, all drop."""

    def draw_once(*some):
        return tf.repeat(draw_replicas(*some)[:1], REPLICAS, axis=0)

    patch.setattr(dropout, "draw_replicas", draw_once)


def plant_common_statistics(patch):
    """Mean and variance of the samples of all replicas."""
    own = batch_normalization.measure_channels

    def measure(x, axis, mask):
        return [tf.repeat(tf.reduce_mean(one, 0, keepdims=True), x.shape[0], axis=0) for one in own(x, axis, mask)]

    patch.setattr(batch_normalization, "measure_channels", measure)


def plant_joint_clipping(patch):
    """By the norm of all replicas' gradients."""

    def clip(found, limits, squares, tables):
        return tf.clip_by_global_norm(found, limits["global_clipnorm"])[0], squares

    patch.setattr(optimizer, "clip", clip)


def plant_common_order(patch):
    """All are trained on the samples of the first."""
    feed = KerasStack.feed

    def feed_otherwise(self, step, count):
        found = feed(self, step, count)
        self.rows.assign(tf.repeat(self.rows[:, :1], self.replicas, axis=1))
        return found

    patch.setattr(KerasStack, "feed", feed_otherwise)


def plant_mixing(patch):
    """A layer that takes the mean of all replicas from each."""
    call = dense.StackedDenseLayer.call

    def call_otherwise(self, values, *inputs, **options):
        y = call(self, values, *inputs, **options)
        return y - tf.reduce_mean(y, 0, keepdims=True)

    patch.setattr(dense.StackedDenseLayer, "call", call_otherwise)


FAULTS = [plant_common_order, plant_fan_in, plant_common_draws, plant_common_statistics, plant_joint_clipping]


@pytest.mark.parametrize("plant", FAULTS)
def test_the_comparison_with_lanes_sees(plant, monkeypatch):
    compare()
    plant(monkeypatch)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        compare()


@pytest.mark.parametrize(
    ("plant", "what"),
    [
        (plant_common_statistics, "the gradient of"), (plant_mixing, "the gradient of"),
        (plant_joint_clipping, "the step of"),
    ],
)  # fmt: skip
def test_what_passes_between_replicas_is_named(plant, what, monkeypatch):
    with use_float64():
        factory = make_factory(build, DATA, replicas=REPLICAS)
        assert factory.find_difference() is None
        plant(monkeypatch)
        found = factory.find_difference()
    assert found is not None and found.startswith("a batch of one replica changes") and what in found


def test_a_stack_that_fails_at_its_first_batch_is_told_of(monkeypatch):
    def fail(*_):
        raise ValueError("no\nsuch shape")

    with use_float64():
        factory = make_factory(build, DATA, replicas=REPLICAS)
        monkeypatch.setattr(KerasStack, "take_batch", fail)
        assert factory.find_difference() == "a first batch fails in the stack: ValueError: no such shape"


CARD = f"""
workload: keras
seed: 2
replicas: 3
model: {{build: "{nets.__file__}:build"}}
data: {{build: "{nets.__file__}:load", batch: 16}}
train: {{epochs: 1}}
engine: {{xla: false, form: FORM}}
"""


@pytest.mark.slow
def test_a_coupled_stack_gives_way_to_lanes_and_the_report_says_why(tmp_path, monkeypatch):
    monkeypatch.setattr(choosing, "TIMING_SECONDS", 0.01)
    plant_common_statistics(monkeypatch)
    card, run = tmp_path / "card.yaml", tmp_path / "run"
    card.write_text(CARD.replace("FORM", "auto"))
    done = CliRunner().invoke(main, ["fit", str(card), "-o", str(run)])
    assert done.exit_code == 0, done.output
    report = json.loads((run / "report.json").read_text())
    (reason,) = report["not_stacked"]
    assert "changes" in reason and "batch_normalization" in reason and report["choices"]["form"] == LANES
    assert f"not stacked: {reason}" in " ".join(done.output.split()) and reason in (run / "report.html").read_text()

    card.write_text(CARD.replace("FORM", "stacked"))
    done = CliRunner().invoke(main, ["fit", str(card), "-o", str(tmp_path / "other")])
    assert done.exit_code == 2 and "the model cannot be stacked" in done.output and "Traceback" not in done.output
