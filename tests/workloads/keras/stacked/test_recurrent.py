"""Recurrent layers as a stack: the same as each alone."""

import keras
import numpy as np
import pytest
from keras import layers

from tests.workloads.keras.stacked.pairs import assert_same, compile_model, draw, refuse

LENGTH, WIDTH = 5, 4
KINDS = [layers.SimpleRNN, layers.LSTM, layers.GRU]
Y, HELD_Y = draw(21, 2, seed=1), draw(13, 2, seed=3)


def draw_gaps(samples, seed):
    """Sequences with steps of zeros: at the beginning, in the middle, at the end, and in all of one sample."""
    x = draw(samples, LENGTH, WIDTH, seed=seed)
    x[np.random.default_rng(seed).random((samples, LENGTH)) < 0.4] = 0
    x[0], x[1, :2], x[2, 3:] = 0, 0, 0
    return x


X, HELD = draw(21, LENGTH, WIDTH), (draw(13, LENGTH, WIDTH, seed=2), HELD_Y)
GAPS, HELD_GAPS = draw_gaps(21, 0), (draw_gaps(13, 2), HELD_Y)


def compare(*some, masked=False, held=True, **options):
    """Some layers between a projection and an output, in both forms."""

    def make():
        before = [layers.Masking()] if masked else []
        return compile_model([keras.Input((LENGTH, WIDTH)), *before, *some_layers(), layers.Dense(2)], metrics=["mae"])

    some_layers = some[0]
    x, validation = (GAPS, HELD_GAPS) if masked else (X, HELD)
    return assert_same(make, (x, Y), validation if held else None, **options)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("xla", [False, True])
def test_layers_one_after_the_other(kind, xla):
    compare(lambda: [kind(5, return_sequences=True), kind(3)], xla=xla)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (layers.LSTM, {"use_bias": False}), (layers.LSTM, {"activation": "relu", "recurrent_activation": "softmax"}),
        (layers.LSTM, {"go_backwards": True}), (layers.LSTM, {"unroll": True}), (layers.LSTM, {"implementation": 1}),
        (layers.LSTM, {"kernel_regularizer": "l2", "activity_regularizer": "l1", "recurrent_constraint": "max_norm"}),
        (layers.GRU, {"reset_after": False}), (layers.GRU, {"use_bias": False}),
        (layers.GRU, {"reset_after": False, "use_bias": False, "unroll": True}), (layers.GRU, {"implementation": 1}),
        (layers.GRU, {"go_backwards": True, "return_sequences": True}),
        (layers.SimpleRNN, {"use_bias": False, "activation": None}), (layers.SimpleRNN, {"go_backwards": True}),
    ],
)  # fmt: skip
def test_options(kind, options):
    after = [layers.Flatten()] if options.get("return_sequences") else []
    compare(lambda: [kind(4, **options), *after], held=False)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("unroll", [False, True])
@pytest.mark.parametrize("sequences", [False, True])
def test_masks_hold_states(kind, unroll, sequences):
    after = [layers.GlobalAveragePooling1D()] if sequences else []
    compare(lambda: [kind(4, unroll=unroll, return_sequences=sequences), *after], masked=True)


@pytest.mark.parametrize("sequences", [False, True])
def test_masks_go_backwards_and_hide_outputs(sequences):
    def make():
        options = {"zero_output_for_mask": True, "return_sequences": sequences, "go_backwards": True}
        return [layers.LSTM(4, **options), *([layers.GRU(3, use_bias=False)] if sequences else [])]

    compare(make, masked=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "rates", [{"dropout": 0.3}, {"recurrent_dropout": 0.4}, {"dropout": 0.3, "recurrent_dropout": 0.4}]
)
def test_each_drops_what_it_would_drop_alone(kind, rates):
    compare(lambda: [kind(4, return_sequences=True, **rates), kind(3)])


def test_dropout_of_a_reset_before_the_product_and_of_each_gate():
    compare(lambda: [
        layers.GRU(4, dropout=0.2, recurrent_dropout=0.3, reset_after=False, return_sequences=True),
        layers.LSTM(4, dropout=0.2, implementation=1, return_sequences=True), layers.GRU(4, dropout=1.0),
    ], masked=True)  # fmt: skip


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    "make",
    [
        lambda: [layers.LSTMCell(4)], lambda: [layers.GRUCell(4, reset_after=False)],
        lambda: [layers.SimpleRNNCell(4, dropout=0.2)],
        lambda: [layers.LSTMCell(4, recurrent_dropout=0.2), layers.GRUCell(3), layers.SimpleRNNCell(5)],
    ],
)  # fmt: skip
def test_cells(make, masked):
    def make_layers():
        cells = make()
        return [layers.RNN(cells if len(cells) > 1 else cells[0], go_backwards=True)]

    compare(make_layers, masked=masked)


@pytest.mark.parametrize("sequences", [False, True])
@pytest.mark.parametrize("kind", [layers.LSTM, layers.GRU])
def test_states_are_given_and_returned(kind, sequences):
    def make():
        x, other = keras.Input((LENGTH, WIDTH)), keras.Input((3,))
        masked = layers.Masking()(x)
        count = 2 if kind is layers.LSTM else 1
        begin = [layers.Dense(4, "tanh")(other) for _ in range(count)]
        _, *states = kind(4, return_state=True)(masked, initial_state=begin)
        y, *last = kind(4, return_state=True, return_sequences=sequences)(masked, initial_state=states)
        y = layers.GlobalAveragePooling1D()(y) if sequences else y
        model = keras.Model([x, other], layers.Dense(2)(layers.Concatenate()([y, *last])))
        model.compile(keras.optimizers.SGD(1e-2, momentum=0.9), "mse")
        return model

    assert_same(make, ((GAPS, draw(21, 3, seed=5)), Y), ((HELD_GAPS[0], draw(13, 3, seed=6)), HELD_Y))


def test_a_mask_and_states_given_by_name():
    def make():
        x, mask, begin = keras.Input((LENGTH, WIDTH)), keras.Input((LENGTH,)), keras.Input((4,))
        kept = keras.layers.Masking()(keras.layers.Reshape((LENGTH, 1))(mask))
        y = layers.GRU(4, return_sequences=True)(x, mask=kept._keras_mask, initial_state=begin)
        model = keras.Model([x, mask, begin], layers.Dense(2)(layers.GlobalAveragePooling1D()(y)))
        model.compile(keras.optimizers.SGD(1e-2, momentum=0.9), "mse")
        return model

    kept = (draw(21, LENGTH, seed=4) > 0).astype(float)
    assert_same(make, ((X, kept, draw(21, 4, seed=5)), Y))


class Own(layers.SimpleRNNCell):
    pass


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
