"""A variational autoencoder of curves: a layer draws the code, and adds its divergence to the loss."""

import keras
import numpy as np
from keras import layers, ops

POINTS = 24


@keras.saving.register_keras_serializable("variational_curves")
class GaussianCode(layers.Layer):
    """Draws from N(mean, exp(log_variance)); add_loss takes the divergence from N(0, 1)."""

    def __init__(self, weight=1.0, seed=None, **options):
        super().__init__(**options)
        self.weight, self.seed = weight, seed
        self.seed_generator = keras.random.SeedGenerator(seed)

    def call(self, inputs, training=False):
        mean, log_variance = inputs
        divergence = -0.5 * ops.sum(1 + log_variance - ops.square(mean) - ops.exp(log_variance), axis=-1)
        self.add_loss(self.weight * ops.mean(divergence))
        if not training:
            return mean
        noise = keras.random.normal(ops.shape(mean), seed=self.seed_generator)
        return mean + ops.exp(0.5 * log_variance) * noise

    def get_config(self):
        return super().get_config() | {"weight": self.weight, "seed": self.seed}


@keras.saving.register_keras_serializable("variational_curves")
class CurveAutoencoder(keras.Model):
    def __init__(self, code=2, units=32, weight=0.01, **options):
        super().__init__(**options)
        self.encoder = layers.Dense(units, activation="gelu")
        self.mean, self.log_variance = layers.Dense(code), layers.Dense(code)
        self.draw = GaussianCode(weight, seed=7)
        self.decoder = keras.Sequential([layers.Dense(units, activation="gelu"), layers.Dense(POINTS)])

    def call(self, inputs, training=False):
        found = self.encoder(inputs)
        return self.decoder(self.draw([self.mean(found), self.log_variance(found)], training=training))


def build_model(code=2, weight=0.01):
    model = CurveAutoencoder(code, weight=weight)
    model.compile(optimizer=keras.optimizers.Adam(0.005), loss="mse", metrics=["mae"])
    return model


def load_samples(count=425):
    rng = np.random.default_rng(77)
    phase, height = rng.uniform(0, np.pi, size=(count, 1)), rng.uniform(0.5, 1.5, size=(count, 1))
    curves = height * np.sin(np.linspace(0, 2 * np.pi, POINTS) + phase) + 0.05 * rng.normal(size=(count, POINTS))
    return curves.astype("float32"), curves.astype("float32")
