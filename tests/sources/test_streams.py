"""Streams: what follows when they are gone through again by count is what followed before."""

import keras
import pytest
import tensorflow as tf

from tfperf.sources.dataset_graph import DatasetGraph
from tfperf.sources.streams import DatasetStream

LAYER = keras.layers.GaussianNoise(0.1, seed=4)
COUNTER, GENERATOR = tf.Variable(0, dtype=tf.int64), tf.random.Generator.from_seed(1)
NUMBER = tf.TensorSpec((), tf.int64)
KINDS = {
    "plain": lambda d: d,
    "shuffled": lambda d: d.shuffle(20),
    "cached": lambda d: d.shuffle(20).cache(),
    "repeated": lambda d: d.shuffle(20).repeat(2),
    "inner": lambda d: d.interleave(lambda x: tf.data.Dataset.range(x).shuffle(5)),
    "sampled": lambda d: tf.data.Dataset.sample_from_datasets([d, d]),
    "zipped": lambda d: tf.data.Dataset.zip(d.shuffle(20), d).map(lambda a, b: a + b),
}


def make(kind):
    keras.utils.set_random_seed(1)
    return KINDS[kind](tf.data.Dataset.range(20)).batch(4).prefetch(2)


def take_all(stream):
    found = []
    while True:
        for batch in stream.iterator:
            found.append(batch.numpy().tolist())
            stream.count(1)
        if not stream.open_next():
            return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_goes_on_where_another_was(kind):
    dataset = make(kind)
    passes = [[batch.numpy().tolist() for batch in dataset] for _ in range(4)]
    whole = DatasetStream(make(kind))
    whole.read_first(3)
    for number in range(4):
        assert take_all(whole) == passes[number]
        assert whole.place == (number, len(passes[number]))
        whole.begin_next()
    for number, done, first in ((3, 2, 1), (0, 2, 3), (0, 4, 3), (1, 0, 2)):
        later = DatasetStream(make(kind))
        later.read_first(first)
        later.move_to(number, done)
        assert take_all(later) == passes[number][done:], (number, done)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d.map(lambda x: x + tf.random.uniform((), 0, 5, NUMBER.dtype)), "a state of its own in Random"),
        (lambda d: d.map(lambda x: augment(tf.cast(x, "float32")[None])), "a state of its own in AssignVariableOp"),
        (lambda d: d.map(lambda x: x + COUNTER.assign_add(1)), "a state of its own in AssignAddVariableOp"),
        (lambda d: d.map(lambda x: x + GENERATOR.uniform((), 0, 9, tf.int64)), "a state of its own in "),
        (lambda d: tf.data.Dataset.from_generator(lambda: range(5), output_signature=NUMBER), "a Python generator"),
        (lambda d: d.map(lambda x: tf.numpy_function(lambda y: y, [x], tf.int64)), "Python code in PyFunc"),
        (lambda d: d.map(lambda x: x, num_parallel_calls=2, deterministic=False), "an order that may change"),
        (lambda d: d.with_options(unordered()), "an order that may change"),
    ],
)  # fmt: skip
def test_what_cannot_be_had_again_is_told(change, said):
    graph = DatasetGraph(change(tf.data.Dataset.range(20)).batch(4))
    assert [line for line in graph.list_unkept() if line.startswith(said)] and graph.has_history


def augment(x):
    return LAYER(x, training=True)


def unordered():
    options = tf.data.Options()
    options.deterministic = False
    return options


def test_a_dataset_without_history_is_not_gone_through_again():
    seen = []
    dataset = tf.data.Dataset.range(20).batch(4)
    assert not DatasetGraph(dataset).has_history
    stream = DatasetStream(dataset)
    stream.start_pass(5, 2, lambda *words: seen.append(words))
    assert not seen
