"""Batches of a PyDataset, drawn by two workers when they are asked for: how many dots has a picture?"""

import keras
import numpy as np
from keras import layers

SIDE, MOST = 12, 5


class DotPictures(keras.utils.PyDataset):
    """Pictures with 0 to 4 dots. A batch follows from its number alone, whoever draws it and when."""

    def __init__(self, count, batch, **options):
        super().__init__(**options)
        self.count, self.batch = count, batch

    def __len__(self):
        return -(-self.count // self.batch)

    def __getitem__(self, index):
        rng = np.random.default_rng([121, index])
        size = min(self.batch, self.count - index * self.batch)
        dots = rng.integers(0, MOST, size=size)
        pictures = rng.normal(0, 0.1, size=(size, SIDE, SIDE, 1))
        for picture, number in zip(pictures, dots, strict=True):
            picture.reshape(-1)[rng.choice(SIDE * SIDE, number, replace=False)] += 1
        return pictures.astype("float32"), dots.astype("int32")


def build_model(channels=8):
    inputs = keras.Input((SIDE, SIDE, 1))
    x = layers.Conv2D(channels, 1, activation="relu")(inputs)
    x = layers.Conv2D(channels, 3, activation="relu")(x)
    x = layers.GlobalAveragePooling2D()(x)
    x = layers.Rescaling(20.0)(x)
    model = keras.Model(inputs, layers.Dense(MOST)(x))
    model.compile(
        optimizer=keras.optimizers.Adam(0.01),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


def load_samples(count=400, batch=32):
    return DotPictures(count, batch, workers=2, use_multiprocessing=False, max_queue_size=4)
