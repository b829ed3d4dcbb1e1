"""Loops with one planted cause each, written by someone who had not read the rules: tables, graphs and rankings."""

from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.diagnosis.loops import repeat
from benchmarks.diagnosis.program import OwnLoop, register_program
from benchmarks.diagnosis.unseen_parts import FLOAT, Adam, Linear, Perceptron
from tfperf.arrays import Float32Array


@register_program("short_operations")
def make_separate_features(planted: bool) -> OwnLoop:
    """400 categorical features, each of which has its table and its norm; the twin has one table for all."""
    features, words, width, batch = 400, 50, 4, 16
    random = np.random.default_rng(0)
    values = random.normal(size=(features * words, width)).astype(np.float32)
    tables = [tf.Variable(part) for part in (np.split(values, features) if planted else [values])]
    head = Linear(features * width, 1)
    ids = random.integers(0, words, (64, batch, features)).astype(np.int32)
    labels = random.integers(0, 2, (64, batch, 1)).astype(np.float32)
    counter = iter(range(10**9))

    def embed(table: Any, which: Any) -> Any:
        value = tf.gather(table, which)
        value -= tf.reduce_mean(value, -1, keepdims=True)
        return tf.tanh(value * tf.math.rsqrt(tf.reduce_mean(tf.square(value), -1, keepdims=True) + 1e-3))

    @tf.function
    def step(ids: Any, label: Any) -> Any:
        with tf.GradientTape() as tape:
            if planted:
                inputs = tf.concat([embed(table, ids[:, place]) for place, table in enumerate(tables)], 1)
            else:
                inputs = tf.reshape(embed(tables[0], ids + words * tf.range(features)), (batch, features * width))
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=label, logits=head(inputs)))
        weights = [head.w, head.b, *tables]
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            if isinstance(gradient, tf.IndexedSlices):
                weight.scatter_sub(tf.IndexedSlices(0.01 * gradient.values, gradient.indices))
            else:
                weight.assign_sub(0.01 * gradient)
        return loss

    def take() -> Any:
        place = next(counter) % len(ids)
        return step(ids[place], labels[place])

    return repeat(take)


@register_program("constants")
def make_graph_propagation(planted: bool) -> OwnLoop:
    """Simple graph convolution: two hops over edges that stay as they are, before a classifier that is trained."""
    nodes, edges, width, classes = 15_000, 150_000, 32, 8
    random = np.random.default_rng(0)
    features = tf.constant(random.normal(size=(nodes, width)), FLOAT)
    receivers = tf.constant(np.sort(np.concatenate([np.arange(nodes), random.integers(0, nodes, edges - nodes)])))
    senders = tf.constant(random.integers(0, nodes, edges))
    labels = tf.constant(random.integers(0, classes, nodes))
    classifier = Perceptron(width, 48, classes)
    adam = Adam(classifier.trainable_variables)

    def propagate(values: Any) -> Any:
        degree = tf.math.segment_sum(tf.ones((edges, 1)), receivers)
        for _ in range(2):
            values = tf.math.segment_sum(tf.gather(values, senders), receivers) / degree
        return values

    ready = propagate(features)

    @tf.function
    def step() -> Any:
        hidden = propagate(features) if planted else ready
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=classifier(hidden))
            )
        adam.apply(tape.gradient(loss, adam.weights))
        return loss

    return repeat(step)


@register_program("table_update")
def make_normalised_entities(planted: bool) -> OwnLoop:
    """TransE with a margin: all 150000 entities are brought to length one, of which 1536 have changed."""
    entities = tf.Variable(tf.math.l2_normalize(tf.random.normal((150_000, 48), seed=1), 1))
    relations = tf.Variable(tf.random.normal((40, 48), stddev=0.1, seed=2))
    random = np.random.default_rng(0)

    @tf.function
    def step(heads: Any, kinds: Any, tails: Any, wrong: Any) -> Any:
        with tf.GradientTape() as tape:
            moved = tf.gather(entities, heads) + tf.gather(relations, kinds)
            near, far = (tf.norm(moved - tf.gather(entities, one), axis=1) for one in (tails, wrong))
            loss = tf.reduce_mean(tf.nn.relu(1.0 + near - far))
        for table, gradient in zip((entities, relations), tape.gradient(loss, (entities, relations)), strict=True):
            table.scatter_sub(tf.IndexedSlices(0.01 * gradient.values, gradient.indices))
        if planted:
            entities.assign(tf.math.l2_normalize(entities, 1))
        else:
            touched = tf.concat([heads, tails, wrong], 0)
            entities.scatter_update(tf.IndexedSlices(tf.math.l2_normalize(tf.gather(entities, touched), 1), touched))
        return loss

    def take() -> Any:
        heads, tails, wrong = random.integers(0, 150_000, (3, 512)).astype(np.int32)
        return step(heads, random.integers(0, 40, 512).astype(np.int32), tails, wrong)

    return repeat(take)


