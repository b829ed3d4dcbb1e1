"""Sequence to sequence: a row of digits is written backwards; teacher forcing, masks, attention."""

import keras
import numpy as np
from keras import layers

DIGITS, START, LONGEST = 10, 11, 7  # 0 is padding; digits are 1 to 10


def build_model(width=24):
    source = keras.Input((LONGEST,), dtype="int32", name="source")
    so_far = keras.Input((LONGEST,), dtype="int32", name="so_far")

    embed = layers.Embedding(START + 1, width, mask_zero=True, name="symbols")
    states, hidden, cell = layers.LSTM(width, return_sequences=True, return_state=True, name="encoder")(embed(source))
    written = layers.LSTM(width, return_sequences=True, name="decoder")(embed(so_far), initial_state=[hidden, cell])
    context = layers.Attention(name="attention")([written, states])
    next_symbol = layers.Dense(DIGITS + 1, name="next_symbol")(layers.Concatenate()([written, context]))

    model = keras.Model({"source": source, "so_far": so_far}, next_symbol)
    model.compile(
        optimizer=keras.optimizers.Adam(0.01, clipnorm=1.0),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        weighted_metrics=["sparse_categorical_accuracy"],
    )
    return model


def load_samples(count=390):
    rng = np.random.default_rng(55)
    source = rng.integers(1, DIGITS + 1, size=(count, LONGEST))
    lengths = rng.integers(3, LONGEST + 1, size=count)
    target, so_far = np.zeros_like(source), np.zeros_like(source)
    for row, length in enumerate(lengths):
        source[row, length:] = 0
        target[row, :length] = source[row, :length][::-1]
        so_far[row, 0] = START
        so_far[row, 1:length] = target[row, : length - 1]  # what a perfect writer has written by then
    return {"source": source, "so_far": so_far}, target, (target > 0).astype("float32")
