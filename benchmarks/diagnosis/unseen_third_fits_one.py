"""Keras trainings with one planted cause each, written by someone who had not read the rules: mostly callbacks."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from benchmarks.diagnosis.program import Fit, register_program
from benchmarks.diagnosis.unseen_parts import draw_pictures, make_batches

LENGTH, PROMPT, ANSWER, SIGNS = 24, 12, 10, 14  # of a sum in tokens: all, what is given, what is asked for; kinds


def make_strategy() -> tf.distribute.Strategy:
    """Two replicas on two logical processors."""
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"], tf.distribute.ReductionToOneDevice())


class TwinViews(keras.Model):
    """Variance, invariance and covariance of two views; the first replica watches how many dimensions are used."""

    watch_every = 1

    def train_step(self, data: Any) -> Any:
        """One step of a replica."""
        with tf.GradientTape() as tape:
            one = self(data + tf.random.normal(tf.shape(data), stddev=0.2), training=True)
            other = self(data * tf.random.uniform((1, 1, data.shape[-1]), 0.8, 1.2), training=True)
            loss = 25.0 * tf.reduce_mean(tf.square(one - other)) + self.get_spread(one) + self.get_spread(other)
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        due = (tf.cast(self.optimizer.iterations, tf.int32) + 1) % self.watch_every == 0
        first = tf.equal(tf.distribute.get_replica_context().replica_id_in_sync_group, 0)
        rank = tf.cond(due & first, lambda: self.get_rank(one), lambda: tf.constant(0.0))
        return {"loss": loss, "rank": rank}

    def get_spread(self, x: Any) -> Any:
        """Losses of too small variances, and of covariances, of embeddings (B, F)."""
        x = x - tf.reduce_mean(x, 0)
        covariance = tf.matmul(x, x, transpose_a=True) / x.shape[0]
        variances = tf.linalg.diag_part(covariance)
        apart = tf.reduce_sum(tf.square(covariance)) - tf.reduce_sum(tf.square(variances))
        return tf.reduce_mean(tf.nn.relu(1.0 - tf.sqrt(variances + 1e-4))) + apart / x.shape[1]

    def get_rank(self, x: Any) -> Any:
        """Effective rank, by the entropy of the spectrum."""
        values = tf.maximum(tf.linalg.eigvalsh(tf.matmul(x, x, transpose_a=True)), 1e-9)
        parts = values / tf.reduce_sum(values)
        return tf.exp(-tf.reduce_sum(parts * tf.math.log(parts)))


@register_program("straggler", devices=2)
def make_rank_on_first_replica(planted: bool) -> Fit:
    """The first replica alone decomposes its embeddings in each step; or in the last step of each epoch."""
    with make_strategy().scope():
        model = TwinViews(*build_sensor_encoder(512))
        model.watch_every = 1 if planted else 24
        model.compile(keras.optimizers.SGD(1e-4), jit_compile=False)
    windows = np.random.default_rng(21).normal(size=(24 * 64, 64, 9)).astype(np.float32)
    return Fit(model, make_batches(windows, batch=64), 24)


def build_sensor_encoder(width: int) -> tuple[Any, Any]:
    """Entry and end of a network for windows of sensors."""
    entry = keras.Input((64, 9))
    x = layers.Conv1D(64, 5, activation="relu")(entry)
    x = layers.Conv1D(96, 5, strides=2, activation="relu")(x)
    x = layers.GlobalAveragePooling1D()(layers.Conv1D(96, 5, activation="relu")(x))
    return entry, layers.Dense(width)(x)


class KernelSpectra(keras.callbacks.Callback):
    """Watches the largest singular values of all kernels for a collapse."""

    def __init__(self, each_batch: bool) -> None:
        super().__init__()
        self.each_batch = each_batch
        self.largest: dict[str, Any] = {}

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """After a step."""
        if self.each_batch:
            self.measure()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """After an epoch."""
        self.measure()

    def measure(self) -> None:
        """Decomposes all kernels."""
        for layer in self.model.layers:
            if isinstance(layer, layers.Conv2D):
                kernel = layer.kernel.numpy()
                values = np.linalg.svd(kernel.reshape(-1, kernel.shape[-1]), compute_uv=False)
                self.largest[layer.name] = values[:4]


@register_program("callback", "KernelSpectra", devices=2)
def make_spectra_of_kernels(planted: bool) -> Fit:
    """A callback that decomposes the kernels of convolutions after each batch, or after each epoch; two replicas."""
    with make_strategy().scope():
        model = keras.Sequential([
            keras.Input((24, 24, 3)), layers.Conv2D(48, 3, activation="relu"), layers.MaxPooling2D(),
            layers.Conv2D(64, 3, activation="relu"), layers.MaxPooling2D(), layers.Conv2D(112, 3, activation="relu"),
            layers.GlobalAveragePooling2D(), layers.Dense(10),
        ])  # fmt: skip
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.SGD(1e-3, momentum=0.9), loss, jit_compile=False)
    data = make_batches(*draw_pictures(24 * 32, 24), batch=32)
    return Fit(model, data, 24, lambda: [KernelSpectra(planted)])


class SaliencyMaps(keras.callbacks.Callback):
    """Maps after each epoch of how much the score of a class depends on each pixel of a few pictures."""

    def __init__(self, pictures: Any, classes: Any, once: bool) -> None:
        super().__init__()
        self.pictures, self.classes, self.once = tf.constant(pictures), tf.constant(classes), once
        self.compute: Any = None
        self.maps: Any = None

    def build_compute(self) -> Any:
        """Function from pictures and classes to maps."""
        model = self.model

        @tf.function
        def compute(pictures: Any, classes: Any) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(pictures)
                score = tf.gather(model(pictures, training=False), classes, axis=1, batch_dims=1)
            return tf.reduce_max(tf.abs(tape.gradient(score, pictures)), -1)

        return compute

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Maps of the model as it is now."""
        if self.compute is None or not self.once:
            self.compute = self.build_compute()
        self.maps = self.compute(self.pictures, self.classes).numpy()


