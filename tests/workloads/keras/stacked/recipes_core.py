"""Recipes of layers of features, sequences and several tensors."""

from functools import partial

import keras
import numpy as np
from keras import layers

from tests.workloads.keras.stacked.recipes import LINE, SAMPLES, follow, put_in

OF_A_LINE = {
    "Dense": partial(layers.Dense, 4, "relu"),
    "EinsumDense": partial(layers.EinsumDense, "abc,cd->abd", (6, 4), bias_axes="d"),
    "Activation": partial(layers.Activation, "gelu"), "ReLU": layers.ReLU, "LeakyReLU": layers.LeakyReLU,
    "ELU": layers.ELU, "PReLU": layers.PReLU, "Softmax": layers.Softmax, "Identity": layers.Identity,
    "Masking": lambda: follow(layers.Masking(0.0), layers.GRU(3)),
    "ActivityRegularization": partial(layers.ActivityRegularization, 0.1, 0.1),
    "Dropout": partial(layers.Dropout, 0.3), "AlphaDropout": partial(layers.AlphaDropout, 0.3),
    "GaussianDropout": partial(layers.GaussianDropout, 0.3), "GaussianNoise": partial(layers.GaussianNoise, 0.3),
    "SpatialDropout1D": partial(layers.SpatialDropout1D, 0.3),
    "BatchNormalization": partial(layers.BatchNormalization, momentum=0.7),
    "LayerNormalization": layers.LayerNormalization, "RMSNormalization": layers.RMSNormalization,
    "GroupNormalization": partial(layers.GroupNormalization, 2), "UnitNormalization": layers.UnitNormalization,
    "SpectralNormalization": lambda: layers.SpectralNormalization(layers.Dense(4)),
    "Flatten": layers.Flatten, "Permute": partial(layers.Permute, (2, 1)), "Reshape": partial(layers.Reshape, (4, 6)),
    "Rescaling": partial(layers.Rescaling, 0.5, 1.0),
    "LSTM": partial(layers.LSTM, 4), "GRU": partial(layers.GRU, 4), "SimpleRNN": partial(layers.SimpleRNN, 4),
    "RNN": lambda: layers.RNN(layers.GRUCell(3)), "LSTMCell": lambda: layers.RNN(layers.LSTMCell(3)),
    "GRUCell": lambda: layers.RNN(layers.GRUCell(3, dropout=0.2)),
    "SimpleRNNCell": lambda: layers.RNN(layers.SimpleRNNCell(3)),
    "StackedRNNCells": lambda: layers.RNN(layers.StackedRNNCells([layers.LSTMCell(4), layers.GRUCell(3)])),
    "Bidirectional": lambda: layers.Bidirectional(layers.LSTM(3)),
    "TimeDistributed": lambda: layers.TimeDistributed(layers.Dense(3)),
    "Lambda": lambda: layers.Lambda(lambda x: 2 * x),
    "MultiHeadAttention": lambda: _attend(layers.MultiHeadAttention(2, 2, dropout=0.1)),
    "GroupedQueryAttention": lambda: _attend(layers.GroupQueryAttention(2, 2, 1, dropout=0.1)),
}  # fmt: skip
OF_TWO = {
    "Add": layers.Add, "Average": layers.Average, "Concatenate": layers.Concatenate, "Dot": partial(layers.Dot, 2),
    "Maximum": layers.Maximum, "Minimum": layers.Minimum, "Multiply": layers.Multiply, "Subtract": layers.Subtract,
    "Attention": partial(layers.Attention, use_scale=True, dropout=0.1),
    "AdditiveAttention": partial(layers.AdditiveAttention, dropout=0.1),
}  # fmt: skip
NAMES = (*OF_A_LINE, *OF_TWO, "RepeatVector", "Embedding", "ReversibleEmbedding")


def note_recipes() -> None:
    """Of a sequence of numbers, two of them, numbers, words."""
    for name, make in OF_A_LINE.items():
        put_in(name, make, [LINE], units=4)
    for name, make in OF_TWO.items():
        put_in(name, make, [LINE, LINE], units=4)
    put_in("RepeatVector", partial(layers.RepeatVector, 3), [(5,)], units=4)
    words = np.random.default_rng(0).integers(0, 7, size=(SAMPLES, 5)).astype("int32")
    put_in("Embedding", partial(layers.Embedding, 7, 3), [(5,)], [words])
    put_in("ReversibleEmbedding", partial(_go_and_return, 7, 3), [(5,)], [words])


def _attend(layer: keras.layers.Layer):
    return lambda x: layer(x, x)


def _go_and_return(count: int, width: int):
    table = layers.ReversibleEmbedding(count, width)
    return lambda words: table(layers.LayerNormalization()(table(words)), reverse=True)
