"""Recurrent layers as a stack: the same as each alone. A model has several side by side: most time goes to tracing."""

import keras
import numpy as np
import pytest
from keras import layers

from tests.workloads.keras.stacked.pairs import assert_same, compile_model, draw, refuse

LENGTH, WIDTH, SAMPLES = 4, 3, 16
KINDS = [layers.SimpleRNN, layers.LSTM, layers.GRU]


def draw_gaps(samples, seed):
    """Sequences with steps of zeros: at the beginning, in the middle, at the end, and in all of one sample."""
    x = draw(samples, LENGTH, WIDTH, seed=seed)
    x[np.random.default_rng(seed).random((samples, LENGTH)) < 0.4] = 0
    x[0], x[1, :2], x[2, 3:] = 0, 0, 0
    return x


X, Y = draw(21, LENGTH, WIDTH), draw(21, 2, seed=1)
GAPS, HELD_GAPS, HELD_Y = draw_gaps(SAMPLES, 0), draw_gaps(8, 2), draw(8, 2, seed=3)


def join_branches(inputs, found):
    """A model of all that was found side by side (B, ...), compiled."""
    y = layers.Concatenate()([one for one in found])
    model = keras.Model(inputs, layers.Dense(2)(y))
    model.compile(keras.optimizers.SGD(1e-2, momentum=0.9), "mse", metrics=["mae"])
    return model


def compare(make, masked=False, held=False, replicas=2, **options):
    """make: lists of layers, each list a branch."""

    def build():
        inputs = keras.Input((LENGTH, WIDTH))
        x = layers.Masking()(inputs) if masked else inputs
        return join_branches(inputs, [run_all(x, branch) for branch in make()])

    x = GAPS if masked else X[:SAMPLES]
    return assert_same(build, (x, Y[:SAMPLES]), (HELD_GAPS, HELD_Y) if held else None, replicas=replicas, **options)


def run_all(x, branch):
    for layer in branch:
        x = layer(x)
    return x


def test_each_kind_after_a_mask():
    compare(lambda: [[kind(4)] for kind in KINDS], masked=True)


@pytest.mark.parametrize("xla", [False, True])
def test_a_shorter_last_batch(xla):
    def make():
        some = [layers.LSTM(4, return_sequences=True), layers.GRU(3)]
        return compile_model([keras.Input((LENGTH, WIDTH)), *some, layers.Dense(2)])

    assert_same(make, (X, Y), None if xla else (HELD_GAPS, HELD_Y), xla=xla, replicas=2 if xla else 3)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (
            layers.LSTM,
            [
                {"use_bias": False}, {"activation": "relu", "recurrent_activation": "softmax"}, {"go_backwards": True},
                {"unroll": True}, {"implementation": 1},
                {"kernel_regularizer": "l2", "activity_regularizer": "l1", "recurrent_constraint": "max_norm"},
            ],
        ),
        (
            layers.GRU,
            [
                {"reset_after": False}, {"use_bias": False}, {"reset_after": False, "use_bias": False, "unroll": True},
                {"implementation": 1}, {"go_backwards": True, "bias_regularizer": "l2"},
            ],
        ),
        (layers.SimpleRNN, [{"use_bias": False, "activation": None}, {"go_backwards": True, "unroll": True}]),
    ],
)  # fmt: skip
def test_options(kind, options):
    compare(lambda: [[kind(4, **some)] for some in options])


@pytest.mark.parametrize("unroll", [False, True])
def test_masks_hold_states(unroll):
    compare(
        lambda: [[kind(4, unroll=unroll, return_sequences=True), kind(3, unroll=unroll)] for kind in KINDS],
        masked=True, held=True,
    )  # fmt: skip


@pytest.mark.parametrize("unroll", [False, True])
def test_masks_go_backwards_and_hide_outputs(unroll):
    def make():
        options = {"zero_output_for_mask": True, "go_backwards": True, "unroll": unroll}
        return [
            [layers.LSTM(4, return_sequences=True, **options), layers.GRU(3, use_bias=False)],
            [layers.GRU(4, **options)],
            [layers.SimpleRNN(4, go_backwards=True, return_sequences=True), layers.LSTM(3)],
        ]

    compare(make, masked=True)


RATES = [{"dropout": 0.3}, {"recurrent_dropout": 0.4}, {"dropout": 0.3, "recurrent_dropout": 0.4}]


@pytest.mark.parametrize("kind", KINDS)
def test_each_drops_what_it_would_drop_alone(kind):
    compare(lambda: [[kind(4, return_sequences=True, **rates), kind(3)] for rates in RATES])


def test_dropout_of_a_reset_before_the_product_and_of_each_gate():
    compare(
        lambda: [
            [layers.GRU(4, dropout=0.2, recurrent_dropout=0.3, reset_after=False)],
            [layers.RNN(layers.LSTMCell(4, dropout=0.2, implementation=1))], [layers.GRU(4, dropout=1.0)],
        ],
        masked=True,
    )  # fmt: skip


def test_cells():
    def make():
        several = [layers.LSTMCell(4, recurrent_dropout=0.2), layers.GRUCell(3), layers.SimpleRNNCell(5)]
        cells = [layers.LSTMCell(4), layers.GRUCell(4, reset_after=False), layers.SimpleRNNCell(4), several]
        return [[layers.RNN(one, go_backwards=True)] for one in cells]

    compare(make, masked=True)


def test_states_are_given_and_returned():
    """With first states Keras leaves out the mask, unless it is given."""

    def make():
        x, other = keras.Input((LENGTH, WIDTH)), keras.Input((2,))
        masked, found = layers.Masking()(x), []
        for kind, count in ((layers.LSTM, 2), (layers.GRU, 1)):
            begin = [layers.Dense(4, "tanh")(other) for _ in range(count)]
            _, *states = kind(4, return_state=True)(masked, initial_state=begin)
            y, *last = kind(4, return_state=True, return_sequences=True)(masked, states)
            y = kind(4)(y, mask=masked._keras_mask, initial_state=states)
            found += [y, *last]
        return join_branches([x, other], found)

    assert_same(make, ((GAPS, draw(SAMPLES, 2, seed=5)), Y[:SAMPLES]), replicas=2)


class Own(layers.SimpleRNNCell):
    """One whose call may do anything."""


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: layers.LSTM(4, stateful=True, name="a"), "LSTM (a): it is stateful"),
        (lambda: layers.RNN(Own(4), name="a"), "RNN (a): its cell Own has no stacked form"),
        (
            lambda: layers.GRU(4, recurrent_activation=lambda x: x, name="a"),
            "GRU (a): its activation <lambda> is not one of Keras'",
        ),
    ],
)
def test_what_cannot_be_stacked_is_named(make, reason):
    assert refuse(lambda: compile_model([keras.Input((LENGTH, WIDTH), batch_size=7), make()])) == [reason]
