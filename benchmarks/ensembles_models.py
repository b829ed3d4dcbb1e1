"""Models and data of the benchmark `ensembles`: small ones. They need Keras and NumPy, on any backend."""

from collections.abc import Callable
from dataclasses import dataclass

import keras
import numpy as np
from keras import layers

from tfperf.arrays import AnyArray

BATCH, SAMPLES, VALIDATED = 32, 2048, 512
Arrays = tuple[AnyArray, AnyArray]


@dataclass(frozen=True)
class EnsemblePart:
    """A model of the sweep, how many there are of it, and what is asked of an epoch."""

    build: Callable[[], keras.Model]
    load: Callable[[int], Arrays]  # of so many samples
    replicas: int
    goal: float  # how many times as fast as Keras' fit, at least
    loss: str = "mse"
    metric: str = "mae"


def build_mlp() -> keras.Model:
    """A regression of a table, 10-64-64-1."""
    return keras.Sequential([keras.Input((10,)), layers.Dense(64, "relu"), layers.Dense(64, "relu"), layers.Dense(1)])


def build_lstm() -> keras.Model:
    """A regression of series."""
    return keras.Sequential([keras.Input((20, 8)), layers.LSTM(32), layers.Dense(1)])


def build_transformer() -> keras.Model:
    """One block, with the norms after the sums, as in Vaswani et al. 2017."""
    inputs = keras.Input((16, 8))
    x = layers.Dense(32)(inputs)
    x = layers.LayerNormalization()(layers.Add()([x, layers.MultiHeadAttention(2, 16)(x, x)]))
    inner = layers.Dense(32)(layers.Dense(64, "relu")(x))
    x = layers.LayerNormalization()(layers.Add()([x, inner]))
    return keras.Model(inputs, layers.Dense(1)(layers.GlobalAveragePooling1D()(x)))


def build_cnn() -> keras.Model:
    """Two convolutions of images, ten classes."""
    return keras.Sequential([
        keras.Input((28, 28, 1)), layers.Conv2D(16, 3, activation="relu"), layers.MaxPooling2D(),
        layers.Conv2D(32, 3, activation="relu"), layers.MaxPooling2D(), layers.Flatten(),
        layers.Dense(10, "softmax"),
    ])  # fmt: skip


def load_table(count: int) -> Arrays:
    """Numbers."""
    x = np.random.default_rng(0).normal(size=(count, 10)).astype("float32")
    return x, np.sin(x[:, :3].sum(axis=1, keepdims=True))


def load_series(count: int) -> Arrays:
    """Twenty times eight numbers."""
    return _load_steps(count, 20)


def load_sequences(count: int) -> Arrays:
    """Sixteen times eight numbers."""
    return _load_steps(count, 16)


def _load_steps(count: int, length: int) -> Arrays:
    x = np.random.default_rng(0).normal(size=(count, length, 8)).astype("float32")
    return x, np.tanh(x[:, :, 0].sum(axis=1, keepdims=True))


def load_images(count: int) -> Arrays:
    """Noise and labels: the time of a step is that of images."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(count, 28, 28, 1)).astype("float32"), rng.integers(0, 10, count)


PARTS = {
    "mlp": EnsemblePart(build_mlp, load_table, 100, 40),
    "lstm": EnsemblePart(build_lstm, load_series, 10, 3.5),
    "transformer": EnsemblePart(build_transformer, load_sequences, 10, 3.5),
    "cnn": EnsemblePart(build_cnn, load_images, 10, 1.1, "sparse_categorical_crossentropy", "accuracy"),
}


def build_compiled(part: str) -> keras.Model:
    """The model of a part, with its loss and metric."""
    found, model = PARTS[part], PARTS[part].build()
    model.compile(keras.optimizers.Adam(1e-3), found.loss, metrics=[found.metric])
    return model


def load_samples(part: str, samples: int, validated: int) -> Arrays:
    """Of the two kinds together; those that validate are the last ones."""
    return PARTS[part].load(samples + validated)
