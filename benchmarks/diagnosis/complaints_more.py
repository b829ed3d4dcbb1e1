"""Keras trainings, made after complaints of users, and twins with the thread's fix."""

import tempfile
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from scipy import ndimage

from benchmarks.diagnosis.fits import BATCH, WIDTH, build_mlp, make_arrays, make_dataset
from benchmarks.diagnosis.program import Fit, register_program

STEPS, LONGEST = 12, 32768


@register_program("callback", "TensorBoard")
def make_histograms_of_weights(planted: bool) -> Fit:
    """TensorBoard writes histograms and pictures of all weights after each epoch; its twin writes the loss alone.

    Complaint: https://github.com/tensorflow/tensorflow/issues/24643
    """
    folder = tempfile.mkdtemp()

    def make() -> list[Any]:
        return [keras.callbacks.TensorBoard(folder, histogram_freq=int(planted), write_images=planted)]

    return Fit(build_mlp(512), make_dataset(STEPS), STEPS, make)


@register_program("input")
def make_generator_of_samples(planted: bool) -> Fit:
    """A generator gives samples of which tf.data makes batches; its twin's generator gives batches.

    Complaint: https://github.com/tensorflow/tensorflow/issues/14480
    """
    x, y = make_arrays(STEPS)

    def generate() -> Any:
        size = 1 if planted else BATCH
        for begin in range(0, len(x), size):
            rows = slice(begin, begin + size)
            yield (x[begin], y[begin]) if planted else (x[rows], y[rows])

    shape = () if planted else (BATCH,)
    signature = (tf.TensorSpec((*shape, WIDTH), tf.float32), tf.TensorSpec((*shape, 1), tf.float64))
    data = tf.data.Dataset.from_generator(generate, output_signature=signature)
    return Fit(build_mlp(64, 1), (data.batch(BATCH) if planted else data).prefetch(2), STEPS)


def shift_pictures(x: Any, seed: int) -> Any:
    """x (B, 32, 32, 3), each shifted by up to a fifth of its width and height."""
    shifts = np.random.default_rng(seed).uniform(-6.4, 6.4, (len(x), 2))
    return np.stack([ndimage.shift(one, (*by, 0), order=1, mode="nearest") for one, by in zip(x, shifts, strict=True)])


class ShiftedPictures(keras.utils.PyDataset):
    """Batches of pictures, shifted when they are asked for or ahead of the training."""

    def __init__(self, ahead: bool) -> None:
        super().__init__(workers=1)
        self.pictures = np.random.default_rng(1).random((BATCH, 32, 32, 3), np.float32)
        self.shifted = [shift_pictures(self.pictures, number) for number in range(STEPS)] if ahead else []

    def __len__(self) -> int:
        return 100_000  # epochs have their own number of steps

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        x = self.shifted[index % STEPS] if self.shifted else shift_pictures(self.pictures, index)
        return x, np.ones((BATCH, 1), np.float32)


@register_program("input")
def make_pictures_shifted(planted: bool) -> Fit:
    """Pictures are shifted by NumPy while the model trains; its twin has them made ahead of time.

    Complaint: https://github.com/keras-team/keras/issues/610
    """
    model = keras.Sequential([keras.Input((32, 32, 3)), keras.layers.Conv2D(8, 3, 2, activation="relu"),
                              keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(1)])  # fmt: skip
    model.compile("sgd", "mse", jit_compile=False)
    return Fit(model, ShiftedPictures(not planted), STEPS)


def encode_boxes(boxes: Any) -> Any:
    """Boxes (B, N, 2) of corners in 0 to 1 as how many lie in each cell (B, 64) of a grid."""
    cells = np.zeros((len(boxes), 8, 8), np.float32)
    for grid, corners in zip(cells, boxes, strict=True):
        for x, y in corners:
            grid[int(8 * x), int(8 * y)] += 1.0
    return cells.reshape(len(boxes), -1)


def convert_boxes(boxes: Any) -> Any:
    """The same as an operation."""
    return tf.ensure_shape(tf.numpy_function(encode_boxes, [boxes], tf.float32), (BATCH, WIDTH))


