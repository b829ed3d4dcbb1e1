"""Keras trainings with one planted cause each."""

import tempfile
import time
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from benchmarks.diagnosis.program import Fit, register_program

WIDTH, BATCH = 64, 64


def build_mlp(units: int = 512, layers: int = 3, jit: bool = False, per_call: int = 1, **settings: Any) -> keras.Model:
    """(B, 64) to one number."""
    model = keras.Sequential([keras.Input((WIDTH,)), *(keras.layers.Dense(units, "relu") for _ in range(layers)),
                              keras.layers.Dense(1)])  # fmt: skip
    model.compile(
        **({"optimizer": "sgd", "loss": "mse", "jit_compile": jit, "steps_per_execution": per_call} | settings)
    )
    return model


def make_arrays(batches: int, batch: int = BATCH) -> tuple[Any, Any]:
    """x (N, 64) and y (N, 1) of so many batches."""
    draws = np.random.default_rng(1)
    return draws.normal(size=(batches * batch, WIDTH)).astype(np.float32), draws.normal(size=(batches * batch, 1))


def make_dataset(batches: int, batch: int = BATCH) -> tf.data.Dataset:
    """The same, ahead of time."""
    return tf.data.Dataset.from_tensor_slices(make_arrays(batches, batch)).batch(batch, drop_remainder=True).prefetch(4)


class Waiter(keras.callbacks.Callback):
    """Waits after each batch."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Wait for 20 ms."""
        time.sleep(0.02)


class Quantiles(keras.callbacks.Callback):
    """Looks at all weights after each batch."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Quantiles and histograms of all weights."""
        for weight in self.model.get_weights():
            np.sort(weight, axis=None)
            for bins in (10, 100, 1000):
                np.histogram(weight, bins)


class Reporter(keras.callbacks.Callback):
    """Writes weights as text at the end of each epoch."""

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Text of some weights, as a report needs."""
        ",".join(f"{value:.6f}" for value in self.model.get_weights()[2].ravel())


@register_program("callback", "Waiter", sleeps=True)
def make_waiting_callback(planted: bool) -> Fit:
    """A callback that sleeps after each batch."""
    return Fit(build_mlp(), make_dataset(16), 16, (lambda: [Waiter()]) if planted else list)


@register_program("callback", "Quantiles")
def make_busy_callback(planted: bool) -> Fit:
    """A callback that sorts and counts all weights after each batch."""
    return Fit(build_mlp(), make_dataset(16), 16, (lambda: [Quantiles()]) if planted else list)


@register_program("callback", "Reporter")
def make_callback_at_epochs_end(planted: bool) -> Fit:
    """A callback that works at the end of each epoch."""
    return Fit(build_mlp(512), make_dataset(12), 12, (lambda: [Reporter()]) if planted else list)


@register_program("callback", "ModelCheckpoint")
def make_checkpoints(planted: bool) -> Fit:
    """The whole model is written every four batches."""
    folder = tempfile.mkdtemp()

    def make() -> list[Any]:
        return [keras.callbacks.ModelCheckpoint(str(Path(folder, "m.keras")), save_freq=4)]

    return Fit(build_mlp(512, optimizer="adam"), make_dataset(12), 12, make if planted else list)


@register_program("validation")
def make_large_validation(planted: bool) -> Fit:
    """Each epoch is followed by a validation of four times as many batches."""
    return Fit(build_mlp(), make_dataset(12), 12, settings={"validation_data": make_dataset(48)} if planted else {})


@register_program("epoch")
def make_short_epochs(planted: bool) -> Fit:
    """Epochs of four batches."""
    if planted:
        return Fit(build_mlp(), make_arrays(4), 4)
    return Fit(build_mlp(), make_dataset(48), 48)


@register_program("calls")
def make_short_calls(planted: bool) -> Fit:
    """A network so small that Keras' loop takes longer than its steps."""
    return Fit(build_mlp(16, 1, per_call=1 if planted else 96), make_dataset(96), 96)


