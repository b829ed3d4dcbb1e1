"""Callbacks as a user would have them."""

import time

import keras
import numpy as np


class Norms(keras.callbacks.Callback):
    """Stops when the loss falls no more, in its own way, and keeps what it saw."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def on_epoch_end(self, epoch, logs=None):
        self.seen.append(logs["loss"])
        self.model.optimizer.learning_rate.assign(0.01 / len(self.seen))

    def get_state(self):
        return {"seen": self.seen, "array": np.array(self.seen, "float32"), "nested": {"a": (1, None)}}

    def set_state(self, state):
        assert state["nested"] == {"a": (1, None)} and state["array"].dtype == np.float32
        self.seen = state["seen"]


def build_norms():
    """The callback."""
    return Norms()


class Printer(keras.callbacks.Callback):
    """Told of each step; keeps nothing that could be asked for."""

    def on_train_batch_end(self, batch, logs=None):
        if batch == 3 and logs["loss"] < 0:
            raise ValueError("never")


def build_printer():
    """The callback."""
    return Printer()


class Slow(keras.callbacks.Callback):
    """Leaves time to be killed."""

    def on_epoch_end(self, epoch, logs=None):
        time.sleep(0.15)

    def get_state(self):
        return {}

    def set_state(self, state):
        assert state == {}


def build_slow():
    """The callback."""
    return Slow()


class Adding(keras.callbacks.Callback):
    """Adds to the logs what it reads of the model's history, and to those of one epoch something else."""

    def on_epoch_end(self, epoch, logs=None):
        if epoch == 1:
            logs["second"] = 5.0
        logs["epochs_so_far"] = float(len(self.model.history.history.get("loss", ())))


def build_adding():
    """The callback."""
    return Adding()
