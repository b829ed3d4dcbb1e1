"""A subclassed network with a train_step of its own: a penalty on its slopes keeps the fitted curve smooth."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers


@keras.saving.register_keras_serializable("smooth_regression")
class SmoothNetwork(keras.Model):
    """The loss is a squared error plus the mean square of the output's derivatives by the inputs."""

    def __init__(self, units=24, depth=2, penalty=0.01, **options):
        super().__init__(**options)
        self.penalty = penalty
        self.hidden = [layers.Dense(units, activation="softplus") for _ in range(depth)]
        self.head = layers.Dense(1)
        self.error_tracker = keras.metrics.Mean(name="loss")
        self.slope_tracker = keras.metrics.Mean(name="slope")

    def call(self, inputs):
        for layer in self.hidden:
            inputs = layer(inputs)
        return self.head(inputs)

    @property
    def metrics(self):
        return [self.error_tracker, self.slope_tracker]

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            with tf.GradientTape() as inner:
                inner.watch(x)
                found = self(x, training=True)
            slope = tf.reduce_mean(tf.reduce_sum(inner.gradient(found, x) ** 2, axis=1))
            loss = tf.reduce_mean((found - y) ** 2) + self.penalty * slope
        gradients = tape.gradient(loss, self.trainable_weights)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_weights, strict=True))
        self.error_tracker.update_state(loss)
        self.slope_tracker.update_state(slope)
        return {m.name: m.result() for m in self.metrics}

    def test_step(self, data):
        x, y = data
        self.error_tracker.update_state(tf.reduce_mean((self(x, training=False) - y) ** 2))
        return {"loss": self.error_tracker.result()}


def build_model(units=24, penalty=0.01):
    model = SmoothNetwork(units, penalty=penalty)
    model.compile(optimizer=keras.optimizers.Adam(learning_rate=0.01))
    return model


def load_samples(count=410):
    rng = np.random.default_rng(11)
    x = rng.uniform(-2, 2, size=(count, 3)).astype("float32")
    y = np.sin(x[:, 0]) * x[:, 1] + 0.3 * x[:, 2] + 0.1 * rng.normal(size=count)
    return x, y[:, None].astype("float32")
