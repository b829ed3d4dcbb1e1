"""Keras trainings with one planted cause each, written by someone who had not read the rules: layers and losses."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from benchmarks.diagnosis.program import Fit, register_program
from benchmarks.diagnosis.unseen_parts import build_transformer, draw_pictures, make_batches


def compute_overlaps(a: Any, b: Any) -> Any:
    """Generalised IoU of boxes (N, 4) with (Q, 4), as centres and sizes."""
    (low_a, high_a), (low_b, high_b) = ((one[:, :2] - one[:, 2:] / 2, one[:, :2] + one[:, 2:] / 2) for one in (a, b))
    both = np.clip(np.minimum(high_a[:, None], high_b) - np.maximum(low_a[:, None], low_b), 0, None).prod(-1)
    hull = (np.maximum(high_a[:, None], high_b) - np.minimum(low_a[:, None], low_b)).prod(-1) + 1e-9
    union = a[:, None, 2:].prod(-1) + b[:, 2:].prod(-1) - both + 1e-9
    return both / union - (hull - union) / hull


def assign_boxes(y: Any, found: Any) -> Any:
    """Hungarian matching of boxes (B, N, 4) to queries (B, Q, 4)."""
    costs = [5.0 * cdist(a, b, "cityblock") - 2.0 * compute_overlaps(a, b) for a, b in zip(y, found, strict=True)]
    return np.stack([linear_sum_assignment(one)[1] for one in costs]).astype(np.int32)


def match_by_scipy(y: Any, found: Any) -> Any:
    """L1 of matched boxes."""
    index = tf.ensure_shape(tf.numpy_function(assign_boxes, [y, found], tf.int32), y.shape[:2])
    return tf.reduce_mean(tf.abs(y - tf.gather(found, index, batch_dims=1)))


def match_nearest(y: Any, found: Any) -> Any:
    """L1 of each box to its nearest query."""
    index = tf.argmin(tf.reduce_sum(found**2, -1)[:, None] - 2.0 * tf.matmul(y, found, transpose_b=True), -1)
    return tf.reduce_mean(tf.abs(y - tf.gather(found, index, batch_dims=1)))


@register_program("py_function")
def make_hungarian_loss(planted: bool) -> Fit:
    """A set loss that calls SciPy for each sample of a batch."""
    entry = keras.Input((24, 24, 3))
    x = layers.Conv2D(16, 3, 2, "same", activation="relu")(entry)
    x = layers.Conv2D(24, 3, 2, "same", activation="relu")(x)
    x = layers.Dense(100 * 4, "sigmoid")(layers.Flatten()(x))
    model = keras.Model(entry, layers.Reshape((100, 4))(x))
    model.compile(keras.optimizers.SGD(0.01, momentum=0.9), match_by_scipy if planted else match_nearest,
                  jit_compile=False)  # fmt: skip
    boxes = np.random.default_rng(2).random((12 * 64, 60, 4)).astype(np.float32)
    return Fit(model, make_batches(draw_pictures(12 * 64, 24)[0], boxes, batch=64), 12)


class Tokens(layers.Layer):
    """A vector for each column, of one weight for all columns."""

    def build(self, shape: Any) -> None:
        """Shape (B, columns)."""
        self.scale = self.add_weight(shape=(shape[-1], 6), initializer="he_normal", name="scale")
        self.offset = self.add_weight(shape=(shape[-1], 6), initializer="zeros", name="offset")

    def call(self, x: Any) -> Any:
        """Columns (B, columns)."""
        return keras.ops.relu(x[:, :, None] * self.scale + self.offset)


@register_program("short_operations")
def make_layer_per_column(planted: bool) -> Fit:
    """Tabular data with a small dense layer for each of 160 columns, or one operation for all columns."""
    columns = 160
    entry = keras.Input((columns,))
    if planted:
        x = layers.Concatenate()([layers.Dense(6, "relu")(entry[:, one : one + 1]) for one in range(columns)])
    else:
        x = layers.Flatten()(Tokens()(entry))
    x = layers.Dense(256, "relu")(layers.Dropout(0.1)(x))
    model = keras.Model(entry, layers.Dense(1)(layers.Dense(256, "relu")(x)))
    model.compile("sgd", "mse", jit_compile=False)
    draws = np.random.default_rng(13)
    x, y = draws.normal(size=(12 * 64, columns)).astype(np.float32), draws.normal(size=(12 * 64, 1)).astype(np.float32)
    return Fit(model, make_batches(x, y, batch=64), 12)


class Prompted(keras.Model):
    """Pictures against texts of their classes, by a text tower that is frozen."""

    def __init__(self, each_time: bool) -> None:
        super().__init__()
        self.each_time = each_time
        self.tower = build_transformer(24, 500, 64)
        self.tower.trainable = False
        self.prompts = tf.constant(np.random.default_rng(14).integers(0, 500, (200, 24)).astype(np.int32))
        self.texts = self.add_weight(shape=(200, 64), trainable=False, name="texts")
        self.texts.assign(self.tower(self.prompts))
        self.eye = keras.Sequential([
            layers.Conv2D(16, 3, 2, activation="relu"), layers.Conv2D(32, 3, 2, activation="relu"),
            layers.GlobalAveragePooling2D(), layers.Dense(64),
        ])  # fmt: skip

    def call(self, x: Any) -> Any:
        """Pictures (B, 40, 40, 3)."""
        texts = self.tower(self.prompts, training=False) if self.each_time else self.texts
        return keras.ops.matmul(self.eye(x), keras.ops.transpose(texts)) / 8.0


@register_program("constants")
def make_frozen_text_tower(planted: bool) -> Fit:
    """Texts of the classes go through a frozen transformer in every step, or once."""
    model = Prompted(planted)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"], jit_compile=False)
    return Fit(model, make_batches(*draw_pictures(12 * 64, 40, 200), batch=64), 12)


class NormOfRows(layers.Layer):
    """Adds the norm of the rows that a batch has to the loss."""

    def call(self, rows: Any) -> Any:
        """Rows (B, n, d)."""
        self.add_loss(1e-6 * keras.ops.sum(rows**2))
        return rows


@register_program("table_update")
def make_regularized_table(planted: bool) -> Fit:
    """Two-input recommender: L2 of a whole table of items makes its gradient dense, or only of the rows of a batch."""
    user, items = keras.Input((8,)), keras.Input((10,), dtype="int32")
    rows = layers.Embedding(50_000, 48, embeddings_regularizer=keras.regularizers.L2(1e-6) if planted else None,
                            name="items")(items)  # fmt: skip
    if not planted:
        rows = NormOfRows()(rows)
    x = layers.Concatenate()([layers.Dense(32, "relu")(user), layers.GlobalAveragePooling1D()(rows)])
    model = keras.Model(
        [user, items], layers.Dense(1, "sigmoid")(layers.Dense(512, "relu")(layers.Dense(512, "relu")(x)))
    )
    model.compile(keras.optimizers.SGD(0.05), "binary_crossentropy", metrics=["AUC"], jit_compile=False)
    draws = np.random.default_rng(15)
    users = draws.normal(size=(12 * 128, 8)).astype(np.float32)
    chosen = draws.integers(0, 50_000, (12 * 128, 10)).astype(np.int32)
    y = draws.integers(0, 2, (12 * 128, 1)).astype(np.float32)
    return Fit(model, make_batches((users, chosen), y, batch=128), 12)


@register_program("half_precision")
def make_mixed_float16_convolutions(planted: bool) -> Fit:
    """Convolutions under mixed_float16 on a CPU."""
    kind = "mixed_float16" if planted else "float32"
    entry = keras.Input((20, 20, 3))
    x = layers.Conv2D(12, 3, padding="same", activation="relu", dtype=kind)(entry)
    for _ in range(2):
        y = layers.Conv2D(12, 3, padding="same", activation="relu", dtype=kind)(x)
        x = layers.Add(dtype=kind)([x, layers.Conv2D(12, 3, padding="same", dtype=kind)(y)])
    x = layers.GlobalAveragePooling2D(dtype="float32")(x)
    model = keras.Model(entry, layers.Dense(10, dtype="float32")(x))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"], jit_compile=False)
    return Fit(model, make_batches(*draw_pictures(12 * 16, 20), batch=16), 12)
