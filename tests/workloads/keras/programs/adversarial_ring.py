"""A generative adversarial network that learns to draw points on a ring; each side has an optimizer of its own."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers


class RingGAN(keras.Model):
    """Keeps both networks; compile takes two optimizers."""

    def __init__(self, generator, discriminator, latent):
        super().__init__()
        self.generator, self.discriminator, self.latent = generator, discriminator, latent
        self.seeds = keras.random.SeedGenerator(5)

    def compile(self, generator_optimizer, discriminator_optimizer, loss_fn):
        super().compile()
        self.generator_optimizer = generator_optimizer
        self.discriminator_optimizer = discriminator_optimizer
        self.loss_fn = loss_fn
        self.generator_loss = keras.metrics.Mean(name="generator_loss")
        self.discriminator_loss = keras.metrics.Mean(name="discriminator_loss")

    @property
    def metrics(self):
        return [self.generator_loss, self.discriminator_loss]

    def train_step(self, real):
        count = tf.shape(real)[0]
        zeros, ones = tf.zeros((count, 1)), tf.ones((count, 1))
        noise = keras.random.normal((count, self.latent), seed=self.seeds)
        with tf.GradientTape() as tape:
            scores = self.discriminator(tf.concat([self.generator(noise), real], axis=0), training=True)
            loss = self.loss_fn(tf.concat([zeros, 0.9 * ones], axis=0), scores)
        weights = self.discriminator.trainable_weights
        self.discriminator_optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        self.discriminator_loss.update_state(loss)

        noise = keras.random.normal((count, self.latent), seed=self.seeds)
        with tf.GradientTape() as tape:
            loss = self.loss_fn(ones, self.discriminator(self.generator(noise, training=True)))
        weights = self.generator.trainable_weights
        self.generator_optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        self.generator_loss.update_state(loss)
        return {m.name: m.result() for m in self.metrics}


def build_model(latent=4, units=24):
    generator = keras.Sequential(
        [keras.Input((latent,)), layers.Dense(units, activation="relu"), layers.Dense(2)], name="generator"
    )
    discriminator = keras.Sequential(
        [keras.Input((2,)), layers.Dense(units), layers.LeakyReLU(0.2), layers.Dropout(0.2), layers.Dense(1)],
        name="discriminator",
    )
    model = RingGAN(generator, discriminator, latent)
    model.compile(
        generator_optimizer=keras.optimizers.Adam(2e-3, beta_1=0.5),
        discriminator_optimizer=keras.optimizers.Adam(5e-3, beta_1=0.5),
        loss_fn=keras.losses.BinaryCrossentropy(from_logits=True),
    )
    return model


def load_samples(count=420):
    rng = np.random.default_rng(33)
    angle, radius = rng.uniform(0, 2 * np.pi, count), rng.normal(2.0, 0.1, count)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).astype("float32")
