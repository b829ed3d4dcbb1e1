"""Layers of another type than what they are given, as a stack: cast as Keras casts, and the same as each alone."""

from functools import partial

import keras
import numpy as np
import pytest
from keras import layers

from tests.workloads.keras.stacked.branches import build_branches, join_branches
from tests.workloads.keras.stacked.pairs import assert_same, compare_states, draw, make_factory, train
from tfperf.workloads.keras.replicas.forms import LANES, STACKED

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


@pytest.mark.slow
def test_layers_of_fewer_digits():
    assert_same(build_branches(give_type(SOME, "float32"), SHAPE), DATA, HELD, limit=ROUNDED)


@pytest.mark.slow
def test_recurrent_layers_and_those_within_others():
    makers = [
        partial(layers.LSTM, 3), partial(layers.GRU, 3, return_sequences=True),
        lambda dtype: layers.Bidirectional(layers.SimpleRNN(3, dtype=dtype)),
        lambda dtype: layers.TimeDistributed(layers.Dense(3, dtype=dtype)),
        lambda dtype: keras.Sequential([layers.Dense(3, dtype=dtype), layers.Dense(2)]),
    ]  # fmt: skip
    assert_same(build_branches(give_type(makers, "float32"), SHAPE), DATA, HELD, limit=ROUNDED)


@pytest.mark.slow
def test_layers_of_more_digits():
    """In a model of float32: both kinds of weights are trained, each in numbers of its type."""
    data = DATA[0].astype(np.float32), DATA[1].astype(np.float32)
    factory = make_factory(build_branches(give_type(SOME[:5], "float64"), SHAPE), data, replicas=2)
    lanes, stack = (train(factory, form, 3) for form in (LANES, STACKED))
    state = compare_states(factory, lanes, stack, ROUNDED)
    assert {one.dtype for name, one in state.items() if name.endswith("kernel")} == {np.dtype(n) for n in "fd"}


@pytest.mark.slow
def test_a_table_of_half_the_digits():
    def make():
        inputs = keras.Input((5,), dtype="int32")
        return join_branches(inputs, inputs, [partial(layers.Embedding, 7, 4, dtype="float16")])

    words = np.random.default_rng(0).integers(0, 7, size=(16, 5)).astype("int32")
    # numbers of about 0.05 are kept to 2**-15, and so is each change
    state = assert_same(make, (words, DATA[1][:16]), steps=4, limit=4 * 2**-15)
    (table,) = (one for name, one in state.items() if name.endswith("embeddings"))
    assert table.dtype == np.float16
