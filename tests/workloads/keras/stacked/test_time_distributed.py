"""Layers at each step as a stack: the same as each alone."""

import keras
import numpy as np
import pytest
from keras import layers

from tests.workloads.keras.stacked.branches import join_branches
from tests.workloads.keras.stacked.pairs import assert_same, compile_model, draw, refuse

LENGTH, WIDTH, SAMPLES = 3, 3, 16
Y, HELD_Y = draw(21, 2, seed=1), draw(8, 2, seed=3)


def draw_gaps(samples, seed, *inner):
    """Sequences with steps of zeros."""
    x = draw(samples, LENGTH, *inner, WIDTH, seed=seed)
    x[np.random.default_rng(seed).random(x.shape[:-1]) < 0.4] = 0
    return x


def compare(makers, masked=False, inner=(), held=False, replicas=2, samples=SAMPLES, **options):
    """makers: of layers that are distributed, side by side."""

    def build():
        inputs = keras.Input((LENGTH, *inner, WIDTH))
        distributed = [lambda make=make: layers.TimeDistributed(make()) for make in makers]
        return join_branches(inputs, layers.Masking()(inputs) if masked else inputs, distributed)

    validation = (draw_gaps(8, 2, *inner), HELD_Y) if held else None
    return assert_same(build, (draw_gaps(samples, 0, *inner), Y[:samples]), validation, replicas=replicas, **options)


SOME = [
    lambda: layers.Dense(5, "tanh", activity_regularizer="l2", kernel_regularizer="l2"),
    lambda: layers.Dropout(0.3), lambda: layers.BatchNormalization(momentum=0.7),
]  # fmt: skip


def test_steps_at_once_and_one_by_one():
    compare(SOME)


@pytest.mark.parametrize("xla", [False, True])
def test_a_shorter_last_batch(xla):
    compare(SOME, held=not xla, samples=21, xla=xla)


def make_frozen():
    inner = keras.Sequential([keras.Input((WIDTH,)), layers.Dense(5, "relu"), layers.Dense(3)])
    inner.trainable = False
    return inner


def make_dropping():
    own = layers.Dense(5, "tanh", activity_regularizer="l2")
    return keras.Sequential([keras.Input((WIDTH,)), own, layers.Dropout(0.2)])


def test_models():
    compare([make_frozen, make_dropping, lambda: layers.Dense(2)])


@pytest.mark.filterwarnings("ignore:.*destroy the mask:UserWarning")  # what flattens them
@pytest.mark.parametrize("masked", [False, True])
def test_recurrent_layers(masked):
    compare(
        [
            lambda: layers.LSTM(3), lambda: layers.GRU(3, dropout=0.2),
            lambda: layers.Bidirectional(layers.SimpleRNN(3, activity_regularizer="l2")),
        ],
        masked, (4,),
    )  # fmt: skip


def test_masks_go_on():
    def make():
        some = [layers.Masking(), layers.TimeDistributed(layers.Dense(4)), layers.SimpleRNN(3), layers.Dense(2)]
        return compile_model([keras.Input((LENGTH, WIDTH)), *some])

    assert_same(make, (draw_gaps(SAMPLES, 0), Y[:SAMPLES]), replicas=2)


def test_what_cannot_be_stacked_is_named():
    def make(inner):
        return lambda: compile_model([keras.Input((LENGTH, WIDTH)), layers.TimeDistributed(inner(), name="a")])

    inner = make(lambda: layers.Dense(3, activation=lambda x: x, name="b"))
    reason = "its activation <lambda> is not one of Keras'"
    assert refuse(inner) == [f"TimeDistributed (a): within it Dense (b): {reason}"]
