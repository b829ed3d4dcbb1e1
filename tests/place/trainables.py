"""Two small trainables: a network of convolutions with BatchNormalization and Dropout, and a recommender of two tables.

BatchNormalization normalises each group of examples by the group's own statistics, and its moving averages merge by
mean: over the groups of a local batch, and over devices. With one group a device this is what Keras' layer does on
each device alone; with as many groups in the whole batch, any number of devices does the same arithmetic.
"""

from collections.abc import Callable
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tests.place.uncommon import Uncommon, uncommon_batches
from tfperf.place.draws import Draws
from tfperf.place.trainable import Metric, PassInputs, PassOutcome, Statistic, Trainable

STEPS, SEED, RATE = 10, 7, 0.3
IMAGES, SIDE, CHANNELS, CLASSES, UNITS = 8, 6, 2, 4, 1100  # statistics of the units are more than is small
RATINGS, USERS, ITEMS, WIDTH, SEEN = 12, 600, 500, 8, 3


class Drawn(keras.layers.Dropout):
    """Keras' Dropout by the draws that it is handed before it is called."""

    draws = None

    def call(self, x, training=False):
        """What is left of x."""
        return tf.where(self.draws >= self.rate, x / (1 - self.rate), tf.zeros_like(x)) if training else x


def start(seed):
    return keras.initializers.GlorotUniform(seed)


