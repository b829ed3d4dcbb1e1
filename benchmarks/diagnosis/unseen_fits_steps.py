"""Keras trainings with one planted cause each, written by someone who had not read the rules: models with own steps."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from benchmarks.diagnosis.program import Fit, register_program
from benchmarks.diagnosis.unseen_parts import draw_pictures, make_batches


class Sampled(layers.Layer):
    """Draws the code of a variational encoder."""

    def __init__(self) -> None:
        super().__init__()
        self.seeds = keras.random.SeedGenerator(3)

    def call(self, mean: Any, log_variance: Any) -> Any:
        """Mean and log variance (B, code)."""
        return mean + keras.ops.exp(0.5 * log_variance) * keras.random.normal(keras.ops.shape(mean), seed=self.seeds)


class BetaVae(keras.Model):
    """A variational autoencoder, the weight of whose divergence is annealed."""

    def __init__(self, beta: Any) -> None:
        super().__init__()
        self.beta = beta
        self.encoder = keras.Sequential([
            layers.Conv2D(16, 3, 2, "same", activation="relu"), layers.Conv2D(32, 3, 2, "same", activation="relu"),
            layers.Flatten(), layers.Dense(64, "relu"),
        ])  # fmt: skip
        self.mean, self.log_variance, self.sampled = layers.Dense(16), layers.Dense(16), Sampled()
        self.decoder = keras.Sequential([
            layers.Dense(7 * 7 * 32, "relu"), layers.Reshape((7, 7, 32)),
            layers.Conv2DTranspose(16, 3, 2, "same", activation="relu"), layers.Conv2DTranspose(3, 3, 2, "same"),
        ])  # fmt: skip

    def call(self, x: Any) -> Any:
        """Pictures (B, 28, 28, 3)."""
        h = self.encoder(x)
        mean, log_variance = self.mean(h), self.log_variance(h)
        divergence = -0.5 * keras.ops.mean(1 + log_variance - mean**2 - keras.ops.exp(log_variance))
        self.add_loss(self.beta * divergence)
        return self.decoder(self.sampled(mean, log_variance))


class Anneal(keras.callbacks.Callback):
    """Sets the weight of the divergence for each epoch."""

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """A Python number is part of the traced function, which therefore has to be made again."""
        beta = 0.02 * (1 + epoch)
        if isinstance(self.model.beta, float):
            self.model.beta = beta
            self.model.make_train_function(force=True)
        else:
            self.model.beta.assign(beta)


@register_program("retracing")
def make_annealed_python_number(planted: bool) -> Fit:
    """A loss weight is a Python number, so a callback has the train function made again each epoch."""
    model = BetaVae(0.0 if planted else keras.Variable(0.0, trainable=False, name="beta"))
    model.compile("adam", "mse", jit_compile=False)
    x, _ = draw_pictures(12 * 32, 28)
    return Fit(model, make_batches(x, x, batch=32), 12, lambda: [Anneal()])


class Gan(keras.Model):
    """A generator and a critic with their own train_step and train function."""

    train_function: Any  # set by Keras

    def __init__(self, plain: bool) -> None:
        super().__init__()
        self.plain = plain
        self.generator = keras.Sequential([
            keras.Input((24,)),
            layers.Dense(512), layers.BatchNormalization(), layers.LeakyReLU(), layers.Dense(14 * 14, "tanh"),
        ])  # fmt: skip
        self.critic = keras.Sequential([
            keras.Input((14 * 14,)), layers.Dense(512), layers.LeakyReLU(), layers.Dropout(0.2),
            layers.Dense(64), layers.LeakyReLU(), layers.Dense(1),
        ])  # fmt: skip
        self.generator_loss, self.critic_loss = keras.metrics.Mean(name="g"), keras.metrics.Mean(name="c")
        self.generator_optimizer, self.critic_optimizer = keras.optimizers.Adam(2e-4), keras.optimizers.Adam(2e-4)
        self.generator_optimizer.build(self.generator.trainable_variables)
        self.critic_optimizer.build(self.critic.trainable_variables)
        self.built = True

    def call(self, z: Any) -> Any:
        """Noise (B, 24)."""
        return self.generator(z)

    def train_step(self, real: Any) -> Any:
        """Both networks, one after the other."""
        entropy = keras.losses.BinaryCrossentropy(from_logits=True)
        noise = tf.random.normal((tf.shape(real)[0], 24))
        with tf.GradientTape() as tape:
            fake, true = self.critic(self.generator(noise), training=True), self.critic(real, training=True)
            loss = entropy(tf.ones_like(true), true) + entropy(tf.zeros_like(fake), fake)
        weights = self.critic.trainable_variables
        self.critic_optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        with tf.GradientTape() as tape:
            fake = self.critic(self.generator(noise, training=True))
            wanted = entropy(tf.ones_like(fake), fake)
        weights = self.generator.trainable_variables
        self.generator_optimizer.apply_gradients(zip(tape.gradient(wanted, weights), weights, strict=True))
        self.generator_loss.update_state(wanted)
        self.critic_loss.update_state(loss)
        return {"g": self.generator_loss.result(), "c": self.critic_loss.result()}

    def make_train_function(self, force: bool = False) -> Any:
        """As a Python function, once for debugging and forgotten there, or compiled."""
        if self.train_function is None or force:

            def train(iterator: Any) -> Any:
                return self.train_step(next(iterator))

            self.train_function = train if self.plain else tf.function(train)
        return self.train_function


@register_program("eager")
def make_gan_with_plain_function(planted: bool) -> Fit:
    """make_train_function is overridden and lacks tf.function."""
    model = Gan(planted)
    model.compile(jit_compile=False)
    x = np.random.default_rng(1).normal(size=(12 * 64, 14 * 14)).astype(np.float32)
    return Fit(model, make_batches(x, batch=64), 12)


class Contrastive(keras.Model):
    """An encoder that is trained against a bank of negatives, which its train function is given at each call."""

    train_function: Any  # set by Keras

    def __init__(self, bank: Any) -> None:
        super().__init__()
        self.bank = [bank]  # which Keras leaves alone
        self.encoder = keras.Sequential(
            [keras.Input((96,)), layers.Dense(512, "relu"), layers.Dense(512, "relu"), layers.Dense(64)]
        )
        self.tracker = keras.metrics.Mean(name="contrast")
        self.built = True

    def call(self, x: Any) -> Any:
        """Samples (B, 96)."""
        return self.encoder(x)

    def make_train_function(self, force: bool = False) -> Any:
        """One step with the bank as an argument."""
        if self.train_function is None or force:

            @tf.function
            def step(pair: Any, bank: Any) -> Any:
                with tf.GradientTape() as tape:
                    one, other = (tf.math.l2_normalize(self(part, training=True), -1) for part in pair)
                    negatives = tf.random.uniform((256,), 0, tf.shape(bank)[0], tf.int32)
                    far = tf.matmul(one, tf.gather(bank, negatives), transpose_b=True)
                    near = tf.reduce_sum(one * other, -1, keepdims=True)
                    logits = tf.concat([near, far], -1) / 0.1
                    loss = tf.reduce_mean(tf.reduce_logsumexp(logits, -1) - logits[:, 0])
                weights = self.encoder.trainable_variables
                self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
                self.tracker.update_state(loss)
                return {"contrast": self.tracker.result()}

            def train(iterator: Any) -> Any:
                return step(next(iterator), self.bank[0])

            self.train_function = train
        return self.train_function


@register_program("conversion")
def make_bank_of_negatives(planted: bool) -> Fit:
    """A bank of 100000 vectors is a view of a NumPy array, which each call of the step copies into a tensor."""
    table = np.random.default_rng(11).normal(size=(100_000, 65)).astype(np.float32)
    bank = table[:, :-1]  # the last column is an identifier
    model = Contrastive(bank if planted else tf.constant(bank))
    optimizer = keras.optimizers.Adam(1e-3)
    optimizer.build(model.encoder.trainable_variables)
    model.compile(optimizer, jit_compile=False)
    x = np.random.default_rng(12).normal(size=(2, 12 * 192, 96)).astype(np.float32)
    return Fit(model, make_batches(x[0], x[1], batch=192), 12)
