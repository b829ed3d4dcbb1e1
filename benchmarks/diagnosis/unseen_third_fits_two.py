"""Keras trainings with one planted cause each, written by someone who had not read the rules: steps and losses."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers
from scipy.ndimage import distance_transform_edt

from benchmarks.diagnosis.program import Fit, register_program
from benchmarks.diagnosis.unseen_parts import draw_pictures, make_batches


class HardHalf(keras.Model):
    """Learns by the half of a batch that has the largest losses, chosen by NumPy or by TensorFlow."""

    by_numpy = False

    def train_step(self, data: Any) -> Any:
        """One step."""
        x, y = data
        with tf.GradientTape() as tape:
            losses = keras.losses.sparse_categorical_crossentropy(y, self(x, training=True), from_logits=True)
            if self.by_numpy:
                chosen = np.argsort(-losses.numpy())[: len(losses) // 2]
            else:
                chosen = tf.math.top_k(losses, losses.shape[0] // 2).indices
            loss = tf.reduce_mean(tf.gather(losses, chosen))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        return {"loss": loss}


@register_program("eager")
def make_hard_half_by_numpy(planted: bool) -> Fit:
    """Hard examples are chosen by NumPy, for which the model is compiled with run_eagerly=True."""
    entry = keras.Input((24, 24, 3))
    x = layers.Conv2D(16, 3, padding="same")(entry)
    for width in (16, 32):
        inner = layers.DepthwiseConv2D(3, padding="same")(layers.ReLU()(layers.BatchNormalization()(x)))
        inner = layers.Conv2D(width, 1)(layers.ReLU()(layers.BatchNormalization()(inner)))
        x = layers.AveragePooling2D(2)(layers.Add()([layers.Conv2D(width, 1)(x), inner])) if width > 16 else inner
    model = HardHalf(entry, layers.Dense(10)(layers.GlobalAveragePooling2D()(x)))
    model.by_numpy = planted
    model.compile(keras.optimizers.SGD(1e-3), run_eagerly=planted, jit_compile=False)
    return Fit(model, make_batches(*draw_pictures(24 * 32, 24), batch=32), 24)


class Emulator(keras.Model):
    """Spectra by parameters of a star; residuals are whitened by the covariance of the noise."""

    def __init__(self, covariance: Any, factored: bool) -> None:
        super().__init__()
        size = len(covariance)
        self.factored = factored
        kept = np.linalg.cholesky(covariance) if factored else covariance
        self.noise = tf.Variable(kept, trainable=False, dtype=tf.float32)
        self.net = keras.Sequential([keras.Input((12,)), *[layers.Dense(512, "gelu") for _ in range(2)],
                                     layers.Dense(size)])  # fmt: skip

    def call(self, x: Any) -> Any:
        """Spectra of parameters (B, 12)."""
        return self.net(x)

    def compute_loss(
        self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True
    ) -> Any:
        """Half of r' C^-1 r, by the root of the covariance C."""
        root = self.noise if self.factored else tf.linalg.cholesky(self.noise)
        white = tf.linalg.triangular_solve(root, tf.transpose(y - y_pred))
        return 0.5 * tf.reduce_mean(tf.square(white))


@register_program("constants")
def make_whitened_residuals(planted: bool) -> Fit:
    """The covariance of the noise, which never changes, is decomposed in each step; or once before."""
    places = np.arange(640)
    covariance = 0.3 * np.exp(-np.abs(places[:, None] - places) / 6.0) + 0.5 * np.eye(640)
    model = Emulator(covariance, factored=not planted)
    model.compile(keras.optimizers.SGD(1e-4), jit_compile=False)
    draws = np.random.default_rng(31)
    x = draws.uniform(-1, 1, (24 * 64, 12)).astype(np.float32)
    y = draws.normal(size=(24 * 64, 640)).astype(np.float32)
    return Fit(model, make_batches(x, y, batch=64), 24)


class Scans(keras.Model):
    """Learns from volumes and from their mirror images together."""

    def train_step(self, data: Any) -> Any:
        """One step; the two predictions are also to agree."""
        x, y = data
        with tf.GradientTape() as tape:
            one, other = tf.split(self(tf.concat([x, tf.reverse(x, [1])], 0), training=True), 2)
            entropy = tf.nn.sigmoid_cross_entropy_with_logits(tf.concat([y, y], 0), tf.concat([one, other], 0))
            loss = tf.reduce_mean(entropy) + 0.1 * tf.reduce_mean(tf.square(one - other))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        return {"loss": loss}


@register_program("half_precision")
def make_half_precise_scans(planted: bool) -> Fit:
    """Volumes of a scanner go through convolutions of three dimensions in float16, to save memory."""
    entry = keras.Input((16, 16, 16, 1))
    x = entry
    for width in (4, 8):
        x = layers.Conv3D(width, 3, padding="same", activation="relu", dtype="mixed_float16" if planted else None)(x)
        x = layers.MaxPooling3D(2, dtype="float32")(x)
    x = layers.Conv3D(32, 3, activation="relu")(x)
    model = Scans(entry, layers.Dense(1)(layers.GlobalAveragePooling3D()(x)))
    model.compile(keras.optimizers.SGD(1e-3), jit_compile=False)
    draws = np.random.default_rng(32)
    x, y = draws.normal(size=(24 * 4, 16, 16, 16, 1)), draws.integers(0, 2, (24 * 4, 1))
    return Fit(model, make_batches(x.astype(np.float32), y.astype(np.float32), batch=4), 24)


