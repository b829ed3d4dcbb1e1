"""Keras trainings with one planted cause each, by someone who had not read the rules, again: train functions."""

import math
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from benchmarks.diagnosis.program import Fit, register_program
from benchmarks.diagnosis.unseen_parts import draw_pictures, make_batches


class Distilled(keras.Model):
    """A student that learns from a wider teacher at a temperature that falls every eighth step."""

    train_function: Any  # set by Keras

    def __init__(self, as_number: bool) -> None:
        super().__init__()
        self.as_number, self.count = as_number, 0
        self.teacher, self.student = self._build(24), self._build(12)
        self.teacher.trainable = False
        self.tracker = keras.metrics.Mean(name="distilled")
        self.built = True

    def _build(self, filters: int) -> keras.Model:
        return keras.Sequential([
            keras.Input((24, 24, 3)), layers.Conv2D(filters, 3, 2, activation="relu"), layers.BatchNormalization(),
            layers.Conv2D(2 * filters, 3, activation="relu"), layers.GlobalAveragePooling2D(), layers.Dense(10),
        ])  # fmt: skip

    def call(self, x: Any) -> Any:
        """Pictures (B, 24, 24, 3)."""
        return self.student(x)

    def make_train_function(self, force: bool = False) -> Any:
        """One step with the temperature as an argument, which may be a Python number."""
        if self.train_function is None or force:

            @tf.function
            def step(pair: Any, temperature: Any) -> Any:
                x, y = pair
                soft = tf.nn.softmax(self.teacher(x, training=False) / temperature)
                with tf.GradientTape() as tape:
                    logits = self.student(x, training=True)
                    hard = tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits)
                    far = tf.nn.softmax_cross_entropy_with_logits(soft, logits / temperature)
                    loss = tf.reduce_mean(0.3 * hard + 0.7 * temperature**2 * far)
                weights = self.student.trainable_variables
                self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
                self.tracker.update_state(loss)
                return {"distilled": self.tracker.result()}

            def train(iterator: Any) -> Any:
                self.count += 1
                temperature = 1.0 + 4.0 / (1.0 + self.count // 8)
                return step(next(iterator), temperature if self.as_number else tf.constant(temperature))

            self.train_function = train
        return self.train_function


@register_program("retracing")
def make_temperature_as_number(planted: bool) -> Fit:
    """Distillation whose falling temperature is a Python number in the arguments of a tf.function, or a tensor."""
    model = Distilled(planted)
    optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
    optimizer.build(model.student.trainable_variables)
    model.compile(optimizer, jit_compile=False)
    return Fit(model, make_batches(*draw_pictures(24 * 32, 24), batch=32), 24)


class TreeByNode:
    """Sums and least values of priorities over a binary tree, node by node as in reinforcement-learning kits."""

    def __init__(self, leaves: int) -> None:
        self.leaves = leaves
        self.sums, self.least = np.zeros(2 * leaves), np.full(2 * leaves, np.inf)

    def raise_priorities(self, indices: Any, errors: Any) -> None:
        """Set the priorities of leaves from errors (B)."""
        for index, error in zip(indices, errors, strict=True):
            node = int(index) + self.leaves
            self.sums[node] = self.least[node] = (abs(error) + 1e-3) ** 0.6
            node //= 2
            while node >= 1:
                self.sums[node] = self.sums[2 * node] + self.sums[2 * node + 1]
                self.least[node] = min(self.least[2 * node], self.least[2 * node + 1])
                node //= 2


class TreeByLevel(TreeByNode):
    """The same, level by level."""

    def raise_priorities(self, indices: Any, errors: Any) -> None:
        """Set the priorities of leaves from errors (B)."""
        nodes = indices + self.leaves
        self.sums[nodes] = self.least[nodes] = (np.abs(errors) + 1e-3) ** 0.6
        nodes = nodes // 2
        while nodes[0] >= 1:
            self.sums[nodes] = self.sums[2 * nodes] + self.sums[2 * nodes + 1]
            self.least[nodes] = np.minimum(self.least[2 * nodes], self.least[2 * nodes + 1])
            nodes = nodes // 2


class Agent(keras.Model):
    """Values of actions, learned from a replay memory with priorities."""

    train_function: Any  # set by Keras

    def __init__(self, tree: TreeByNode) -> None:
        super().__init__()
        self.tree = tree
        self.values = keras.Sequential([keras.Input((64,)), layers.Dense(512, "relu"), layers.Dense(512, "relu"),
                                        layers.Dense(6)])  # fmt: skip
        self.built = True

    def call(self, x: Any) -> Any:
        """States (B, 64)."""
        return self.values(x)

    def make_train_function(self, force: bool = False) -> Any:
        """A compiled step, and then the priorities."""
        if self.train_function is None or force:

            @tf.function
            def step(states: Any, actions: Any, returns: Any) -> Any:
                with tf.GradientTape() as tape:
                    errors = tf.gather(self.values(states), actions, batch_dims=1) - returns
                    loss = tf.reduce_mean(tf.where(tf.abs(errors) < 1.0, 0.5 * errors**2, tf.abs(errors) - 0.5))
                weights = self.values.trainable_variables
                self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
                return loss, errors

            def train(iterator: Any) -> Any:
                indices, *batch = next(iterator)
                loss, errors = step(*batch)
                self.tree.raise_priorities(indices.numpy(), errors.numpy())
                return {"loss": loss}

            self.train_function = train
        return self.train_function


@register_program("python", "raise_priorities")
def make_priorities_by_node(planted: bool) -> Fit:
    """Priorities of a replay memory are set in a tree after each step, node by node in Python, or level by level."""
    model = Agent(TreeByNode(2**12) if planted else TreeByLevel(2**12))
    optimizer = keras.optimizers.SGD(0.001)
    optimizer.build(model.values.trainable_variables)
    model.compile(optimizer, jit_compile=False)
    draws, count = np.random.default_rng(21), 24 * 128
    indices, actions = draws.permutation(2**12)[:count], draws.integers(0, 6, count).astype(np.int32)
    states = draws.normal(size=(count, 64)).astype(np.float32)
    returns = draws.normal(size=count).astype(np.float32)
    return Fit(model, make_batches(indices, states, actions, returns, batch=128), 24)


class Frequencies:
    """Cumulated frequencies of the words of a vocabulary."""

    def __init__(self, count: int) -> None:
        shares = 1.0 / np.arange(10, count + 10) ** 0.75
        self.limits: Any = (np.cumsum(shares) / shares.sum()).tolist()


class SkipGram(keras.Model):
    """Vectors of words, which are trained against negative words drawn by frequency."""

    train_function: Any  # set by Keras

    def __init__(self, frequencies: Frequencies) -> None:
        super().__init__()
        self.frequencies, count = frequencies, len(frequencies.limits)
        self.near, self.around = layers.Embedding(count, 64), layers.Embedding(count, 64)
        self.tracker = keras.metrics.Mean(name="skip")
        self.near.build(None)
        self.around.build(None)
        self.built = True

    def call(self, words: Any) -> Any:
        """Words (B,)."""
        return self.near(words)

    def make_train_function(self, force: bool = False) -> Any:
        """A compiled step, which gets the frequencies as a tensor."""
        if self.train_function is None or force:

            @tf.function
            def step(pair: Any, limits: Any) -> Any:
                words, context = pair
                drawn = tf.searchsorted(limits, tf.random.uniform((512,), 0.0, 0.999))
                with tf.GradientTape() as tape:
                    vectors = self.near(words)
                    right = tf.reduce_sum(vectors * self.around(context), -1)
                    wrong = tf.matmul(vectors, self.around(drawn), transpose_b=True)
                    loss = tf.reduce_mean(tf.nn.softplus(-right)) + tf.reduce_mean(tf.nn.softplus(wrong))
                weights = self.trainable_variables
                self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
                self.tracker.update_state(loss)
                return {"skip": self.tracker.result()}

            def train(iterator: Any) -> Any:
                return step(next(iterator), tf.convert_to_tensor(self.frequencies.limits, tf.float32))

            self.train_function = train
        return self.train_function


@register_program("conversion")
def make_list_of_frequencies(planted: bool) -> Fit:
    """Negative words are drawn by a Python list of 60000 numbers, which becomes a tensor in each step, or once."""
    frequencies = Frequencies(60_000)
    model = SkipGram(frequencies)
    if not planted:
        frequencies.limits = tf.constant(frequencies.limits)
    optimizer = keras.optimizers.SGD(0.05)
    optimizer.build(model.trainable_variables)
    model.compile(optimizer, jit_compile=False)
    words = np.random.default_rng(22).integers(0, 60_000, (2, 24 * 512)).astype(np.int32)
    return Fit(model, make_batches(words[0], words[1], batch=512), 24)


PERIODS = tuple(24.0 * days for days in (0.25, 0.5, 1, 2, 3.5, 7, 14, 28, 30.4, 91.3, 182.6, 365.2))


def expand_hours(hours: Any) -> Any:
    """Hours (B,) as waves of all periods (B, waves)."""
    waves: list[Any] = []
    for period in PERIODS:
        phase = 2.0 * math.pi * tf.math.floormod(hours, period) / period
        for order in (1.0, 2.0, 3.0):
            waves += [tf.sin(order * phase), tf.cos(order * phase)]
    return tf.stack(waves, -1)


class DemandForecast(keras.Model):
    """DemandForecast of the next day from the hour and the last two days."""

    train_function: Any  # set by Keras

    def __init__(self, before: bool) -> None:
        super().__init__()
        self.before = before
        self.network = keras.Sequential([
            keras.Input((6 * len(PERIODS) + 48,)), layers.Dense(512, "relu"), layers.Dropout(0.1),
            layers.Dense(512, "relu"), layers.Dense(24),
        ])  # fmt: skip
        self.tracker = keras.metrics.MeanSquaredError(name="mse")
        self.built = True

    def call(self, x: Any) -> Any:
        """Waves and past demand (B, n)."""
        return self.network(x)

    def make_train_function(self, force: bool = False) -> Any:
        """The hours are expanded before the compiled step or in it."""
        if self.train_function is None or force:

            @tf.function
            def step(hours: Any, past: Any, y: Any) -> Any:
                x = tf.concat([hours if self.before else expand_hours(hours), past], -1)
                with tf.GradientTape() as tape:
                    found = self.network(x, training=True)
                    slips = y - found
                    loss = tf.reduce_mean(tf.maximum(0.7 * slips, -0.3 * slips))
                weights = self.network.trainable_variables
                self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
                self.tracker.update_state(y, found)
                return {"mse": self.tracker.result()}

            def train(iterator: Any) -> Any:
                hours, past, y = next(iterator)
                return step(expand_hours(hours) if self.before else hours, past, y)

            self.train_function = train
        return self.train_function


@register_program("eager")
def make_waves_before_the_step(planted: bool) -> Fit:
    """Calendar features of a batch are computed operation by operation before the compiled step, or in it."""
    model = DemandForecast(planted)
    optimizer = keras.optimizers.SGD(0.01, nesterov=True, momentum=0.9)
    optimizer.build(model.network.trainable_variables)
    model.compile(optimizer, jit_compile=False)
    draws, count = np.random.default_rng(23), 24 * 64
    hours = draws.integers(0, 80_000, count).astype(np.float32)
    past, y = (draws.normal(size=(count, size)).astype(np.float32) for size in (48, 24))
    return Fit(model, make_batches(hours, past, y, batch=64), 24)
