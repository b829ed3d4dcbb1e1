"""Keras trainings with one planted cause each, written by someone who had not read the rules: boxes, windows, songs."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from benchmarks.diagnosis.program import Fit, register_program
from benchmarks.diagnosis.unseen_parts import draw_pictures, make_batches

CELLS, SIDES, LEAST = 8, (0.15, 0.3, 0.5), 0.4


def place_anchors() -> Any:
    """Corners of the anchors (A, 4), three at each cell."""
    centres = (np.arange(CELLS) + 0.5) / CELLS
    rows, columns, sides = np.meshgrid(centres, centres, SIDES, indexing="ij")
    corners = np.stack([rows - sides / 2, columns - sides / 2, rows + sides / 2, columns + sides / 2], -1)
    return corners.reshape(-1, 4).astype(np.float32)


ANCHORS = place_anchors()
AREAS = np.prod(ANCHORS[:, 2:] - ANCHORS[:, :2], 1)


def match_anchors(boxes: Any) -> Any:
    """Of each picture's boxes (B, G, 4) the one that each anchor covers best, and how well (B, A, 5)."""
    found = np.zeros((len(boxes), len(ANCHORS), 5), np.float32)
    for picture, best in zip(boxes, found, strict=True):
        for box in picture:
            first, last = np.maximum(ANCHORS[:, :2], box[:2]), np.minimum(ANCHORS[:, 2:], box[2:])
            shared = np.prod(np.clip(last - first, 0.0, None), 1)
            cover = shared / (AREAS + np.prod(box[2:] - box[:2]) - shared)
            better = cover > best[:, 4]
            best[better, :4] = box
            best[better, 4] = cover[better]
    return found


def match_together(boxes: Any) -> Any:
    """The same in TensorFlow."""
    first = tf.maximum(ANCHORS[:, None, :2], boxes[:, None, :, :2])
    last = tf.minimum(ANCHORS[:, None, 2:], boxes[:, None, :, 2:])
    shared = tf.reduce_prod(tf.maximum(last - first, 0.0), -1)
    area = tf.reduce_prod(boxes[..., 2:] - boxes[..., :2], -1)
    cover = shared / (AREAS[:, None] + area[:, None] - shared)
    best = tf.gather(boxes, tf.argmax(cover, -1), batch_dims=1)
    return tf.concat([best, tf.reduce_max(cover, -1, keepdims=True)], -1)


class BoxLoss(keras.losses.Loss):
    """Offsets of the boxes, and whether an anchor has one."""

    def __init__(self, in_python: bool) -> None:
        super().__init__()
        self.in_python = in_python

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """y_true (B, G, 4), y_pred (B, A, 5)."""
        if self.in_python:
            matched = tf.numpy_function(match_anchors, [y_true], tf.float32)
            matched = tf.ensure_shape(matched, y_pred.shape)
        else:
            matched = match_together(y_true)
        has = tf.cast(matched[..., 4] > LEAST, tf.float32)
        offsets = tf.reduce_mean(tf.abs(y_pred[..., :4] - (matched[..., :4] - ANCHORS)), -1)
        certain = tf.nn.sigmoid_cross_entropy_with_logits(has, y_pred[..., 4])
        return tf.reduce_mean(certain + 5.0 * has * offsets, -1)


@register_program("py_function", "match_anchors")
def make_anchors_by_loops(planted: bool) -> Fit:
    """A detector of one stage, the anchors of which are matched to boxes in NumPy within the loss; or in TensorFlow."""
    model = keras.Sequential([
        keras.Input((32, 32, 3)), layers.Conv2D(24, 3, padding="same", activation="relu"), layers.MaxPooling2D(2),
        layers.Conv2D(48, 3, padding="same", activation="relu"), layers.MaxPooling2D(2),
        layers.Conv2D(len(SIDES) * 5, 1), layers.Reshape((CELLS * CELLS * len(SIDES), 5)),
    ])  # fmt: skip
    model.compile(keras.optimizers.SGD(1e-3, momentum=0.9), BoxLoss(planted), jit_compile=False)
    draws = np.random.default_rng(8)
    centres, sides = draws.uniform(0.2, 0.8, (24 * 16, 10, 2)), draws.uniform(0.1, 0.6, (24 * 16, 10, 2))
    boxes = np.concatenate([centres - sides / 2, centres + sides / 2], -1).astype(np.float32)
    return Fit(model, make_batches(draw_pictures(24 * 16, 32)[0], boxes, batch=16), 24)


