"""A tenth of the pieces are faulty: class weights keep the network from calling all of them good."""

import keras
import numpy as np
from keras import layers

SENSORS, TIMES = 3, 20


def build_model(filters=8):
    model = keras.Sequential(
        [
            keras.Input((TIMES, SENSORS)),
            layers.Conv1D(filters, 5, activation="relu"),
            layers.MaxPooling1D(2),
            layers.Conv1D(filters, 3, activation="relu"),
            layers.GlobalAveragePooling1D(),
            layers.Dropout(0.1),
            layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile(
        optimizer=keras.optimizers.Adam(0.01),
        loss="binary_crossentropy",
        metrics=[keras.metrics.Recall(name="recall")],
        weighted_metrics=["accuracy"],
    )
    return model


def load_samples(count=480, faulty=0.1):
    """Traces of three sensors; those of faulty pieces have a short jump."""
    rng = np.random.default_rng(111)
    traces = rng.normal(0, 0.3, size=(count, TIMES, SENSORS))
    kind = rng.uniform(size=count) < faulty
    begin, sensor = rng.integers(0, TIMES - 5, size=count), rng.integers(0, SENSORS, size=count)
    for row in np.flatnonzero(kind):
        traces[row, begin[row] : begin[row] + 5, sensor[row]] += 2.0
    return traces.astype("float32"), kind.astype("int32")
