"""A layer and a metric of the user's own, registered, so that a file of the model can be read back."""

import keras
import numpy as np
from keras import layers, ops


@keras.saving.register_keras_serializable("radial_layer")
class RadialBasis(layers.Layer):
    """exp(-(distance to a centre / width)^2), for learnt centres and widths: (B, I) to (B, units)."""

    def __init__(self, units, spread=1.0, **options):
        super().__init__(**options)
        self.units, self.spread = units, spread

    def build(self, shape):
        start = keras.initializers.RandomUniform(-self.spread, self.spread, seed=3)
        self.centres = self.add_weight(shape=(self.units, shape[-1]), initializer=start, name="centres")
        self.log_width = self.add_weight(shape=(self.units,), initializer="zeros", name="log_width")
        self.seen = self.add_weight(shape=(), initializer="zeros", trainable=False, name="seen")

    def call(self, inputs, training=False):
        if training:
            self.seen.assign_add(ops.cast(ops.shape(inputs)[0], "float32"))
        squares = ops.sum(ops.square(inputs[:, None, :] - self.centres), axis=-1)
        return ops.exp(-squares * ops.exp(-2 * self.log_width))

    def get_config(self):
        return super().get_config() | {"units": self.units, "spread": self.spread}


@keras.saving.register_keras_serializable("radial_layer")
class BalancedRate(keras.metrics.Metric):
    """The mean over both classes of the share that is found."""

    def __init__(self, threshold=0.5, name="balanced_rate", **options):
        super().__init__(name=name, **options)
        self.threshold = threshold
        self.right = self.add_weight(shape=(2,), initializer="zeros", name="right")
        self.every = self.add_weight(shape=(2,), initializer="zeros", name="every")

    def update_state(self, y_true, y_pred, sample_weight=None):
        y_true, y_pred = ops.reshape(y_true, (-1,)), ops.reshape(y_pred, (-1,))
        kinds = ops.one_hot(ops.cast(y_true, "int32"), 2)
        hits = ops.cast(ops.equal(y_pred > self.threshold, y_true > 0.5), "float32")
        self.right.assign_add(ops.sum(kinds * hits[:, None], axis=0))
        self.every.assign_add(ops.sum(kinds, axis=0))

    def result(self):
        return ops.mean(self.right / ops.maximum(self.every, 1.0))

    def get_config(self):
        return super().get_config() | {"threshold": self.threshold}


def build_model(units=20):
    model = keras.Sequential([keras.Input((2,)), RadialBasis(units, 1.5), layers.Dense(1, activation="sigmoid")])
    model.compile(optimizer=keras.optimizers.Adam(0.02), loss="binary_crossentropy", metrics=[BalancedRate()])
    return model


def load_samples(count=440):
    rng = np.random.default_rng(101)
    points = rng.uniform(-1.5, 1.5, size=(count, 2)).astype("float32")
    return points, (np.hypot(*points.T) < 0.9).astype("float32")[:, None]
