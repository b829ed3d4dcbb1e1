"""Do two pictures show the same glyph? One tower for both, and a contrastive loss of its own."""

import keras
import numpy as np
from keras import layers, ops

SIDE, GLYPHS = 12, 6


def make_contrastive_loss(margin=1.0):
    """Like pairs (1) are pulled together, others (0) pushed apart up to the margin."""

    def contrastive_loss(y_true, y_pred):
        y_true = ops.cast(y_true, y_pred.dtype)
        pull = y_true * ops.square(y_pred)
        push = (1 - y_true) * ops.square(ops.maximum(margin - y_pred, 0.0))
        return ops.mean(pull + push, axis=-1)

    return contrastive_loss


def near(y_true, y_pred):
    """Share of pairs on the right side of half the margin."""
    return ops.mean(ops.cast(ops.equal(y_pred < 0.5, y_true > 0.5), "float32"), axis=-1)


@keras.saving.register_keras_serializable("siamese_glyphs")
class Distance(layers.Layer):
    """Euclidean, of two batches of vectors."""

    def call(self, one, other):
        squares = ops.sum(ops.square(one - other), axis=-1, keepdims=True)
        return ops.sqrt(ops.maximum(squares, 1e-7))


def build_model(features=8, margin=1.0):
    picture = keras.Input((SIDE, SIDE, 1))
    x = layers.Conv2D(6, 3, activation="tanh")(picture)
    x = layers.AveragePooling2D(2)(x)
    x = layers.Conv2D(12, 3, activation="tanh")(x)
    x = layers.BatchNormalization()(layers.Flatten()(x))
    tower = keras.Model(picture, layers.Dense(features)(x), name="tower")

    left, right = keras.Input((SIDE, SIDE, 1), name="left"), keras.Input((SIDE, SIDE, 1), name="right")
    model = keras.Model([left, right], Distance()(tower(left), tower(right)))
    model.compile(optimizer=keras.optimizers.Adam(0.01), loss=make_contrastive_loss(margin), metrics=[near])
    return model


def load_samples(count=400):
    rng = np.random.default_rng(44)
    glyphs = (rng.uniform(size=(GLYPHS, SIDE, SIDE, 1)) < 0.3).astype("float32")
    left, other = rng.integers(0, GLYPHS, size=(2, count))
    alike = rng.integers(0, 2, size=count).astype(bool)
    right = np.where(alike, left, other)
    pictures = glyphs[[left, right]] + rng.normal(0, 0.2, size=(2, count, SIDE, SIDE, 1)).astype("float32")
    return [pictures[0], pictures[1]], (left == right).astype("float32")[:, None]