def weigh_pairs(scores: Float32Array, gains: Float32Array) -> Float32Array:
    """By how much each swap would change the gain, query by query."""
    weights = np.zeros((*scores.shape, scores.shape[1]), np.float32)
    for query, (score, gain) in enumerate(zip(scores, gains, strict=True)):
        rank = np.empty(len(score))
        rank[np.argsort(-score)] = np.arange(len(score))
        discount = 1.0 / np.log2(rank + 2.0)
        best = np.sum(np.sort(gain)[::-1] / np.log2(np.arange(len(gain)) + 2.0))
        weights[query] = np.abs(np.subtract.outer(gain, gain) * np.subtract.outer(discount, discount)) / best
    return weights


@register_program("py_function")
def make_lambda_rank(planted: bool) -> OwnLoop:
    """LambdaRank whose weights come from tf.numpy_function; the twin has them of TensorFlow's operations."""
    queries, documents, width = 256, 40, 24
    net = Perceptron(width, 32, 1)
    adam = Adam(net.trainable_variables)
    random = np.random.default_rng(0)
    features = tf.constant(random.normal(size=(queries, documents, width)), FLOAT)
    gains = tf.constant(2.0 ** random.integers(0, 4, (queries, documents)) - 1.0, FLOAT)

    def weigh(scores: Any, gains: Any) -> Any:
        rank = tf.cast(tf.argsort(tf.argsort(scores, direction="DESCENDING")), FLOAT)
        discount = np.float32(np.log(2.0)) / tf.math.log(rank + 2.0)
        place = tf.range(documents, dtype=FLOAT)
        best = tf.reduce_sum(
            tf.sort(gains, direction="DESCENDING") * np.float32(np.log(2.0)) / tf.math.log(place + 2), 1
        )
        swapped = (gains[:, :, None] - gains[:, None]) * (discount[:, :, None] - discount[:, None])
        return tf.abs(swapped) / best[:, None, None]

    @tf.function
    def step(features: Any, gains: Any) -> Any:
        with tf.GradientTape() as tape:
            scores = tf.reshape(net(tf.reshape(features, (-1, width))), (queries, documents))
            if planted:
                weights = tf.numpy_function(weigh_pairs, [scores, gains], FLOAT, stateful=False)
                weights = tf.ensure_shape(weights, (queries, documents, documents))
            else:
                weights = weigh(scores, gains)
            better = tf.cast(gains[:, :, None] > gains[:, None], FLOAT)
            pairs = tf.nn.softplus(scores[:, None] - scores[:, :, None])
            loss = tf.reduce_mean(better * tf.stop_gradient(weights) * pairs)
        adam.apply(tape.gradient(loss, adam.weights))
        return loss

    def take() -> Any:
        return step(features, gains)

    return repeat(take)


def normalize_rows(values: Any, kinds: Any, clicked: Any) -> tuple[Any, Any, Any]:
    """Columns of rows, or of one row."""
    values = tf.math.log1p(tf.nn.relu(values))
    return (values - 0.5) / 0.7, tf.math.floormod(kinds * 7919 + 13, 500), tf.cast(clicked, FLOAT)


@register_program("input", "Map")
def make_row_pipeline(planted: bool) -> OwnLoop:
    """Clicks by tf.data: rows are mapped one by one and then put in batches; the twin maps the batches."""
    rows, batch = 16_384, 768
    random = np.random.default_rng(0)
    data = tf.data.Dataset.from_tensor_slices(
        (random.normal(size=(rows, 13)).astype(np.float32), random.integers(0, 10**6, (rows, 8)),
         random.integers(0, 2, rows))
    ).repeat()  # fmt: skip
    if planted:
        data = data.map(normalize_rows).batch(batch, drop_remainder=True)
    else:
        data = data.batch(batch, drop_remainder=True).map(normalize_rows)
    batches = iter(data.prefetch(2))
    table, net = tf.Variable(tf.random.normal((500, 8), seed=1)), Perceptron(13 + 64, 64, 1)
    adam = Adam([table, *net.trainable_variables])

    @tf.function
    def step(values: Any, kinds: Any, clicked: Any) -> Any:
        with tf.GradientTape() as tape:
            inputs = tf.concat([values, tf.reshape(tf.gather(table, kinds), (batch, 64))], 1)
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=clicked, logits=net(inputs)[:, 0]))
        adam.apply([tf.convert_to_tensor(one) for one in tape.gradient(loss, adam.weights)])
        return loss

    def take() -> Any:
        return step(*next(batches))

    return repeat(take)
