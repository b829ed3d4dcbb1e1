"""Keras trainings whose tf.data pipeline has one planted fault each."""

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.diagnosis.fits import BATCH, WIDTH, build_mlp, make_arrays
from benchmarks.diagnosis.program import Fit, register_program

STEPS = 12
SIGNATURE = (tf.TensorSpec((WIDTH,), tf.float32), tf.TensorSpec((1,), tf.float64))


def make_slices() -> tf.data.Dataset:
    """Single samples."""
    return tf.data.Dataset.from_tensor_slices(make_arrays(STEPS))


def fit(data: tf.data.Dataset) -> Fit:
    """A small network on a pipeline."""
    return Fit(build_mlp(64, 1), data, STEPS)


def compute(x: Any, y: Any) -> tuple[Any, Any]:
    """About half a millisecond of one core."""
    wide = tf.tile(x[:, None], (1, WIDTH))
    for _ in range(16):
        wide = tf.tanh(wide @ wide / 64.0)
    return x + 1e-9 * tf.reduce_sum(wide), y


@register_program("input", "Map")
def make_no_cache(planted: bool) -> Fit:
    """What a map computes is the same each epoch, and computed each epoch."""
    mapped = make_slices().map(compute)
    return fit((mapped if planted else mapped.cache()).batch(BATCH).prefetch(4))


@register_program("input", sleeps=True)
def make_no_prefetch(planted: bool) -> Fit:
    """Elements that come late, as from a network, one after the other and none ahead."""

    def wait(x: Any, y: Any) -> tuple[Any, Any]:
        tf.numpy_function(lambda: time.sleep(0.025), [], [])
        return x, y

    batches = make_slices().batch(BATCH)
    if not planted:
        return fit(batches.map(wait).cache().prefetch(4))
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False
    return fit(batches.map(wait).with_options(options))


@register_program("input", "Map")
def make_python_in_map(planted: bool) -> Fit:
    """A map that calls Python for each sample."""

    def scale(x: Any) -> Any:
        return np.sort(np.tile(x, 160))[::160].astype(np.float32)

    def map_one(x: Any, y: Any) -> tuple[Any, Any]:
        return tf.ensure_shape(tf.numpy_function(scale, [x], tf.float32), (WIDTH,)), y

    data = make_slices().map(map_one) if planted else make_slices().map(lambda x, y: (tf.sort(x), y)).cache()
    return fit(data.batch(BATCH).prefetch(4))


@register_program("input", "Map", small={"batch": 256})
def make_map_before_batch(planted: bool, batch: int = 2048) -> Fit:
    """Many samples that a map takes one by one, each with little to do."""
    arrays = make_arrays(STEPS, batch)
    data = tf.data.Dataset.from_tensor_slices(arrays)
    one = data.map(lambda x, y: ((x - 0.5) * 2.0, y)).batch(batch)
    return fit((one if planted else data.batch(batch).map(lambda x, y: ((x - 0.5) * 2.0, y)).cache()).prefetch(4))


@register_program("input", small={"buffer": 2000})
def make_large_shuffle(planted: bool, buffer: int = 20_000) -> Fit:
    """A buffer that has to be filled before the first batch of each epoch."""

    def generate(seed: Any) -> Any:
        return tf.random.stateless_normal((WIDTH,), (seed, 1)), tf.zeros((1,), tf.float64)

    numbers = tf.data.Dataset.range(1, 100_000).map(generate)
    data = (numbers.shuffle(buffer) if planted else numbers.take(STEPS * BATCH).cache()).batch(BATCH).take(STEPS)
    return fit(data.prefetch(4))


@register_program("input")
def make_compressed_records(planted: bool) -> Fit:
    """Records of one compressed file, read and unpacked again each epoch."""
    file = str(Path(tempfile.mkdtemp(), "records.gz"))
    x, y = make_arrays(STEPS)
    with tf.io.TFRecordWriter(file, "GZIP") as writer:
        for one, target in zip(x, y, strict=True):
            content = np.concatenate([one, np.random.default_rng(1).normal(size=20000).astype(np.float32)])
            writer.write(tf.io.serialize_tensor(np.append(content, target.astype(np.float32))).numpy())

    def parse(record: Any) -> tuple[Any, Any]:
        values = tf.ensure_shape(tf.io.parse_tensor(record, tf.float32), (WIDTH + 20001,))
        return values[:WIDTH], values[-1:]

    data = tf.data.TFRecordDataset(file, "GZIP").map(parse)
    return fit((data if planted else data.cache()).batch(BATCH).prefetch(4))


@register_program("input", "Map")
def make_images_decoded(planted: bool) -> Fit:
    """Pictures that are decoded again each epoch."""
    picture = np.random.default_rng(1).integers(0, 255, (160, 160, 3)).astype(np.uint8)
    png = tf.io.encode_png(picture)

    def decode(x: Any, y: Any) -> tuple[Any, Any]:
        pixels = tf.cast(tf.io.decode_png(png + tf.strings.substr("", 0, 0)), tf.float32)
        return x + 1e-9 * tf.reduce_mean(pixels), y

    def decode_each(number: Any, pair: Any) -> tuple[Any, Any]:
        return decode(*pair)

    data = make_slices().enumerate().map(decode_each)
    return fit((data if planted else data.cache()).batch(BATCH).prefetch(4))


@register_program("input")
def make_text_by_python(planted: bool) -> Fit:
    """Lines that a generator takes apart in Python."""
    lines = [" ".join(f"{value:.6f}" for value in row) for row in make_arrays(STEPS)[0]]

    def generate() -> Any:
        for line in lines:
            yield np.array([float(word) for _ in range(12) for word in line.split()][:WIDTH], np.float32), np.zeros(1)

    data = tf.data.Dataset.from_generator(generate, output_signature=SIGNATURE)
    return fit((data if planted else data.cache()).batch(BATCH).prefetch(4))
