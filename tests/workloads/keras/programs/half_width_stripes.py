"""Mixed precision: products in bfloat16, weights and the last layer in float32, given layer by layer."""

import keras
import numpy as np
from keras import layers

SIDE, DIRECTIONS = 14, 4


def build_model(channels=8, policy="mixed_bfloat16"):
    mixed = keras.mixed_precision.DTypePolicy(policy)
    inputs = keras.Input((SIDE, SIDE, 3))
    x = layers.Conv2D(channels, 3, padding="same", use_bias=False, dtype=mixed)(inputs)
    x = layers.Activation("relu", dtype=mixed)(layers.BatchNormalization(dtype=mixed)(x))
    branch = layers.SeparableConv2D(channels, 3, padding="same", activation="relu", dtype=mixed)(x)
    x = layers.Add(dtype=mixed)([x, layers.SpatialDropout2D(0.1, dtype=mixed)(branch)])
    x = layers.GlobalMaxPooling2D(dtype=mixed)(x)
    x = layers.Dense(16, activation="silu", kernel_regularizer=keras.regularizers.L2(1e-4), dtype=mixed)(x)
    outputs = layers.Dense(DIRECTIONS, activation="softmax", dtype="float32")(x)
    model = keras.Model(inputs, outputs)
    model.compile(
        optimizer=keras.optimizers.AdamW(0.005, weight_decay=0.01),
        loss=keras.losses.CategoricalCrossentropy(label_smoothing=0.05),
        metrics=["accuracy"],
    )
    return model


def load_samples(count=400):
    """Coloured stripes in four directions."""
    rng = np.random.default_rng(88)
    kind = rng.integers(0, DIRECTIONS, size=count)
    angle = (kind * np.pi / DIRECTIONS)[:, None, None]
    row, column = np.mgrid[:SIDE, :SIDE]
    wave = np.sin(1.6 * (np.cos(angle) * row + np.sin(angle) * column) + rng.uniform(0, 6, size=(count, 1, 1)))
    colour = rng.uniform(0.2, 1, size=(count, 1, 1, 3))
    pictures = wave[..., None] * colour + 0.2 * rng.normal(size=(count, SIDE, SIDE, 3))
    return pictures.astype("float32"), keras.utils.to_categorical(kind, DIRECTIONS)
