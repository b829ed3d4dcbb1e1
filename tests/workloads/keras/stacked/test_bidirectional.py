"""Layers that go both ways as a stack: the same as each alone."""

import keras
import numpy as np
import pytest
from keras import layers

from tests.workloads.keras.stacked.branches import join_branches
from tests.workloads.keras.stacked.pairs import assert_same, compile_model, draw, refuse

LENGTH, WIDTH, SAMPLES = 4, 3, 16
MODES = ["concat", "sum", "ave", "mul"]


def draw_gaps(samples, seed):
    """Sequences with steps of zeros, of which one sample has nothing else."""
    x = draw(samples, LENGTH, WIDTH, seed=seed)
    x[np.random.default_rng(seed).random((samples, LENGTH)) < 0.4] = 0
    x[0] = 0
    return x


X, Y = draw_gaps(21, 0), draw(21, 2, seed=1)
HELD = draw_gaps(8, 2), draw(8, 2, seed=3)


def compare(makers, masked=False, held=False, replicas=2, samples=SAMPLES, **options):
    """makers: of layers side by side, or functions of the same tensor."""

    def build():
        inputs = keras.Input((LENGTH, WIDTH))
        return join_branches(inputs, layers.Masking()(inputs) if masked else inputs, makers)

    return assert_same(build, (X[:samples], Y[:samples]), HELD if held else None, replicas=replicas, **options)


def run_two(mode, first, second):
    """One after the other, the first with all its steps."""

    def run(x):
        y = layers.Bidirectional(first(3, return_sequences=True), merge_mode=mode)(x)
        return layers.Bidirectional(second(3), merge_mode=mode)(y)

    return lambda: run


def test_one_after_the_other():
    compare([run_two("concat", layers.LSTM, layers.GRU)], masked=True)


@pytest.mark.parametrize("xla", [False, True])
def test_a_shorter_last_batch(xla):
    compare([run_two("concat", layers.GRU, layers.LSTM)], True, not xla, samples=21, xla=xla)


@pytest.mark.parametrize("masked", [False, True])
def test_modes(masked):
    compare([run_two(mode, layers.SimpleRNN, layers.GRU) for mode in MODES], masked)


def test_unrolled_steps_with_a_mask():
    def run(x):
        y = layers.Bidirectional(layers.SimpleRNN(3, return_sequences=True, unroll=True))(x)
        return layers.Bidirectional(layers.GRU(3, unroll=True))(y)

    compare([lambda: run], masked=True)


def test_two_kinds_drops_and_penalties():
    compare([
        lambda: layers.Bidirectional(
            layers.LSTM(3, dropout=0.3, recurrent_dropout=0.2, activity_regularizer="l2", kernel_regularizer="l1"),
            backward_layer=layers.GRU(3, go_backwards=True, dropout=0.2, activity_regularizer="l1"),
        )
    ])  # fmt: skip


@pytest.mark.parametrize("mode", ["sum", None])
def test_states_are_given_and_returned(mode):
    def run(x):
        _, *states = layers.Bidirectional(layers.LSTM(3, return_state=True, activity_regularizer="l2"))(x)
        inner = layers.LSTM(3, return_state=True, return_sequences=True)
        found = layers.Bidirectional(inner, merge_mode=mode)(x, initial_state=states)
        first, last = (found[:2], found[2:]) if mode is None else (found[:1], found[1:])
        return layers.Concatenate()([*[layers.SimpleRNN(3)(one) for one in first], *last])

    compare([lambda: run], masked=True)


def test_both_outputs_without_states():
    def run(x):
        found = layers.Bidirectional(layers.GRU(3, return_sequences=True), merge_mode=None)(x)
        return layers.Concatenate()([layers.SimpleRNN(3)(one) for one in found])

    compare([lambda: run], masked=True)


def test_what_cannot_be_stacked_is_named():
    def make():
        inner = layers.LSTM(3, stateful=True, name="a")
        return compile_model([keras.Input((LENGTH, WIDTH), batch_size=7), layers.Bidirectional(inner, name="b")])

    assert refuse(make) == ["Bidirectional (b): within it LSTM (forward_a): it is stateful"]
