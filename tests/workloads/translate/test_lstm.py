"""The block kernel against Keras' own loop in float64: outputs, states and gradients."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfperf.workloads.translate.lstm import BlockLSTM

B, T, INPUTS, UNITS = 5, 7, 3, 4
LENGTHS = np.array([7, 1, 4, 0, 7])
# some hundred roundings, each of 2^-24, of numbers near 1
CLOSE: dict = {"rtol": 1e-4, "atol": 3e-6}


def layer(kind, dtype):
    made = kind(UNITS, return_sequences=True, return_state=True, dtype=dtype, use_cudnn=False)
    made.build((None, None, INPUTS))
    random = np.random.default_rng(1)
    for variable in made.trainable_variables:
        variable.assign(random.normal(size=variable.shape, scale=0.7))
    return made


def everything(kind, dtype, steps, masked):
    """Outputs where a sequence has steps, its last states, and the gradients of a sum of all of them, weighted."""
    random = np.random.default_rng(2)
    x, *states = (tf.constant(random.normal(size=s), dtype) for s in ((B, steps, INPUTS), (B, UNITS), (B, UNITS)))
    there = np.arange(steps) < np.minimum(LENGTHS, steps)[:, None] if masked else np.ones((B, steps), bool)
    w = tf.constant(random.normal(size=(B, steps, UNITS)) * there[..., None], dtype)
    v = tf.constant(random.normal(size=(2, B, UNITS)), dtype)
    made = layer(kind, dtype)
    mask = tf.constant(there) if masked else None

    @tf.function(autograph=False)
    def compute():
        with tf.GradientTape() as tape:
            tape.watch([x, states])
            outputs, *last = made(x, initial_state=states, mask=mask)
            total = tf.reduce_sum(outputs * w) + tf.reduce_sum(tf.stack(last) * v)
        found = tape.gradient(total, [x, states, [one.value for one in made.trainable_variables]])
        return [tf.where(there[..., None], outputs, 0.0), last, *found]

    return [part.numpy() for part in tf.nest.flatten(compute())]


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("steps", [1, T])
def test_it_is_keras_loop(steps, masked):
    got = everything(BlockLSTM, "float32", steps, masked)
    want = everything(keras.layers.LSTM, "float64", steps, masked)
    assert len(got) == len(want) == 9
    for mine, truth in zip(got, want, strict=True):
        assert np.abs(truth).max() > 0.1
        np.testing.assert_allclose(mine, truth, **CLOSE)
