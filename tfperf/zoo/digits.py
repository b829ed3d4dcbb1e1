"""Which digit a small picture shows, by a convolutional network that sees each picture a little moved and turned."""

import keras
import numpy as np
from keras import layers

from tfperf.arrays import AnyArray
from tfperf.zoo.inputs import import_datasets, reorder_samples

SIZE, CLASSES = 8, 10


def load_samples() -> tuple[AnyArray, AnyArray]:
    """x (1797, 8, 8, 1), 0 to 1; y (1797), 0 to 9. Raises: UserError without scikit-learn.

    Source: Alpaydin & Kaynak 1998, "Optical recognition of handwritten digits", UCI; scikit-learn has its test set.
    """
    x, y = import_datasets().load_digits(return_X_y=True)
    return reorder_samples((x / 16).astype(np.float32).reshape(-1, SIZE, SIZE, 1), y.astype(np.int32))


def build_model(
    filters: int = 32, units: int = 64, dropout: float = 0.3, shift: float = 0.1, turn: float = 0.03,
    learning_rate: float = 5e-4,
) -> keras.Model:  # fmt: skip
    """(B, 8, 8, 1) to probabilities (B, 10). shift: of the picture's size at most; turn: of a whole turn at most."""
    inputs = keras.Input((SIZE, SIZE, 1))
    seen = layers.RandomTranslation(shift, shift, fill_mode="constant")(inputs)
    seen = layers.RandomRotation(turn, fill_mode="constant")(seen)
    for width in (filters, 2 * filters):
        for _ in range(2):
            seen = layers.Conv2D(width, 3, padding="same", use_bias=False)(seen)
            seen = layers.ReLU()(layers.BatchNormalization(momentum=0.9)(seen))
        seen = layers.MaxPooling2D()(seen)
    hidden = layers.Dropout(dropout)(layers.Dense(units, "relu")(layers.Flatten()(seen)))
    model = keras.Model(inputs, layers.Dense(CLASSES, "softmax")(hidden))
    model.compile(keras.optimizers.Adam(learning_rate), "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model