@register_program("py_function", "encode_boxes")
def make_boxes_in_loss(planted: bool) -> Fit:
    """The loss calls Python to put boxes into cells of a grid; its twin does that in the pipeline, once.

    Complaint: https://github.com/blue-oil/blueoil/issues/428
    """
    draws = np.random.default_rng(1)
    x, _ = make_arrays(STEPS)
    boxes = draws.random((len(x), 50, 2), np.float32)

    def compute_loss(y: Any, found: Any) -> Any:
        return tf.reduce_mean(tf.square((convert_boxes(y) if planted else y) - found), axis=-1)

    data = tf.data.Dataset.from_tensor_slices((x, boxes)).batch(BATCH, drop_remainder=True)
    model = keras.Sequential([keras.Input((WIDTH,)), keras.layers.Dense(512, "relu"), keras.layers.Dense(WIDTH)])
    model.compile("sgd", compute_loss, jit_compile=False)
    return Fit(model, (data if planted else data.map(lambda x, y: (x, convert_boxes(y)))).cache().prefetch(2), STEPS)


def make_levels(label: Any) -> Any:
    """A class of ten as which of nine bounds it is above."""
    return tf.concat([tf.ones((label,)), tf.zeros((9 - label,))], axis=0)


@register_program("short_operations")
def make_levels_one_by_one(planted: bool) -> Fit:
    """A loss for ordered classes maps over the labels one by one; its twin takes them all at once.

    Complaint: https://github.com/ck37/coral-ordinal/pull/14
    """

    def compute_loss(y: Any, found: Any) -> Any:
        labels = tf.cast(tf.reshape(y, (-1,)), tf.int32)
        levels = tf.map_fn(make_levels, labels, tf.float32) if planted else tf.sequence_mask(labels, 9, tf.float32)
        levels = tf.ensure_shape(levels, (None, 9))
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(levels, found), axis=-1)

    x, _ = make_arrays(STEPS, 256)
    labels = np.random.default_rng(1).integers(0, 10, (len(x), 1))
    data = tf.data.Dataset.from_tensor_slices((x, labels)).batch(256, drop_remainder=True).prefetch(2)
    model = keras.Sequential([keras.Input((WIDTH,)), keras.layers.Dense(256, "relu"), keras.layers.Dense(9)])
    model.compile("sgd", compute_loss, jit_compile=False)
    return Fit(model, data, STEPS)


def compute_positions(length: int, channels: int) -> Any:
    """Sines and cosines of positions (length, channels)."""
    rates = 10_000.0 ** (-tf.range(0, channels, 2, tf.float32) / channels)
    angles = tf.range(length, dtype=tf.float32)[:, None] * rates
    return tf.concat([tf.sin(angles), tf.cos(angles)], axis=1)


class SinePositions(keras.layers.Layer):
    """Adds positions to long sequences, computed in each call or once."""

    def __init__(self, each_time: bool) -> None:
        super().__init__()
        self.each_time = each_time
        self.positions = compute_positions(LONGEST, WIDTH)

    def call(self, x: Any) -> Any:
        """x (B, T, 64)."""
        length = tf.shape(x)[1]
        return x + (compute_positions(length, WIDTH) if self.each_time else self.positions[:length])


@register_program("constants")
def make_positions_each_call(planted: bool) -> Fit:
    """A layer computes the positions of a sequence in every call; its twin keeps them.

    Complaint: https://github.com/tatp22/multidim-positional-encoding/pull/19
    """
    model = keras.Sequential([keras.Input((None, WIDTH)), SinePositions(planted),
                              keras.layers.GlobalAveragePooling1D(), keras.layers.Dense(1)])  # fmt: skip
    model.compile("sgd", "mse", jit_compile=False)
    x = np.random.default_rng(1).random((4, LONGEST, WIDTH), np.float32)
    signature = (tf.TensorSpec((None, WIDTH), tf.float32), tf.TensorSpec((1,), tf.float32))
    data = tf.data.Dataset.from_generator(lambda: zip(x, np.ones((4, 1)), strict=True), output_signature=signature)
    return Fit(model, data.batch(1).cache().prefetch(2), STEPS)


@register_program("half_precision")
def make_half_precision(planted: bool) -> Fit:
    """Convolutions in mixed precision on a CPU without fast kernels for it; its twin is in single precision.

    Complaint: https://github.com/tensorflow/tensorflow/issues/45441
    """
    kind = "mixed_float16" if planted else "float32"
    model = keras.Sequential([keras.Input((20, 20, 1)), keras.layers.Conv2D(16, 3, activation="relu", dtype=kind),
                              keras.layers.Conv2D(16, 3, activation="relu", dtype=kind),
                              keras.layers.GlobalAveragePooling2D(dtype=kind), keras.layers.Dense(1)])  # fmt: skip
    model.compile("sgd", "mse", jit_compile=False)
    x = np.random.default_rng(1).random((STEPS * BATCH, 20, 20, 1), np.float32)
    data = tf.data.Dataset.from_tensor_slices((x, np.ones((len(x), 1), np.float32))).batch(BATCH).cache().prefetch(2)
    return Fit(model, data, STEPS)
