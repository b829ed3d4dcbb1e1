"""A convolutional autoencoder: small noisy pictures of rectangles go through a narrow middle and come out clean."""

import keras
import numpy as np
from keras import layers

SIDE = 16


def build_model(channels=8, noise=0.1):
    model = keras.Sequential(
        [
            keras.Input((SIDE, SIDE, 1)),
            layers.GaussianNoise(noise, seed=1),
            layers.Conv2D(channels, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(2),
            layers.Conv2D(channels, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(2),
            layers.Conv2D(2, 3, padding="same", name="middle"),
            layers.Conv2DTranspose(channels, 3, strides=2, padding="same", activation="relu"),
            layers.UpSampling2D(2),
            layers.Conv2D(channels, 3, padding="same", activation="relu"),
            layers.Conv2D(1, 3, padding="same", activation="sigmoid"),
        ]
    )
    rate = keras.optimizers.schedules.ExponentialDecay(0.01, decay_steps=20, decay_rate=0.9)
    model.compile(optimizer=keras.optimizers.Nadam(rate), loss="binary_crossentropy")
    return model


def load_samples(count=384):
    rng = np.random.default_rng(66)
    row, column = np.mgrid[:SIDE, :SIDE]
    top, left = rng.integers(0, SIDE - 6, size=(2, count, 1, 1))
    height, width = rng.integers(3, 7, size=(2, count, 1, 1))
    inside = (row >= top) & (row < top + height) & (column >= left) & (column < left + width)
    pictures = inside[..., None].astype("float32")
    return pictures, pictures
