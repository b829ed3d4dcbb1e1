"""Regression of a table: how far diabetes has progressed after a year, from ten measurements of a patient."""

import keras
import numpy as np
from keras import layers

from tfperf.arrays import AnyArray
from tfperf.zoo.inputs import import_datasets, reorder_samples

FEATURES, ROWS = 10, 442
CENTRE, SPREAD = 150.0, 75.0  # of the targets, roughly; the last layer brings the network's outputs to their scale


def load_samples() -> tuple[AnyArray, AnyArray]:
    """x (442, 10), columns of mean 0 and sum of squares 1; y (442, 1), 25 to 346.

    Raises: UserError without scikit-learn.
    Source: Efron, Hastie, Johnstone & Tibshirani 2004, "Least angle regression", as scikit-learn has them.
    """
    x, y = import_datasets().load_diabetes(return_X_y=True)
    return reorder_samples(x.astype(np.float32), y.astype(np.float32)[:, None])


def build_model(
    units: int = 32, depth: int = 2, dropout: float = 0.2, weight_decay: float = 3.0, learning_rate: float = 1e-3
) -> keras.Model:
    """Hidden layers of `units` each, `depth` of them; (B, 10) to (B, 1), in the units of the targets."""
    inputs = keras.Input((FEATURES,))
    hidden = layers.Rescaling(ROWS**0.5)(inputs)  # to standard deviations of 1
    for _ in range(depth):
        hidden = layers.Dropout(dropout)(layers.Dense(units, "gelu")(hidden))
    model = keras.Model(inputs, layers.Rescaling(SPREAD, CENTRE)(layers.Dense(1)(hidden)))
    optimizer = keras.optimizers.AdamW(learning_rate, weight_decay=weight_decay)
    model.compile(optimizer, "mse", metrics=["mae", keras.metrics.R2Score(name="r2")])
    return model
