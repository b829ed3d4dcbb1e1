"""Models and data for the comparison with Keras' `fit`: small enough that what lies beside the kernels shows."""

import keras
import numpy as np
from keras import layers

from tfperf.arrays import AnyArray

SAMPLES = 4096
Arrays = tuple[AnyArray, AnyArray]


def build_mlp() -> keras.Model:
    """A regression of a table."""
    model = keras.Sequential([keras.Input((10,)), layers.Dense(64, "relu"), layers.Dense(64, "relu"), layers.Dense(1)])
    model.compile("adam", "mse", metrics=["mae"])
    return model


def build_resnet() -> keras.Model:
    """Two blocks with a way around them."""
    inputs = keras.Input((16, 16, 1))
    x = layers.Conv2D(16, 3, padding="same")(inputs)
    for width, strides in ((16, 1), (32, 2)):
        inner = layers.Conv2D(width, 3, strides=strides, padding="same", use_bias=False)(x)
        inner = layers.ReLU()(layers.BatchNormalization()(inner))
        inner = layers.BatchNormalization()(layers.Conv2D(width, 3, padding="same", use_bias=False)(inner))
        around = x if strides == 1 else layers.Conv2D(width, 1, strides=strides)(x)
        x = layers.ReLU()(layers.Add()([around, inner]))
    model = keras.Model(inputs, layers.Dense(10, "softmax")(layers.GlobalAveragePooling2D()(x)))
    model.compile(keras.optimizers.SGD(0.05, momentum=0.9), "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def load_table() -> Arrays:
    """Numbers."""
    x = np.random.default_rng(0).normal(size=(SAMPLES, 10)).astype("float32")
    return x, np.sin(x[:, :3].sum(axis=1, keepdims=True))


def load_images() -> Arrays:
    """Noise and labels: the time of a step is that of images."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(SAMPLES, 16, 16, 1)).astype("float32"), rng.integers(0, 10, SAMPLES)
