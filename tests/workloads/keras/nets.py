"""Models and data as a user would have them."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers


def build_mlp(units=8, dropout=0.3):
    """Dropout, batch statistics, a metric."""
    model = keras.Sequential(
        [keras.Input((6,)), layers.Dense(units, "relu"), layers.Dropout(dropout), layers.BatchNormalization(),
         layers.Dense(1)]
    )  # fmt: skip
    model.compile("adam", "mse", metrics=["mae"])
    return model


class Adversaries(keras.Model):
    """Two parts with an optimizer each, and a step of its own."""

    def __init__(self, **options):
        super().__init__(**options)
        self.first, self.second = layers.Dense(3, "tanh"), layers.Dense(1)
        self.other = keras.optimizers.RMSprop(0.01)
        self.tracker = keras.metrics.Mean("loss")

    def call(self, inputs, training=False):
        return self.second(self.first(inputs))

    def train_step(self, data):
        inputs, targets = data
        with tf.GradientTape(persistent=True) as tape:
            loss = tf.reduce_mean((self(inputs, training=True) - targets) ** 2)
        for part, optimizer in ((self.first, self.optimizer), (self.second, self.other)):
            variables = part.trainable_variables
            optimizer.apply(tape.gradient(loss, variables), variables)
        self.tracker.update_state(loss)
        return {"loss": self.tracker.result()}


def build_adversaries():
    """Compiled with one of the optimizers."""
    model = Adversaries()
    model.compile("sgd", "mse")
    return model


def build_two_inputs():
    """A functional model with a dict of inputs, an embedding, sample weights."""
    number, word = keras.Input((3,), name="number"), keras.Input((), dtype="int64", name="word")
    joined = layers.Concatenate()([number, layers.Embedding(5, 4)(word)])
    model = keras.Model({"number": number, "word": word}, layers.Dense(1)(layers.Dense(6, "gelu")(joined)))
    model.compile(keras.optimizers.AdamW(0.01), "huber", weighted_metrics=["mae"])
    return model


def load(count=70):
    """Numbers for the models with one input."""
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(count, 6))
    return inputs, np.sin(inputs.sum(axis=1, keepdims=True))


def load_two(count=70):
    """A dict of inputs, targets and weights."""
    rng = np.random.default_rng(1)
    inputs = {"number": rng.normal(size=(count, 3)), "word": rng.integers(0, 5, count)}
    return inputs, rng.normal(size=(count, 1)), rng.uniform(size=count)


def fail_in_a_step(count=70):
    """Data with what no loss can be made of."""
    inputs, targets = load(count)
    targets[count // 2] = np.nan
    return inputs, targets
