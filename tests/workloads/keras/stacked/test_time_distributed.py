"""Layers at each step as a stack: the same as each alone."""

import keras
import numpy as np
import pytest
from keras import layers

from tests.workloads.keras.stacked.pairs import assert_same, compile_model, draw, refuse

LENGTH, WIDTH = 3, 4
Y, HELD_Y = draw(21, 2, seed=1), draw(13, 2, seed=3)


def draw_gaps(samples, seed, *inner):
    """Sequences with steps of zeros."""
    x = draw(samples, LENGTH, *inner, WIDTH, seed=seed)
    x[np.random.default_rng(seed).random(x.shape[:-1]) < 0.4] = 0
    return x


def compare(make, masked=False, inner=(), **options):
    """Some layers between masks, if wanted, and an output, in both forms."""

    def build():
        before = [layers.Masking()] if masked else []
        rest = [*make(), layers.Flatten(), layers.Dense(2)]
        return compile_model([keras.Input((LENGTH, *inner, WIDTH)), *before, *rest], metrics=["mae"])

    held = draw_gaps(13, 2, *inner), HELD_Y
    return assert_same(build, (draw_gaps(21, 0, *inner), Y), held, **options)


@pytest.mark.parametrize("xla", [False, True])
def test_steps_at_once_and_one_by_one(xla):
    compare(lambda: [
        layers.TimeDistributed(layers.Dense(5, "tanh", activity_regularizer="l2", kernel_regularizer="l2")),
        layers.TimeDistributed(layers.Dropout(0.3)), layers.TimeDistributed(layers.Dense(3)),
    ], xla=xla)  # fmt: skip


@pytest.mark.parametrize("frozen", [False, True])
def test_models(frozen):
    def make():
        inner = keras.Sequential([keras.Input((WIDTH,)), layers.Dense(5, "relu"), layers.Dense(3)])
        inner.trainable = not frozen
        drops = keras.Sequential([keras.Input((3,)), layers.Dense(5, "tanh", activity_regularizer="l2"),
            layers.Dropout(0.2)])  # fmt: skip
        return [layers.TimeDistributed(inner), layers.TimeDistributed(drops)]

    compare(make)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    "make",
    [
        lambda: layers.LSTM(3), lambda: layers.GRU(3, dropout=0.2),
        lambda: layers.Bidirectional(layers.SimpleRNN(3, activity_regularizer="l2")),
    ],
)  # fmt: skip
def test_recurrent_layers(make, masked):
    compare(lambda: [layers.TimeDistributed(make())], masked, (4,))


def test_masks_go_on():
    compare(lambda: [layers.TimeDistributed(layers.Dense(4)), layers.LSTM(3)], True)


def test_statistics_go_on_from_step_to_step():
    compare(lambda: [layers.TimeDistributed(layers.BatchNormalization(momentum=0.7))])


def test_what_cannot_be_stacked_is_named():
    def make(inner):
        return lambda: compile_model([keras.Input((LENGTH, WIDTH)), layers.TimeDistributed(inner(), name="a")])

    inner = make(lambda: layers.Dense(3, activation=lambda x: x, name="b"))
    reason = "its activation <lambda> is not one of Keras'"
    assert refuse(inner) == [f"TimeDistributed (a): within it Dense (b): {reason}"]
