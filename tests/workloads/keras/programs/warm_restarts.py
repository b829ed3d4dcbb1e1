"""A callback that lets the learning rate fall along a cosine, begins again, and notes the size of the weights."""

import keras
import numpy as np
from keras import layers


class WarmRestarts(keras.callbacks.Callback):
    """Sets the rate of each epoch; each round is longer than the one before it. It can be kept and set back."""

    def __init__(self, highest=0.02, lowest=0.001, first=2, growth=2):
        super().__init__()
        self.highest, self.lowest, self.growth = highest, lowest, growth
        self.length, self.since = first, 0
        self.norms = []

    def on_epoch_begin(self, epoch, logs=None):
        share = 0.5 * (1 + np.cos(np.pi * self.since / self.length))
        self.model.optimizer.learning_rate = self.lowest + (self.highest - self.lowest) * share

    def on_epoch_end(self, epoch, logs=None):
        self.norms.append(float(np.sqrt(sum(np.sum(w**2) for w in self.model.get_weights()))))
        self.since += 1
        if self.since == self.length:
            self.since, self.length = 0, self.length * self.growth

    def get_state(self):
        return {"length": self.length, "since": self.since, "norms": list(self.norms)}

    def set_state(self, state):
        self.length, self.since = int(state["length"]), int(state["since"])
        self.norms = [float(norm) for norm in state["norms"]]


def build_callback(highest=0.02, first=2):
    return WarmRestarts(highest, first=first)


def build_model(units=16):
    model = keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dense(units, activation="elu", kernel_initializer="he_normal"),
            layers.LayerNormalization(),
            layers.Dense(units, activation="elu"),
            layers.Dense(2),
        ]
    )
    model.compile(optimizer=keras.optimizers.SGD(0.02, momentum=0.9, nesterov=True), loss="huber", metrics=["mse"])
    return model


def load_samples(count=430):
    """Where a thrown ball lands, by its start."""
    rng = np.random.default_rng(99)
    start = rng.uniform(0.2, 1.0, size=(count, 4))
    seconds = 2 * start[:, 3] / 1.0
    landing = np.stack([start[:, 0] + start[:, 2] * seconds, seconds], axis=1)
    return start.astype("float32"), landing.astype("float32")
