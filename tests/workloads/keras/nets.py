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


def build_weighted():
    """Two outputs whose losses weigh differently."""
    inputs = keras.Input((6,))
    model = keras.Model(inputs, {"a": layers.Dense(1, name="a")(inputs), "b": layers.Dense(1, name="b")(inputs)})
    model.compile("sgd", {"a": "mse", "b": "mae"}, loss_weights={"a": 1, "b": 100}, weighted_metrics={"b": ["mse"]})
    return model


def load_pair(count=70):
    """Targets for two outputs."""
    inputs, targets = load(count)
    return inputs, {"a": targets, "b": targets}


class Odd(keras.Model):
    """Draws without a state that could be kept; logs of several kinds."""

    def __init__(self, **options):
        super().__init__(**options)
        self.dense = layers.Dense(1, dtype="bfloat16")

    def call(self, inputs, training=False):
        return self.dense(inputs + tf.random.normal(tf.shape(inputs)))

    def train_step(self, data):
        super().train_step(data)
        return {"loss": tf.constant(2.0), "inner": {"deep/er": tf.constant(3)}, "each": tf.ones(4), "text": "words"}


def build_odd():
    """Compiled."""
    model = Odd()
    model.compile("sgd", "mse")
    return model


class Unsaved(keras.Sequential):
    """What no file can hold."""

    def get_config(self):
        raise NotImplementedError("never")


def build_unsaved():
    """Compiled."""
    model = Unsaved([keras.Input((6,)), layers.Dense(1)])
    model.compile("sgd", "mse")
    return model


def build_eager():
    """Runs without programs."""
    model = keras.Sequential([keras.Input((6,)), layers.Dense(1)])
    model.compile("sgd", "mse", run_eagerly=True)
    return model


def build_reader():
    """Takes texts."""
    model = keras.Sequential(
        [keras.Input((1,), dtype="string"), layers.StringLookup(vocabulary=["a", "b"]), layers.Embedding(4, 3),
         layers.Flatten(), layers.Dense(1)]
    )  # fmt: skip
    model.compile("sgd", "mse")
    return model


def load_texts(count=70):
    """One word a sample."""
    return np.array([["a"], ["b"]] * (count // 2)), np.ones(count)


def draw(count=70):
    """Other numbers each time, unless somebody sets the seed."""
    inputs = np.random.normal(size=(count, 6))
    return inputs, inputs[:, :1]


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
