"""Small parts that the trainings written without knowledge of the rules share."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

FLOAT = tf.float32


def make_batches(*parts: Any, batch: int) -> tf.data.Dataset:
    """Batches of arrays, ahead of time."""
    data = parts[0] if len(parts) == 1 else tuple(parts)
    return tf.data.Dataset.from_tensor_slices(data).batch(batch, drop_remainder=True).cache().prefetch(4)


def draw_pictures(count: int, side: int, classes: int = 10) -> tuple[Any, Any]:
    """Pictures and their classes."""
    draws = np.random.default_rng(7)
    return draws.random((count, side, side, 3)).astype(np.float32), draws.integers(0, classes, count).astype(np.int32)


def build_transformer(length: int, words: int, classes: int) -> keras.Model:
    """One block with attention."""
    entry = keras.Input((length,), dtype="int32")
    x = layers.Embedding(words, 48)(entry)
    x = layers.LayerNormalization()(x + layers.MultiHeadAttention(4, 12)(x, x))
    x = layers.LayerNormalization()(x + layers.Dense(48)(layers.Dense(96, "gelu")(x)))
    return keras.Model(entry, layers.Dense(classes)(layers.GlobalAveragePooling1D()(x)))


class Linear(tf.Module):
    """x w + b, as in Sonnet."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.w = tf.Variable(tf.random.normal((inputs, outputs), stddev=inputs**-0.5, seed=1))
        self.b = tf.Variable(tf.zeros((outputs,)))

    def __call__(self, x: Any) -> Any:
        """x (B, inputs)."""
        return x @ self.w + self.b


class Perceptron(tf.Module):
    """Layers of these sizes with tanh between."""

    def __init__(self, *sizes: int) -> None:
        super().__init__()
        self.layers = [Linear(*pair) for pair in pairwise(sizes)]

    def __call__(self, x: Any) -> Any:
        """x (B, the first size)."""
        for layer in self.layers[:-1]:
            x = tf.tanh(layer(x))
        return self.layers[-1](x)


class Adam(tf.Module):
    """Moments and steps of given variables, without correction of bias."""

    def __init__(self, weights: Sequence[tf.Variable], rate: float = 1e-4) -> None:
        super().__init__()
        self.weights, self.rate = list(weights), rate
        self.first = [tf.Variable(tf.zeros_like(one)) for one in weights]
        self.second = [tf.Variable(tf.zeros_like(one)) for one in weights]

    def apply(self, gradients: Sequence[Any]) -> None:
        """One step with gradients, which stand in the order of the weights."""
        for weight, first, second, gradient in zip(self.weights, self.first, self.second, gradients, strict=True):
            first.assign(0.9 * first + 0.1 * gradient)
            second.assign(0.999 * second + 0.001 * tf.square(gradient))
            weight.assign_sub(self.rate * first / (tf.sqrt(second) + 1e-7))
