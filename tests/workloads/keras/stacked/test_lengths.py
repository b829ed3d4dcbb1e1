"""Sequences whose length a model leaves open, as a stack; and draws of a shape that is given."""

from functools import partial

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from tests.workloads.keras.stacked.branches import join_branches
from tests.workloads.keras.stacked.pairs import assert_same, draw
from tfperf.workloads.keras.replicas.predicting import list_weights, predict_replicas
from tfperf.workloads.keras.stacked.replicas import fold, unfold

SHAPE = (5, 4)
DATA, HELD = (draw(21, *SHAPE), draw(21, 2, seed=1)), (draw(13, *SHAPE, seed=2), draw(13, 2, seed=3))


@pytest.mark.parametrize("known", [(None, None, None), (3, None, None), (None, 2, 4), (3, 2, None)])
def test_what_is_folded_is_unfolded_where_axes_are_named_unknown(known):
    """known: samples, and two axes behind them."""

    @tf.function(input_signature=[tf.TensorSpec([2, *known])], autograph=False)
    def turn(x):
        found = unfold(2 * fold(x), 2)
        assert found.shape.as_list() == [2, *known]
        return found

    x = np.arange(48, dtype=np.float32).reshape(2, 3, 2, 4)
    np.testing.assert_array_equal(turn(x), 2 * x)


@pytest.mark.filterwarnings("ignore:.*destroy the mask:UserWarning")
@pytest.mark.parametrize("is_masked", [False, True])
def test_a_length_that_is_left_open(is_masked):
    makers = [
        partial(layers.LSTM, 3, return_sequences=True), partial(layers.GRU, 3, return_sequences=True),
        lambda: layers.Bidirectional(layers.SimpleRNN(3, return_sequences=True)),
        partial(layers.Conv1D, 3, 2, padding="same"), partial(layers.MaxPooling1D, 2, padding="same"),
        partial(layers.LayerNormalization), partial(layers.Dropout, 0.3), layers.BatchNormalization,
        partial(layers.PReLU, shared_axes=[1]), lambda: layers.TimeDistributed(layers.Dense(3)),
        lambda: _attend(layers.MultiHeadAttention(2, 2)), partial(layers.EinsumDense, "abc,cd->abd", (None, 3)),
        partial(layers.Reshape, (-1, 2)), partial(layers.UpSampling1D, 2), partial(layers.Dense, 3),
    ]  # fmt: skip

    def make():
        inputs = keras.Input((None, 4))
        return join_branches(inputs, layers.Masking()(inputs) if is_masked else inputs, makers,
                             layers.GlobalAveragePooling1D)  # fmt: skip

    x, held = (np.where(draw(*one.shape[:2], 1, seed=7) > 0.5, 0, one) for one in (DATA[0], HELD[0]))
    assert_same(make, (x, DATA[1]), (held, HELD[1]), replicas=2)


def _attend(layer):
    return lambda x: layer(x, x)


def test_draws_of_a_given_shape():
    def make():
        inputs = keras.Input((None, 4))
        shapes = [(None, 1, 4), (None, None, 1), (1, None, None), (None, None, None)]
        makers = [partial(layers.Dropout, 0.4, noise_shape=one) for one in shapes]
        makers.append(partial(layers.AlphaDropout, 0.4, noise_shape=(None, 1, 4)))
        x = layers.Dense(4, "tanh")(inputs)
        return join_branches(inputs, x, makers, layers.GlobalAveragePooling1D)

    assert_same(make, DATA, HELD, replicas=2)


def test_predictions_of_a_shorter_last_batch_by_layers_named_here():
    """By those that ask for the number of samples."""
    inputs = keras.Input(SHAPE)
    found = [
        layers.LSTM(3)(inputs), layers.Flatten()(layers.TimeDistributed(layers.Dense(3))(inputs)),
        layers.Flatten()(layers.MultiHeadAttention(2, 2)(inputs, inputs)),
    ]  # fmt: skip
    model = keras.Model(inputs, layers.Concatenate()(found))
    weights = {str(i): np.stack([v.numpy(), 2 * v.numpy()]) for i, v in enumerate(list_weights(model))}
    x = DATA[0].astype(np.float32)
    got = predict_replicas(model, weights, x, 16)
    # float32 sums of some ten numbers of about 1
    np.testing.assert_allclose(got[0], model(x), rtol=1e-5, atol=1e-5)
    assert got.shape[:2] == (2, 21)