@register_program("eager")
def make_eager_fit(planted: bool) -> Fit:
    """run_eagerly=True."""
    return Fit(build_mlp(run_eagerly=planted), make_dataset(12), 12)


class Pages(keras.utils.PyDataset):
    """Batches that cost some time each."""

    def __init__(self, slow: bool) -> None:
        super().__init__(workers=1)
        self.slow, self.pages = slow, make_arrays(12)

    def __len__(self) -> int:
        return 100_000  # epochs have their own number of steps

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        if self.slow:
            np.sort(np.random.default_rng(index).normal(size=400_000))
        x, y = self.pages
        return x[index % 12 * BATCH :][:BATCH], y[index % 12 * BATCH :][:BATCH]


@register_program("input")
def make_slow_pydataset(planted: bool) -> Fit:
    """A PyDataset that computes each batch."""
    return Fit(build_mlp(64, 1), Pages(planted), 12)


@register_program("input")
def make_slow_generator(planted: bool) -> Fit:
    """A Python generator of single samples, each of which is computed."""
    x, y = make_arrays(12)

    def generate() -> Any:
        for one, target in zip(x, y, strict=True):
            yield (np.sort(np.tile(one, 160))[:WIDTH] if planted else one), target

    signature = (tf.TensorSpec((WIDTH,), tf.float32), tf.TensorSpec((1,), tf.float64))
    data = tf.data.Dataset.from_generator(generate, output_signature=signature).batch(BATCH)
    return Fit(build_mlp(64, 1), data.prefetch(2) if planted else data.cache().prefetch(2), 12)


@register_program("retracing")
def make_lengths_in_fit(planted: bool) -> Fit:
    """Every batch has another length, which the model takes for another shape."""
    lengths = iter(range(6, 10_000))

    def generate() -> Any:
        while True:
            length = next(lengths) if planted else 40
            yield np.ones((8, length, 8), np.float32), np.ones((8, 1), np.float32)

    model = keras.Sequential([keras.Input((None, 8)), keras.layers.Dense(32, "relu"),
                              keras.layers.GlobalAveragePooling1D(), keras.layers.Dense(1)])  # fmt: skip
    model.compile("sgd", "mse", jit_compile=True)
    shape = (None, None, 8) if planted else (8, 40, 8)
    signature = (tf.TensorSpec(shape, tf.float32), tf.TensorSpec((8, 1), tf.float32))
    data = tf.data.Dataset.from_generator(generate, output_signature=signature)
    return Fit(model, data.prefetch(4), 8)


class Words(keras.layers.Layer):
    """Rows of a table, gathered from the variable itself: Keras' own layer copies all of it before."""

    def __init__(self, rows: int) -> None:
        super().__init__(name="words")
        self.table = self.add_weight((rows, 64), "uniform", name="table")

    def call(self, tokens: Any) -> Any:
        """tokens (B, T), their rows (B, T, 64)."""
        return tf.gather(self.table.value, tokens)


@register_program("table_update")
def make_large_table(planted: bool) -> Fit:
    """Adam decays the moments of all rows of a table, of which a batch has few."""
    rows = 100_000
    model = keras.Sequential([keras.Input((16,), dtype="int32"), Words(rows), keras.layers.GlobalAveragePooling1D(),
                              keras.layers.Dense(1)])  # fmt: skip
    model.compile("adam" if planted else "sgd", "mse", jit_compile=False)
    tokens = np.random.default_rng(1).integers(0, rows, (12 * BATCH, 16)).astype(np.int32)
    data = tf.data.Dataset.from_tensor_slices((tokens, np.ones((len(tokens), 1), np.float32))).batch(BATCH).prefetch(2)
    return Fit(model, data, 12)


def clip_columns(x: Any) -> Any:
    """x (B, 64), clipped to quantiles of its columns."""
    return np.clip(x, *np.quantile(np.tile(x, (80, 1)), [0.01, 0.99], axis=0)).astype(np.float32)


