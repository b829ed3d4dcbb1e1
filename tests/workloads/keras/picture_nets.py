"""Models of pictures and of a layer of one's own, as a user would have them."""

import keras
import numpy as np
from keras import layers


class Doubled(layers.Layer):
    """A layer of one's own, which no registry knows."""

    def call(self, inputs):
        return 2 * inputs


def build_doubled():
    """With that layer."""
    model = keras.Sequential([keras.Input((6,)), Doubled(), layers.Dense(1)])
    model.compile("sgd", "mse")
    return model


def build_pictures():
    """Two classes of small images."""
    model = keras.Sequential(
        [keras.Input((8, 8, 3)), layers.Rescaling(1 / 255), layers.RandomFlip("horizontal", seed=1), layers.Flatten(),
         layers.Dense(2, "softmax")]
    )  # fmt: skip
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def build_augmented():
    """Images are moved at random inside the model."""
    model = keras.Sequential(
        [keras.Input((8, 8, 1)), layers.RandomTranslation(0.2, 0.2, seed=3), layers.Conv2D(4, 3, activation="relu"),
         layers.Flatten(), layers.Dropout(0.2), layers.Dense(1)]
    )  # fmt: skip
    model.compile("adam", "mse", metrics=["mae"])
    return model


def load_squares(count=70):
    """Small images."""
    images = np.random.default_rng(2).normal(size=(count, 8, 8, 1))
    return images, images[:, 0, 0, :]
