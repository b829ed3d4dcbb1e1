"""A small network and its data, as a user would have them in a file."""

import keras
import numpy as np
from keras import layers

SAMPLES = 90


def build(units=6, rate=5e-3):
    """With draws, statistics and a metric."""
    model = keras.Sequential(
        [
            keras.Input((3,)), layers.Dense(units, "tanh"), layers.BatchNormalization(), layers.Dropout(0.2),
            layers.Dense(1),
        ]
    )  # fmt: skip
    model.compile(keras.optimizers.Adam(rate), "mse", metrics=["mae"])
    return model


def load():
    """Three inputs, and what a sine makes of the first, with noise."""
    rng = np.random.default_rng(4)
    x = rng.uniform(-1, 1, size=(SAMPLES, 3)).astype(np.float32)
    return x, (np.sin(3 * x[:, :1]) + 0.1 * rng.normal(size=(SAMPLES, 1))).astype(np.float32)


def load_broken():
    """One sample is not finite: only replicas that are trained on it break."""
    x, y = load()
    y[7] = np.nan
    return x, y


def mask(replicas=4, samples=60):
    """Replica 2 alone is trained on sample 7; each on 40."""
    masks = np.zeros((replicas, samples), bool)
    for r in range(replicas):
        rows = [i for i in range(samples) if i != 7][r : r + 40]
        masks[r, rows] = True
    masks[1, 7], masks[1, np.flatnonzero(masks[1])[-1]] = True, False
    return masks


def build_seeded():
    """All copies begin alike."""
    kernel = keras.initializers.GlorotUniform(seed=1)
    model = keras.Sequential([keras.Input((3,)), layers.Dense(1, kernel_initializer=kernel)])
    model.compile("sgd", "mse")
    return model


class OwnStep(keras.Sequential):
    """A model with a step of its own, which only lanes can take."""

    def train_step(self, data):
        logs = super().train_step(data)
        return logs | {"double": 2 * logs["loss"]}


def build_own_step():
    """Tells the loss twice."""
    model = OwnStep([keras.Input((3,)), layers.Dense(4, "tanh"), layers.Dense(1)])
    model.compile("adam", "mse")
    return model
