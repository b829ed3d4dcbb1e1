"""Keras trainings with one planted cause each, by someone who had not read the rules, again: layers and metrics."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from benchmarks.diagnosis.program import Fit, register_program
from benchmarks.diagnosis.unseen_parts import make_batches


@register_program("table_update")
def make_songs_of_unit_length(planted: bool) -> Fit:
    """Next song of a playlist: all 60000 vectors are set to unit length after each step, or those of a batch."""
    playlist, song = keras.Input((20,), dtype="int32"), keras.Input((1,), dtype="int32")
    constraint = keras.constraints.UnitNorm(axis=1) if planted else None
    table = layers.Embedding(60_000, 32, embeddings_constraint=constraint, name="songs")
    heard, heard_next = table(playlist), table(song)
    if not planted:
        heard, heard_next = layers.UnitNormalization()(heard), layers.UnitNormalization()(heard_next)
    x = layers.Conv1D(48, 3, activation="relu", padding="same")(heard)
    x = layers.Dense(32)(layers.GlobalMaxPooling1D()(x))
    model = keras.Model([playlist, song], layers.Dense(1)(layers.Dot(-1)([x, layers.Flatten()(heard_next)])))
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1), loss, jit_compile=False)
    draws, count = np.random.default_rng(31), 24 * 64
    songs = draws.integers(0, 60_000, (count, 21)).astype(np.int32)
    y = draws.integers(0, 2, (count, 1)).astype(np.float32)
    return Fit(model, make_batches((songs[:, :20], songs[:, 20:]), y, batch=64), 24)


class Diffusion(layers.Layer):
    """Mixes the features of sensors by Chebyshev polynomials of a road network."""

    def __init__(self, roads: Any, orders: int, features: int, each_time: bool) -> None:
        super().__init__()
        self.roads, self.orders, self.features, self.each_time = roads, orders, features, each_time

    def build(self, shape: Any) -> None:
        """Shape (B, sensors, features)."""
        count = len(self.roads)
        self.graph = self.add_weight(shape=(count, count), trainable=False, name="graph")
        self.graph.assign(self.roads)
        if not self.each_time:
            self.stored = self.add_weight(shape=(count, self.orders * count), trainable=False, name="stored")
            self.stored.assign(self._compute_polynomials())
        self.kernel = self.add_weight(shape=(self.orders * shape[-1], self.features), name="kernel")

    def _compute_polynomials(self) -> Any:
        graph = tf.convert_to_tensor(self.graph)
        scale = tf.math.rsqrt(tf.reduce_sum(graph, -1) + 1e-6)
        laplacian = -graph * scale[:, None] * scale
        found = [tf.eye(len(self.roads)), laplacian]
        while len(found) < self.orders:
            found.append(2.0 * tf.matmul(laplacian, found[-1]) - found[-2])
        return tf.concat(found, -1)

    def call(self, x: Any) -> Any:
        """Features (B, sensors, features)."""
        polynomials = self._compute_polynomials() if self.each_time else tf.convert_to_tensor(self.stored)
        count, features = x.shape[1:]
        mixed = tf.matmul(tf.reshape(tf.transpose(x, [0, 2, 1]), [-1, count]), polynomials)
        mixed = tf.reshape(mixed, [-1, features, self.orders, count])
        mixed = tf.reshape(tf.transpose(mixed, [0, 3, 1, 2]), [-1, count, features * self.orders])
        return tf.nn.relu(mixed @ self.kernel)


@register_program("constants")
def make_polynomials_of_roads(planted: bool) -> Fit:
    """Traffic forecast: the polynomials of a road network are computed in each step, or stored in the layer."""
    draws, count = np.random.default_rng(32), 256
    roads = (draws.random((count, count)) < 0.03).astype(np.float32)
    entry = keras.Input((count, 4))
    x = Diffusion(roads + roads.T, 4, 8, planted)(entry)
    x = Diffusion(roads + roads.T, 4, 8, planted)(x)
    model = keras.Model(entry, layers.Dense(3)(layers.Concatenate()([x, entry])))
    model.compile(keras.optimizers.Adam(1e-3), "mae", metrics=["mse"], jit_compile=False)
    x, y = (draws.normal(size=(24 * 16, count, size)).astype(np.float32) for size in (4, 3))
    return Fit(model, make_batches(x, y, batch=16), 24)


def compute_by_sklearn(y: Any, found: Any) -> Any:
    """Average precision of the ranks of labels (B, labels), of the kit."""
    from sklearn.metrics import label_ranking_average_precision_score

    score = tf.numpy_function(
        lambda a, b: np.float32(label_ranking_average_precision_score(a, b)), [y, found], tf.float32
    )
    return tf.ensure_shape(score, ())


def compute_by_tensors(y: Any, found: Any) -> Any:
    """The same by comparisons of all pairs."""
    above = tf.cast(found[:, None, :] >= found[:, :, None], tf.float32)
    ratio = tf.linalg.matvec(above, y) / tf.reduce_sum(above, -1)
    return tf.reduce_mean(tf.reduce_sum(y * ratio, -1) / tf.maximum(tf.reduce_sum(y, -1), 1.0))


@register_program("py_function")
def make_ranks_by_sklearn(planted: bool) -> Fit:
    """Tags of songs with a metric of scikit-learn in the compiled step, or the same metric of tensors."""
    sound = keras.Input((64, 20))
    x = layers.Conv1D(32, 5, 2, activation="relu")(sound)
    x = layers.Conv1D(48, 5, 2, activation="relu")(x)
    x = layers.Concatenate()([layers.GlobalAveragePooling1D()(x), layers.GlobalMaxPooling1D()(x)])
    model = keras.Model(sound, layers.Dense(25, "sigmoid")(x))
    model.compile(keras.optimizers.SGD(0.01), "binary_crossentropy",
                  metrics=[compute_by_sklearn if planted else compute_by_tensors], jit_compile=False)  # fmt: skip
    draws = np.random.default_rng(35)
    x = draws.normal(size=(24 * 64, 64, 20)).astype(np.float32)
    y = (draws.random((24 * 64, 25)) < 0.15).astype(np.float32)
    y[:, 0] = 1.0
    return Fit(model, make_batches(x, y, batch=64), 24)
