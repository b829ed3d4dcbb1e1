"""Trainings with one planted fault of their input each, and twins without it, as functions that a card names."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfperf.arrays import Float32Array, Int32Array

WIDTH, BATCH, RECORDS = 64, 16, 4000
WAIT = 0.01  # s of an element that waits
BUDGET = 20e6  # bytes/s of the disk that is played
RECORD_BYTES = 100_000
AUTOTUNE = tf.data.AUTOTUNE


def build_model(layers: int = 1, units: int = 64) -> keras.Model:
    """(B, 64) to 4 classes."""
    inputs = hidden = keras.Input((WIDTH,))
    for _ in range(layers):
        hidden = keras.layers.Dense(units, "relu")(hidden)
    model = keras.Model(inputs, keras.layers.Dense(4, "softmax")(hidden))
    model.compile("adam", "sparse_categorical_crossentropy")
    return model


def make_example(index: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """x (64), y: functions of a number."""
    return tf.fill((WIDTH,), tf.cast(index % 7, tf.float32) / 7), tf.cast(index % 4, tf.int32)


def compute(x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """About half a millisecond of one core, in TensorFlow."""
    wide = tf.tile(x[:, None], (1, 4 * WIDTH))
    for _ in range(10):
        wide = tf.tanh(tf.matmul(wide, wide, transpose_b=True)[:, :WIDTH] @ tf.tile(x[:, None], (1, 4 * WIDTH)))
    return x + 1e-6 * tf.reduce_sum(wide), y


def draw_and_compute(x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The same with chance that has a state, so that TensorFlow leaves its map sequential."""
    return compute(x + tf.random.uniform((WIDTH,), 0, 1e-3), y)


def make_numbers() -> tf.data.Dataset:
    """Examples that cost nothing."""
    return tf.data.Dataset.range(RECORDS, name="numbers").map(make_example, AUTOTUNE, name="make")