@register_program("retracing")
def make_saliency_each_epoch(planted: bool) -> Fit:
    """A callback that defines a tf.function anew after each epoch, or once."""
    entry = keras.Input((24, 24, 3))
    x = layers.Conv2D(16, 3, padding="same", activation="relu")(entry)
    for _ in range(3):
        inner = layers.Conv2D(16, 3, padding="same", activation="relu")(x)
        x = layers.Add()([x, layers.Conv2D(16, 3, padding="same")(layers.LayerNormalization()(inner))])
    model = keras.Model(entry, layers.Dense(10)(layers.GlobalAveragePooling2D()(layers.MaxPooling2D(4)(x))))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(1e-3), loss, metrics=["accuracy"], jit_compile=False)
    pictures, classes = draw_pictures(24 * 16, 24)
    maps = SaliencyMaps(pictures[:4], classes[:4], once=not planted)
    return Fit(model, make_batches(pictures, classes, batch=16), 24, lambda: [maps])


class Calculator(keras.Model):
    """A causal transformer that goes on with sums; it may be validated by answers that it writes token by token."""

    def __init__(self, writes: bool, width: int = 48) -> None:
        super().__init__()
        self.writes = writes
        self.tokens, self.places = layers.Embedding(SIGNS, width), layers.Embedding(LENGTH, width)
        self.attentions = [layers.MultiHeadAttention(4, width // 4) for _ in range(2)]
        self.norms = [layers.LayerNormalization() for _ in range(4)]
        self.inner = [layers.Dense(2 * width, "gelu") for _ in range(2)]
        self.outer = [layers.Dense(width) for _ in range(2)]
        self.head = layers.Dense(SIGNS)

    def call(self, tokens: Any) -> Any:
        """Logits (B, LENGTH, SIGNS) of the tokens that follow."""
        x = self.tokens(tokens) + self.places(tf.range(LENGTH))
        for one, attention in enumerate(self.attentions):
            x = self.norms[2 * one](x + attention(x, x, use_causal_mask=True))
            x = self.norms[2 * one + 1](x + self.outer[one](self.inner[one](x)))
        return self.head(x)

    def test_step(self, data: Any) -> Any:
        """The loss, and how many answers are right."""
        logs = super().test_step(data)
        return logs | {"exact": self.compare_written(*data)} if self.writes else logs

    def compare_written(self, x: Any, y: Any) -> Any:
        """Part of the sums whose answers are written rightly."""
        written = x[:, :PROMPT]
        for length in range(PROMPT, PROMPT + ANSWER):
            logits = self(tf.pad(written, [[0, 0], [0, LENGTH - length]]), training=False)
            written = tf.concat([written, tf.argmax(logits[:, length - 1], -1, tf.int32)[:, None]], 1)
        right = tf.reduce_all(written[:, PROMPT:] == y[:, PROMPT - 1 : PROMPT + ANSWER - 1], 1)
        return tf.reduce_mean(tf.cast(right, tf.float32))


@register_program("validation")
def make_validation_by_writing(planted: bool) -> Fit:
    """Validation writes answers token by token, with the whole model for each; or only takes the loss."""
    model = Calculator(writes=planted)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(1e-2), loss, jit_compile=False)
    sums = np.random.default_rng(22).integers(0, SIGNS, (24 * 32 + 192, LENGTH + 1)).astype(np.int32)
    x, y = sums[:, :-1], sums[:, 1:]
    held = make_batches(x[-192:], y[-192:], batch=64)
    data = make_batches(x[:-192], y[:-192], batch=32)
    return Fit(model, data, 24, settings={"validation_data": held})