class Clipped(keras.layers.Layer):
    """Sorts its input, by NumPy or by TensorFlow."""

    def __init__(self, by_python: bool) -> None:
        super().__init__()
        self.by_python = by_python

    def call(self, x: Any) -> Any:
        """x (B, 64), the same with its columns clipped by quantiles."""
        if not self.by_python:
            return tf.clip_by_value(x, -2.0, 2.0)
        y = tf.numpy_function(clip_columns, [x], tf.float32)
        return tf.ensure_shape(y, x.shape)


@register_program("py_function")
def make_python_layer(planted: bool) -> Fit:
    """A layer that calls NumPy."""
    model = keras.Sequential([keras.Input((WIDTH,)), Clipped(planted), keras.layers.Dense(128), keras.layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=False)
    return Fit(model, make_dataset(12), 12)


class Correlation(keras.metrics.Mean):
    """A rank correlation by NumPy."""

    def update_state(self, y: Any, found: Any, sample_weight: Any = None) -> Any:
        """Of y and found (B, 1)."""

        def rank(a: Any, b: Any) -> Any:
            for _ in range(800):
                ranks = [np.argsort(np.argsort(one[:, 0])) for one in (a, b)]
            return np.float32(np.corrcoef(ranks[0], ranks[1])[0, 1])

        return super().update_state(tf.ensure_shape(tf.numpy_function(rank, [y, found], tf.float32), ()))


@register_program("py_function")
def make_python_metric(planted: bool) -> Fit:
    """A metric that NumPy computes in each step."""
    metrics = [Correlation(name="rank")] if planted else ["mae"]
    return Fit(build_mlp(metrics=metrics), make_dataset(12), 12)


class Whitened(keras.layers.Layer):
    """Multiplies by the inverse of a matrix that never changes."""

    def __init__(self, each_time: bool) -> None:
        super().__init__()
        self.each_time = each_time
        draws = np.random.default_rng(2).normal(size=(700, 700)).astype(np.float32)
        self.table = tf.constant(draws @ draws.T + 700 * np.eye(700, dtype=np.float32))
        self.inverse = tf.linalg.inv(self.table)

    def call(self, x: Any) -> Any:
        """x (B, 700)."""
        return x @ (tf.linalg.inv(self.table) if self.each_time else self.inverse)


@register_program("constants")
def make_constant_inverse(planted: bool) -> Fit:
    """A matrix is inverted in every step that could be once."""
    model = keras.Sequential([keras.Input((WIDTH,)), keras.layers.Dense(700), Whitened(planted), keras.layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=False)
    return Fit(model, make_dataset(12), 12)


@register_program("short_operations")
def make_small_lstm(planted: bool) -> Fit:
    """A recurrent layer of few units, whose operations take microseconds; its twin is compiled by XLA."""
    draws = np.random.default_rng(1)
    x, y = draws.normal(size=(12 * 16, 40, 8)).astype(np.float32), draws.normal(size=(12 * 16, 1))
    model = keras.Sequential([keras.Input((40, 8)), keras.layers.LSTM(8), keras.layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=not planted)
    return Fit(model, tf.data.Dataset.from_tensor_slices((x, y)).batch(16, drop_remainder=True).prefetch(4), 12)


@register_program("slow_xla", "depthwise")
def make_depthwise_by_xla(planted: bool) -> Fit:
    """Convolutions of each channel by itself, compiled by XLA on a processor."""
    draws = np.random.default_rng(1)
    layers = [keras.layers.DepthwiseConv2D(3, padding="same", activation="relu") for _ in range(4)]
    model = keras.Sequential([keras.Input((16, 16, 16)), *layers, keras.layers.Flatten(), keras.layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=planted)
    x, y = draws.normal(size=(12 * 32, 16, 16, 16)).astype(np.float32), draws.normal(size=(12 * 32, 1))
    return Fit(model, tf.data.Dataset.from_tensor_slices((x, y)).batch(32, drop_remainder=True).prefetch(4), 12)
