"""A trainable that has what few have: much that nothing asks for, two types of weights, constants of its own.

Its part is (ids (B, 2), no ids (B, 0), unread (B, 700), x (B, 16), y (B)). B is a power of two, so that gradients of
the float32 weight are exact; the loss hardly feels how it is rounded.
"""

import keras
import numpy as np
import tensorflow as tf

from tfperf.place.merge_kinds import MergeKind
from tfperf.place.trainable import Metric, PassInputs, PassOutcome, Statistic, Trainable

STEPS, EXAMPLES, ROWS, WIDTH, LENGTH = 10, 8, 600, 8, 700


def numbers(seed, *shape):
    """Normal ones, of a third."""
    return np.random.default_rng(seed).normal(size=shape) / 3


def variable(value, name, dtype, trainable=True):
    return keras.Variable(value, dtype=dtype, name=name, trainable=trainable)


class Uncommon(Trainable):
    """Tables: looked up, without ids, without gradients; weights: a product's, unused, float32."""

    most_look_ups = 2, 0, 2

    def __init__(self, dtype="float64"):
        names = "asked", "empty", "unasked"
        self.embeddings = [variable(numbers(k, ROWS, WIDTH), name, dtype) for k, name in enumerate(names)]
        self.weights = [
            variable(numbers(3, 16, 64), "kernel", dtype), variable(numbers(4, 30, 40), "idle", dtype),
            variable(numbers(5, 1100), "narrow", "float32"),
        ]  # fmt: skip
        self.statistics = [
            Statistic(variable(numbers(6, 16, 100), "unread", dtype, False), "fixed"),
            Statistic(variable(np.zeros(1600), "overwritten", dtype, False), "mean"),
            Statistic(variable(np.zeros(1600), "same", dtype, False), "first"),
            Statistic(variable(np.zeros(1000), "seen", "int64", False), "sum"),
            Statistic(variable(np.zeros(LENGTH), "total", dtype, False), "sum"),
        ]
        told: dict[str, MergeKind]
        told = {"error": "sum", "mean": "mean", "product": "first", "mean_again": "mean", "loss": "sum"}
        self.metrics = [Metric(name, merge, dtype) for name, merge in told.items()]
        self.made_before = tf.constant(numbers(7, ROWS, 16), dtype)

    def select_ids(self, local_batch):
        """Ids, no ids, and ids again."""
        return local_batch[0], local_batch[1], local_batch[0]

    def compute(self, given: PassInputs) -> PassOutcome:
        """Squared errors, and what is linear in the float32 weight."""
        ids, _, _, x, y = given.local_batch
        kernel, _, narrow = given.weights
        _, overwritten, same, seen, total = given.statistics
        x += tf.gather(tf.constant(numbers(8, ROWS, 16), x.dtype), ids[:, 0]) + tf.gather(self.made_before, ids[:, 1])
        found = tf.reduce_sum(tf.tanh(tf.matmul(x, kernel)), 1) + tf.reduce_sum(given.rows[0], [1, 2])
        gap = found + tf.reduce_sum(given.rows[1], [1, 2]) - y
        linear = tf.cast(ids[:, 0] % 3, x.dtype) * tf.reduce_sum(tf.cast(narrow, x.dtype)) / 2**20
        positions = tf.sin(tf.range(LENGTH, dtype=x.dtype))
        statistics = [
            given.statistics[0], tf.fill(overwritten.shape, tf.reduce_mean(x)), 0.5 * same + tf.reduce_sum(kernel),
            seen + tf.math.unsorted_segment_sum(tf.ones_like(ids, tf.int64), ids, seen.shape[0]),
            total + positions * tf.reduce_sum(y),
        ]  # fmt: skip
        product = tf.reduce_sum(tf.matmul(kernel, kernel, transpose_b=True))
        loss = tf.reduce_sum(gap**2 + linear)
        mean, again = (tf.reduce_mean(gap) for _ in range(2))  # of which TensorFlow makes one
        metrics = [tf.reduce_sum(tf.abs(gap)) / given.count, mean, product, again, loss / given.count]
        return PassOutcome(loss, statistics, metrics)


def uncommon_batches(dtype):
    """All of them, each array with steps and examples first."""
    random = np.random.default_rng(3)
    ids = random.integers(0, 20, (STEPS, EXAMPLES, 2)).astype(np.int32)
    unread, x = (random.normal(size=(STEPS, EXAMPLES, n)).astype(dtype) for n in (LENGTH, 16))
    return ids, ids[..., :0], unread, x, np.sin(ids.sum(axis=2)).astype(dtype)


def train_uncommon(optimizer, groups):
    """Losses, metrics, variables and optimizer of a plain Keras loop, which leaves out gradients that are none."""
    trainable = Uncommon()
    variables = [*trainable.embeddings, *trainable.weights]
    optimizer.build(variables)
    losses, metrics = [], []
    for arrays in zip(*uncommon_batches("float64"), strict=True):
        local_batch, count = [tf.constant(array) for array in arrays], tf.constant(EXAMPLES, tf.float64)
        with tf.GradientTape() as tape:
            pairs = zip(trainable.embeddings, trainable.select_ids(local_batch), strict=True)
            rows = [tf.gather(table.value, ids) for table, ids in pairs]
            weights = [tf.convert_to_tensor(weight) for weight in trainable.weights]
            before = [tf.convert_to_tensor(one.variable) for one in trainable.statistics]
            found = trainable.compute(PassInputs(weights, rows, before, local_batch, None, count))
            loss = found.loss / count
        gradients = tape.gradient(loss, [one.value for one in variables])
        optimizer.apply([one if one is None else tf.convert_to_tensor(one) for one in gradients], variables)
        for one, value in zip(trainable.statistics[1:], found.statistics[1:], strict=True):
            one.variable.assign(value)
        losses.append(float(loss))
        metrics.append([float(value) for value in found.metrics])
    named = {one.path: one.numpy() for one in (*variables, *(some.variable for some in trainable.statistics))}
    columns = zip((one.name for one in trainable.metrics), np.transpose(metrics), strict=True)
    return losses, dict(columns), named, optimizer