def finish(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Batches ahead of time."""
    return dataset.batch(BATCH, name="batch").prefetch(AUTOTUNE, name="ahead")


def load_late(injects: bool = False) -> tf.data.Dataset:
    """No prefetch, nor one by TensorFlow, after a sequential map; injects: TensorFlow adds one."""
    found = make_numbers().map(draw_and_compute, name="work").batch(BATCH, name="batch")
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = injects
    return found.with_options(options)


def load_parallel() -> tf.data.Dataset:
    """A sequential map without a state and no prefetch: TensorFlow's defaults cure both."""

    def compute_by_seed(x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return compute(x + tf.random.stateless_uniform((WIDTH,), (1, 2), 0, 1e-3), y)

    return make_numbers().map(compute_by_seed, name="work").batch(BATCH, name="batch")


def load_decoded() -> tf.data.Dataset:
    """Pictures that are decoded by as many threads as there are cores: nothing is wrong, the cores are used up."""
    draws = np.random.default_rng(1)
    pixels = [tf.constant(draws.integers(0, 256, (160, 160, 3)), tf.uint8) for _ in range(4)]
    pictures = tf.stack([tf.io.encode_jpeg(one) for one in pixels])

    def decode(x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        seen = tf.io.decode_jpeg(pictures[y], 3)
        return x + tf.cast(seen[0, 0, 0], tf.float32) / 255, y

    return finish(make_numbers().map(decode, AUTOTUNE, name="work"))


def _compute_in_python(x: Any) -> Any:
    total = 0.0
    for number in range(20_000):
        total += number % 7
    return x + np.float32(1e-9 * total)


def load_python() -> tf.data.Dataset:
    """A map whose Python computes."""

    def call(x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return tf.ensure_shape(tf.numpy_function(_compute_in_python, [x], tf.float32), (WIDTH,)), y

    return finish(make_numbers().map(call, AUTOTUNE, name="work"))


def load_waiting(threads: int = 0) -> tf.data.Dataset:
    """A map that waits, for more calls at once than there are cores; threads: of a pool that is large enough."""

    def call(x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return tf.ensure_shape(tf.numpy_function(_pause, [x], tf.float32), (WIDTH,)), y

    options = tf.data.Options()
    if threads:
        options.threading.private_threadpool_size = threads
    return finish(make_numbers().map(call, threads or AUTOTUNE, name="work")).with_options(options)


def _pause(x: Any) -> Any:
    time.sleep(WAIT)
    return x


class PlayedDisk:
    """Hands out so many bytes a second, to all that ask together."""

    def __init__(self, bytes_per_second: float) -> None:
        self._rate, self._lock, self._free_at = bytes_per_second, threading.Lock(), 0.0

    def read(self, count: int) -> None:
        """Return when so many bytes would be there."""
        with self._lock:
            self._free_at = max(self._free_at, time.monotonic()) + count / self._rate
            end = self._free_at
        time.sleep(max(0.0, end - time.monotonic()))


def load_from_disk(bytes_per_second: float = BUDGET) -> tf.data.Dataset:
    """A map that reads, each call its record, all of them from one disk."""
    disk = PlayedDisk(bytes_per_second)

    def read(x: Any) -> Any:
        disk.read(RECORD_BYTES)
        return x

    def call(x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return tf.ensure_shape(tf.numpy_function(read, [x], tf.float32), (WIDTH,)), y

    return finish(make_numbers().map(call, AUTOTUNE, name="work"))


def load_shuffled(buffer: int = 40) -> tf.data.Dataset:
    """A shuffle whose buffer holds a hundredth of the data, or so many."""
    return finish(make_numbers().shuffle(buffer, seed=1, name="mix").map(compute, AUTOTUNE, name="work"))


def load_cached(late: bool = True) -> tf.data.Dataset:
    """A cache after random changes, or before them."""

    def change(x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return x + tf.random.uniform((WIDTH,), 0, 1e-3), y

    found = make_numbers().map(compute, AUTOTUNE, name="work")
    if late:
        return finish(found.map(change, AUTOTUNE, name="change").cache(name="keep"))
    return finish(found.cache(name="keep").map(change, AUTOTUNE, name="change"))


def load_small(batch_first: bool = False) -> tf.data.Dataset:
    """A short function for each example, or for each batch."""
    numbers = tf.data.Dataset.range(200 * RECORDS, name="numbers")

    def scale(index: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        value = tf.cast(index % 7, tf.float32)[..., None]
        return tf.tanh(tf.sqrt(value + tf.zeros((WIDTH,)))) * 2 + 1, tf.cast(index % 4, tf.int32)

    if batch_first:
        return numbers.batch(BATCH, name="batch").map(scale, AUTOTUNE, name="work").prefetch(AUTOTUNE, name="ahead")
    return numbers.map(scale, AUTOTUNE, name="work").batch(BATCH, name="batch").prefetch(AUTOTUNE, name="ahead")


def load_generator() -> tf.data.Dataset:
    """A Python generator that computes."""

    def generate() -> Iterator[tuple[Float32Array, int]]:
        for number in range(RECORDS):
            yield _compute_in_python(np.full(WIDTH, number % 7 / 7, np.float32)), number % 4

    signature = (tf.TensorSpec((WIDTH,), tf.float32), tf.TensorSpec((), tf.int32))
    return finish(tf.data.Dataset.from_generator(generate, output_signature=signature))


class WaitingBatches(keras.utils.PyDataset):
    """Batches that wait a hundredth of a second."""

    def __init__(self, workers: int) -> None:
        super().__init__(workers)

    def __len__(self) -> int:
        return RECORDS // BATCH

    def __getitem__(self, number: int) -> tuple[Float32Array, Int32Array]:
        time.sleep(WAIT)
        return np.full((BATCH, WIDTH), number % 7 / 7, np.float32), np.arange(BATCH, dtype=np.int32) % 4


def load_batches(workers: int = 1) -> WaitingBatches:
    """A PyDataset with so many workers."""
    return WaitingBatches(workers)