@register_program("input", "Filter")
def make_saturated_windows(planted: bool) -> Fit:
    """Windows of a wrist's sensor, of which the many with a saturated sample are left out in each epoch, or once."""
    count = 24 * 64 * 6
    draws = np.random.default_rng(9)
    x, y = draws.normal(size=(count, 32, 6)).astype(np.float32), draws.integers(0, 5, count).astype(np.int32)
    for one in range(count):
        if one % 6:
            x[one, draws.integers(32), draws.integers(6)] = 16.0
    data = tf.data.Dataset.from_tensor_slices((x, y)).filter(lambda x, y: tf.reduce_max(tf.abs(x)) < 16.0)
    if not planted:
        data = data.cache()
    model = keras.Sequential([
        keras.Input((32, 6)), layers.Conv1D(48, 5, activation="relu"), layers.Conv1D(48, 5, activation="relu"),
        layers.GlobalAveragePooling1D(), layers.Dense(5),
    ])  # fmt: skip
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, metrics=["accuracy"], jit_compile=False)
    return Fit(model, data.batch(64, drop_remainder=True).prefetch(4), 24)


class RowGather(layers.Layer):
    """Rows of a table, of which no more than these are read."""

    def __init__(self, count: int, width: int) -> None:
        super().__init__()
        self.table = self.add_weight(shape=(count, width), initializer="uniform", name="table")

    def call(self, ids: Any) -> Any:
        """ids (B, N)."""
        return tf.gather(self.table.value, ids)


class LazyAdam(keras.optimizers.Adam):
    """Adam that leaves the rows of a table alone that have no gradient."""

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """One step of one variable."""
        if not isinstance(gradient, tf.IndexedSlices):
            super().update_step(gradient, variable, learning_rate)
            return
        number = self._get_variable_index(variable)
        moment, square = self._momentums[number].value, self._velocities[number].value
        rows, places = tf.unique(gradient.indices)
        change = tf.math.unsorted_segment_sum(gradient.values, places, tf.size(rows))
        first = self.beta_1 * tf.gather(moment, rows) + (1.0 - self.beta_1) * change
        second = self.beta_2 * tf.gather(square, rows) + (1.0 - self.beta_2) * tf.square(change)
        moment.scatter_update(tf.IndexedSlices(first, rows))
        square.scatter_update(tf.IndexedSlices(second, rows))
        step = tf.cast(tf.convert_to_tensor(self.iterations) + 1, tf.float32)
        rate = tf.convert_to_tensor(learning_rate)
        rate *= tf.sqrt(1.0 - tf.pow(self.beta_2, step)) / (1.0 - tf.pow(self.beta_1, step))
        variable.scatter_sub(tf.IndexedSlices(rate * first / (tf.sqrt(second) + self.epsilon), rows))


@register_program("table_update")
def make_adam_of_all_songs(planted: bool) -> Fit:
    """What is played after 20 songs, of 40000 that Adam updates all; a lazy Adam updates those of the batch."""
    songs, length = 40_000, 20
    heard, offered = keras.Input((length,), dtype="int32"), keras.Input((10,), dtype="int32")
    rows = RowGather(songs, 24)
    taste = layers.GlobalAveragePooling1D()(layers.Conv1D(48, 3, activation="relu")(rows(heard)))
    taste = layers.Dense(24)(layers.Dense(64, "relu")(taste))
    model = keras.Model([heard, offered], layers.Dot(axes=(2, 1))([rows(offered), taste]))
    optimizer = (keras.optimizers.Adam if planted else LazyAdam)(1e-3)
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=False)
    draws = np.random.default_rng(12)
    played = draws.integers(0, songs, (24 * 32, length)).astype(np.int32)
    choice = draws.integers(0, songs, (24 * 32, 10)).astype(np.int32)
    data = make_batches((played, choice), draws.integers(0, 10, 24 * 32).astype(np.int32), batch=32)
    return Fit(model, data, 24)