def measure_distances(masks: Any) -> Any:
    """Signed distance of each pixel from the border of each class (B, N, N, C)."""
    classes = [[one[..., kind] for kind in range(one.shape[-1])] for one in masks]
    found = [[distance_transform_edt(1 - mask) - distance_transform_edt(mask) for mask in one] for one in classes]
    return np.moveaxis(np.array(found, np.float32), 1, -1)


def compute_border_loss(y: Any, found: Any) -> Any:
    """Entropy and border loss by logits (B, N, N, C); y: masks of classes, and perhaps their distances."""
    kinds = found.shape[-1]
    masks = y[..., :kinds]
    if y.shape[-1] == kinds:
        distances = tf.ensure_shape(tf.numpy_function(measure_distances, [masks], tf.float32), masks.shape)
    else:
        distances = y[..., kinds:]
    entropy = tf.nn.softmax_cross_entropy_with_logits(masks, found)
    return tf.reduce_mean(entropy + 0.01 * tf.reduce_sum(tf.nn.softmax(found) * distances, -1), (1, 2))


@register_program("py_function", "measure_distances")
def make_border_loss(planted: bool) -> Fit:
    """Segmentation; distances of pixels from the borders are computed by SciPy in the loss, or once before."""
    entry = keras.Input((40, 40, 1))
    fine = layers.Conv2D(8, 3, padding="same", activation="relu")(entry)
    coarse = layers.Conv2D(24, 3, padding="same", activation="relu")(layers.MaxPooling2D()(fine))
    coarse = layers.Conv2D(16, 3, padding="same", activation="relu")(coarse)
    x = layers.Concatenate()([fine, layers.UpSampling2D()(coarse)])
    model = keras.Model(entry, layers.Conv2D(3, 3, padding="same")(x))
    model.compile(keras.optimizers.Adam(1e-4), compute_border_loss, jit_compile=False)
    draws = np.random.default_rng(33)
    count = 24 * 24
    centers, radii = draws.uniform(10, 30, (count, 2)), draws.uniform(4, 14, count)
    rows, columns = np.mgrid[:40, :40]
    apart = np.hypot(rows - centers[:, :1, None], columns - centers[:, 1:, None]) - radii[:, None, None]
    masks = np.stack([apart < -3, (apart >= -3) & (apart < 0), apart >= 0], -1).astype(np.float32)
    x = (masks @ np.array([[1.0], [0.5], [0.0]]) + draws.normal(scale=0.5, size=(count, 40, 40, 1))).astype(np.float32)
    y = masks if planted else np.concatenate([masks, measure_distances(masks)], -1)
    return Fit(model, make_batches(x, y, batch=24), 24)


class Circuit(layers.Layer):
    """A simulated circuit of qubits: rotations by inputs and weights, and signs by pairs; amplitudes are real."""

    def __init__(self, qubits: int = 8, depth: int = 4) -> None:
        super().__init__()
        self.qubits, self.depth = qubits, depth
        bits = np.arange(2**qubits)[:, None] >> np.arange(qubits)[::-1] & 1
        pairs = (bits[:, :-1] & bits[:, 1:]).sum(1)
        self.signs = (1.0 - 2.0 * (pairs % 2)).astype(np.float32)
        self.spins = (1.0 - 2.0 * bits).astype(np.float32)
        self.angles = self.add_weight((depth, qubits), "random_normal")

    def call(self, x: Any) -> Any:
        """Expected spins (B, qubits) for angles x of the same shape."""
        state = tf.concat([tf.ones_like(x[:, :1]), tf.zeros((x.shape[0] or tf.shape(x)[0], 2**self.qubits - 1))], 1)
        for level in range(self.depth):
            for qubit in range(self.qubits):
                state = self.rotate(state, qubit, x[:, qubit] + self.angles[level, qubit])
            state = state * self.signs
        return tf.square(state) @ self.spins

    def rotate(self, state: Any, qubit: int, angle: Any) -> Any:
        """States (B, 2 ** qubits) after a rotation of one qubit by angles (B,)."""
        parts = tf.reshape(state, (-1, 2**qubit, 2, 2 ** (self.qubits - qubit - 1)))
        cos, sin = tf.cos(angle / 2)[:, None, None], tf.sin(angle / 2)[:, None, None]
        zero, one = parts[:, :, 0], parts[:, :, 1]
        turned = tf.stack([cos * zero - sin * one, sin * zero + cos * one], 2)
        return tf.reshape(turned, (-1, 2**self.qubits))


@register_program("short_operations")
def make_quantum_circuit(planted: bool) -> Fit:
    """A classifier by a circuit of 32 rotations, gate by gate, without XLA or with it."""
    model = keras.Sequential([keras.Input((16,)), layers.Dense(64, "tanh"), layers.Dense(8), Circuit(),
                              layers.Dense(1)])  # fmt: skip
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(1e-2), loss, jit_compile=not planted)
    draws = np.random.default_rng(34)
    x, y = draws.normal(size=(24 * 64, 16)).astype(np.float32), draws.integers(0, 2, (24 * 64, 1)).astype(np.float32)
    return Fit(model, make_batches(x, y, batch=64), 24)