def network(dtype):
    """Images (B, 6, 6, 2) to logits (B, 4)."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((SIDE, SIDE, CHANNELS), dtype=dtype),
            layers.Conv2D(4, 3, padding="same", kernel_initializer=start(1), name="convolution", dtype=dtype),
            layers.BatchNormalization(momentum=0.8, name="first", dtype=dtype), layers.ReLU(dtype=dtype),
            Drawn(RATE, seed=SEED, name="dropout", dtype=dtype),
            layers.Conv2D(4, 3, strides=2, kernel_initializer=start(2), name="strided", dtype=dtype),
            layers.Flatten(dtype=dtype), layers.Dense(UNITS, kernel_initializer=start(3), name="wide", dtype=dtype),
            layers.BatchNormalization(momentum=0.8, name="second", dtype=dtype), layers.ReLU(dtype=dtype),
            Drawn(RATE, seed=SEED, name="more_dropout", dtype=dtype),
            layers.Dense(CLASSES, kernel_initializer=start(4), name="logits", dtype=dtype),
        ],
        name="network",
    )  # fmt: skip


class Network(Trainable):
    """Its part is (images, classes), in so many groups."""

    def __init__(self, dtype="float64", groups=1):
        self.model, self.groups = network(dtype), groups
        self.dropouts = [layer for layer in self.model.layers if isinstance(layer, Drawn)]
        self.weights = self.model.trainable_variables
        # averages, and integers: the seeds that Keras keeps in each dropout
        self.statistics = [
            Statistic(v, "mean" if v.dtype == dtype else "first") for v in self.model.non_trainable_variables
        ]
        self.metrics = [
            Metric("accuracy", "sum", dtype), Metric("spread", "mean", dtype), Metric("bias", "first", dtype)
        ]  # fmt: skip

    def sample_draws(self, position, local_batch, rows, survey):
        """Of each dropout."""
        draws, count = Draws(SEED, position.step, position.first), local_batch[0].shape[0]
        return [draws.sample_uniform(count, layer.output.shape[1:], i) for i, layer in enumerate(self.dropouts)]

    def compute(self, given: PassInputs) -> PassOutcome:
        """Cross entropy."""
        loss, each, logits = 0.0, [], []
        split = [tf.split(one, self.groups) for one in (*given.local_batch, *given.draws)]
        for images, classes, *draws in zip(*split, strict=True):
            for layer, drawn in zip(self.dropouts, draws, strict=True):
                layer.draws = drawn
            found, statistics = self.model.stateless_call(given.weights, given.statistics, images, training=True)
            loss += tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(classes, found))
            logits.append(found)
            each.append(statistics)
        merged = [
            tf.add_n(group) / self.groups if one.merge == "mean" else group[0]
            for one, group in zip(self.statistics, zip(*each, strict=True), strict=True)
        ]
        logits = tf.concat(logits, 0)
        right = tf.equal(tf.argmax(logits, 1, tf.int32), given.local_batch[1])
        bias = tf.reduce_sum(given.weights[-1])
        accuracy = tf.reduce_sum(tf.cast(right, logits.dtype)) / given.count
        return PassOutcome(loss, merged, [accuracy, tf.reduce_mean(logits**2), bias])


class Recommender(Trainable):
    """Its part is (users (B), items (B, 3), PAD below zero; ratings (B)): who saw what, and liked the last."""

    most_look_ups = 1, SEEN

    def __init__(self, dtype="float64"):
        def table(rows, name, seed):
            uniform = keras.initializers.RandomUniform(-0.5, 0.5, seed)
            layer = keras.layers.Embedding(rows, WIDTH, embeddings_initializer=uniform, name=name, dtype=dtype)
            layer.build()
            return layer.embeddings

        # weights first: the order in which variables are made is the trainable's own
        self.top = keras.Sequential(
            [
                keras.Input((3 * WIDTH,), dtype=dtype),
                keras.layers.Dense(64, "tanh", kernel_initializer=start(5), name="hidden", dtype=dtype),
                keras.layers.Dense(1, kernel_initializer=start(6), name="rating", dtype=dtype),
            ],
            name="top",
        )  # fmt: skip
        self.embeddings = [table(USERS, "users", 1), table(ITEMS, "items", 2)]
        self.weights = self.top.trainable_variables
        counts = keras.Variable(np.zeros(USERS), dtype=dtype, trainable=False, name="counts")
        offsets = keras.Variable(np.sin(np.arange(USERS)) / 4, dtype=dtype, trainable=False, name="offsets")
        self.statistics = [Statistic(counts, "sum"), Statistic(offsets, "fixed")]
        self.metrics = [Metric("error", "sum", dtype)]

    def select_ids(self, local_batch):
        """Users as they are, items without what fills up."""
        users, items, _ = local_batch
        return users, tf.maximum(items, 0)

    def compute(self, given: PassInputs) -> PassOutcome:
        """Squared error of the ratings."""
        users, items, ratings = given.local_batch
        who, what = given.rows
        real = tf.cast(items >= 0, what.dtype)[..., None]
        seen = tf.reduce_sum(what * real, 1) / tf.reduce_sum(real, 1)
        x = tf.concat([who, seen, who * seen], 1)
        gap = self.top.stateless_call(given.weights, (), x)[0][:, 0] + tf.reduce_sum(who * seen, 1) - ratings
        counts, offsets = given.statistics
        gap += tf.gather(offsets, users)
        counts += tf.math.unsorted_segment_sum(tf.ones_like(ratings), users, USERS)
        return PassOutcome(tf.reduce_sum(gap**2), [counts, offsets], [tf.reduce_sum(tf.abs(gap)) / given.count])


class Task(NamedTuple):
    """A trainable's build, by dtype and groups, and its global batches by dtype."""

    build: Callable
    batches: Callable


def images(dtype):
    """All batches of the network: (STEPS, B, 6, 6, 2), (STEPS, B)."""
    random = np.random.default_rng(1)
    classes = random.integers(0, CLASSES, (STEPS, IMAGES)).astype(np.int32)
    values = random.normal(size=(STEPS, IMAGES, SIDE, SIDE, CHANNELS)) + classes[..., None, None, None] / 3
    return values.astype(dtype), classes


def ratings(dtype):
    """All batches of the recommender: (STEPS, B), (STEPS, B, 3), (STEPS, B)."""
    random = np.random.default_rng(2)
    users = random.integers(0, USERS // 50, (STEPS, RATINGS)).astype(np.int32)  # the same ones come again
    items = random.integers(0, ITEMS // 50, (STEPS, RATINGS, SEEN))
    items[:, ::3, 1:] = -1
    return users, items, np.sin(users + items[..., 0]).astype(dtype)


TASKS = {
    "network": Task(Network, images),
    "recommender": Task(lambda dtype, groups: Recommender(dtype), ratings),
    "uncommon": Task(lambda dtype, groups: Uncommon(dtype), uncommon_batches),
}
