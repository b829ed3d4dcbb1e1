"""Layers of another type than what they are given, as a stack: cast as Keras casts, and the same as each alone."""

from functools import partial

import keras
import pytest
from keras import layers

from tests.workloads.keras.stacked.branches import build_branches
from tests.workloads.keras.stacked.pairs import assert_same, draw

SHAPE = (4, 3)
DATA, HELD = (draw(21, *SHAPE), draw(21, 2, seed=1)), (draw(13, *SHAPE, seed=2), draw(13, 2, seed=3))
# of numbers of about 1 that were rounded to float32 some hundred times, at worst all in one direction: 100 * 2**-24
ROUNDED = 1e-5
SOME = [
    partial(layers.Dense, 4, "tanh"), partial(layers.EinsumDense, "abc,cd->abd", (4, 5), bias_axes="d"),
    layers.BatchNormalization, layers.LayerNormalization, layers.RMSNormalization, partial(layers.Dropout, 0.3),
    partial(layers.GaussianNoise, 0.3), layers.PReLU, partial(layers.Conv1D, 3, 2), partial(layers.MaxPooling1D, 2),
]  # fmt: skip


def give_type(makers, dtype):
    return [partial(make, dtype=dtype) for make in makers]


@pytest.mark.parametrize("dtype", ["float32"])
def test_layers_of_fewer_digits(dtype):
    assert_same(build_branches(give_type(SOME, dtype), SHAPE), DATA, HELD, limit=ROUNDED)


def test_recurrent_layers_and_those_within_others():
    makers = [
        partial(layers.LSTM, 3), partial(layers.GRU, 3, return_sequences=True),
        lambda dtype: layers.Bidirectional(layers.SimpleRNN(3, dtype=dtype)),
        lambda dtype: layers.TimeDistributed(layers.Dense(3, dtype=dtype)),
        lambda dtype: keras.Sequential([layers.Dense(3, dtype=dtype), layers.Dense(2)]),
    ]  # fmt: skip
    assert_same(build_branches(give_type(makers, "float32"), SHAPE), DATA, HELD, limit=ROUNDED)
