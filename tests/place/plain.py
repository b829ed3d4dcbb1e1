"""The trainables of tests/place/trainables.py trained the plain way: eager Keras in float64, on the whole batch.

Dropout draws example by example, with TensorFlow's Philox at the example's own place of the stream.
"""

import numpy as np
import tensorflow as tf

from tests.place.trainables import IMAGES, ITEMS, SEED, USERS, Network, Recommender, images, ratings
from tests.place.uncommon import train_uncommon


def draws_of(example, step, shape, stream):
    """Draws of one example: as many counts of four as hold them."""
    size = -(-int(np.prod(shape)) // 4) * 4
    counter = tf.constant([example * size // 4, step * 64 + stream], tf.uint64)
    found = tf.raw_ops.StatelessRandomUniformV2(
        shape=[size], key=tf.constant([SEED], tf.uint64), counter=counter, alg=1, dtype=tf.float32
    )
    return found.numpy()[: np.prod(shape)].reshape(shape)


def left(model):
    """Names of everything trained, without the optimizer's."""
    return {v.path: v.numpy() for v in (*model.embeddings, *model.weights, *(one.variable for one in model.statistics))}


def train_network(optimizer, groups):
    """Variables, slots and metrics of each step; the batch in so many groups."""
    trainable = Network("float64")
    model, weights = trainable.model, trainable.weights
    optimizer.build(weights)
    averages = [v for v in model.non_trainable_variables if v.dtype == "float64"]
    losses, metrics = [], {"accuracy": [], "spread": [], "bias": []}
    for step, (x, y) in enumerate(zip(*images("float64"), strict=True)):
        before, after, logits, loss = [v.numpy() for v in averages], [], [], 0.0
        metrics["bias"].append(weights[-1].numpy().sum())
        with tf.GradientTape() as tape:
            for rows in np.split(np.arange(IMAGES), groups):
                for stream, layer in enumerate(trainable.dropouts):
                    shape = layer.output.shape[1:]
                    layer.draws = tf.constant(np.stack([draws_of(row, step, shape, stream) for row in rows]))
                for v, value in zip(averages, before, strict=True):
                    v.assign(value)
                found = model(x[rows], training=True)
                after.append([v.numpy() for v in averages])
                loss += tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(y[rows], found)) / IMAGES
                logits.append(found)
        optimizer.apply(tape.gradient(loss, [v.value for v in weights]), weights)
        for v, values in zip(averages, zip(*after, strict=True), strict=True):
            v.assign(np.mean(values, axis=0))
        logits = tf.concat(logits, 0).numpy()
        losses.append(float(loss))
        metrics["accuracy"].append(np.mean(logits.argmax(1) == y))
        metrics["spread"].append(np.mean(logits**2))
    return losses, metrics, left(trainable), optimizer


def train_recommender(optimizer, groups):
    """The same of the recommender, whose look-ups are rows of a table like any other product."""
    trainable = Recommender("float64")
    variables = [*trainable.embeddings, *trainable.weights]
    optimizer.build(variables)
    losses, errors, counts = [], [], np.zeros(USERS)
    for users, items, wanted in zip(*ratings("float64"), strict=True):
        chosen = np.eye(USERS)[users]
        shown = np.array([np.eye(ITEMS)[[i for i in row if i >= 0]].mean(axis=0) for row in items])
        with tf.GradientTape() as tape:
            who, what = (
                tf.matmul(one, table.value) for one, table in zip((chosen, shown), trainable.embeddings, strict=True)
            )
            x = tf.concat([who, what, who * what], 1)
            gap = trainable.top(x)[:, 0] + tf.reduce_sum(who * what, 1) - wanted + np.sin(users) / 4
            loss = tf.reduce_mean(gap**2)
        gradients = tape.gradient(loss, [v.value for v in variables])
        optimizer.apply(gradients, variables)
        losses.append(float(loss))
        errors.append(np.abs(gap).mean())
        counts += chosen.sum(axis=0)
    trainable.statistics[0].variable.assign(counts)
    return losses, {"error": errors}, left(trainable), optimizer


PLAIN = {"network": train_network, "recommender": train_recommender, "uncommon": train_uncommon}
