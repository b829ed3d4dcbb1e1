"""Layers that go both ways as a stack: the same as each alone."""

import keras
import numpy as np
import pytest
from keras import layers

from tests.workloads.keras.stacked.pairs import assert_same, compile_model, draw, refuse

LENGTH, WIDTH = 5, 4
Y, HELD_Y = draw(21, 2, seed=1), draw(13, 2, seed=3)


def draw_gaps(samples, seed):
    """Sequences with steps of zeros, of which one sample has nothing else."""
    x = draw(samples, LENGTH, WIDTH, seed=seed)
    x[np.random.default_rng(seed).random((samples, LENGTH)) < 0.4] = 0
    x[0] = 0
    return x


X, HELD = draw_gaps(21, 0), (draw_gaps(13, 2), HELD_Y)


def compare(make, masked=False, **options):
    """Some layers between masks, if wanted, and an output, in both forms."""

    def build():
        before = [layers.Masking()] if masked else []
        return compile_model([keras.Input((LENGTH, WIDTH)), *before, *make(), layers.Dense(2)], metrics=["mae"])

    return assert_same(build, (X, Y), HELD, **options)


@pytest.mark.parametrize("xla", [False, True])
def test_layers_one_after_the_other(xla):
    compare(lambda: [
        layers.Bidirectional(layers.LSTM(3, return_sequences=True)), layers.Bidirectional(layers.GRU(3))
    ], masked=True, xla=xla)  # fmt: skip


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("mode", ["concat", "sum", "ave", "mul"])
def test_modes(mode, masked):
    compare(lambda: [
        layers.Bidirectional(layers.SimpleRNN(4, return_sequences=True), merge_mode=mode),
        layers.Bidirectional(layers.GRU(3), merge_mode=mode),
    ], masked=masked)  # fmt: skip


def test_two_kinds_drops_and_penalties():
    compare(lambda: [layers.Bidirectional(
        layers.LSTM(3, dropout=0.3, recurrent_dropout=0.2, activity_regularizer="l2", kernel_regularizer="l1"),
        backward_layer=layers.GRU(4, go_backwards=True, dropout=0.2, activity_regularizer="l1"),
    )])  # fmt: skip


@pytest.mark.parametrize("sequences", [False, True])
@pytest.mark.parametrize("mode", ["sum", None])
def test_states_are_given_and_returned(mode, sequences):
    def make():
        x = keras.Input((LENGTH, WIDTH))
        masked = layers.Masking()(x)
        _, *states = layers.Bidirectional(layers.LSTM(3, return_state=True, activity_regularizer="l2"))(masked)
        inner = layers.LSTM(3, return_state=True, return_sequences=sequences)
        found = layers.Bidirectional(inner, merge_mode=mode)(masked, initial_state=states)
        first, last = (found[:2], found[2:]) if mode is None else (found[:1], found[1:])
        if sequences:
            first = [layers.GlobalAveragePooling1D()(one) for one in first]
        model = keras.Model(x, layers.Dense(2)(layers.Concatenate()([*first, *last])))
        model.compile(keras.optimizers.SGD(1e-2, momentum=0.9), "mse")
        return model

    assert_same(make, (X, Y), HELD)


def test_both_outputs_without_states():
    def make():
        x = keras.Input((LENGTH, WIDTH))
        inner = layers.GRU(3, return_sequences=True)
        found = layers.Bidirectional(inner, merge_mode=None)(layers.Masking()(x))
        last = [layers.SimpleRNN(3)(one) for one in found]
        model = keras.Model(x, layers.Dense(2)(layers.Concatenate()(last)))
        model.compile(keras.optimizers.SGD(1e-2, momentum=0.9), "mse")
        return model

    assert_same(make, (X, Y), HELD)


def test_what_cannot_be_stacked_is_named():
    def make():
        inner = layers.LSTM(3, stateful=True, name="a")
        return compile_model([keras.Input((LENGTH, WIDTH), batch_size=7), layers.Bidirectional(inner, name="b")])

    assert refuse(make) == ["Bidirectional (b): within it LSTM (forward_a): it is stateful"]
