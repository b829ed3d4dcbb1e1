"""Pipelines whose elements are stored after their stage "prepare", and what goes through them."""

import numpy as np
import tensorflow as tf

import tfperf

COUNT = 50


def read_bytes(dataset, passes=1):
    """All elements of some passes, flat, as bytes."""
    return [
        [np.asarray(part.numpy()).tobytes() for part in tf.nest.flatten(one)] for _ in range(passes) for one in dataset
    ]


def prepare(number):
    noise = tf.random.stateless_uniform((4, 3), (7, tf.cast(number, tf.int32)))
    return tf.cast(noise * 256, tf.uint8), {"a": tf.cast(number, tf.float32) / 3, "b": number % 2 == 0}


def add_random(dataset):
    """What comes after: random stages of both kinds, a shuffle, batches."""
    seeds = tf.data.Dataset.random(5, rerandomize_each_iteration=True).batch(2)
    dataset = tf.data.Dataset.zip((dataset, seeds)).map(
        lambda one, seed: (tf.cast(one[0], tf.float32) * tf.random.stateless_uniform((), seed), one[1])
    )
    dataset = dataset.shuffle(8, seed=2).map(lambda x, y: (x + tf.random.uniform((), seed=1), y))
    return dataset.batch(4).prefetch(1)


BEFORE = {
    "in order": lambda d: d,
    "shuffled": lambda d: d.shuffle(20, seed=4),
    "the same order": lambda d: d.shuffle(20, seed=4, reshuffle_each_iteration=False),
    "shuffled, cached": lambda d: d.shuffle(20, seed=4).cache(),
    "shuffled, taken": lambda d: d.shuffle(50, seed=4).take(31),
    "repeated": lambda d: d.shuffle(20, seed=4).repeat(2),
    "parts": lambda d: d.shuffle(20, seed=4).shard(2, 1),
    "files side by side": lambda d: d.batch(10).interleave(tf.data.Dataset.from_tensor_slices, cycle_length=3),
    "filtered, then shuffled": lambda d: d.filter(lambda i: i % 3 > 0).prefetch(2).shuffle(9, seed=1),
}


def make(kind, after=add_random, **options):
    tf.random.set_seed(3)
    dataset = BEFORE[kind](tf.data.Dataset.range(COUNT)).map(prepare, name="prepare", **options)
    return after(dataset)


def store(folder, dataset, after="prepare"):
    return tfperf.store(dataset, folder, after=after)
