"""Loops with one planted cause each, written by someone who had not read the rules: pictures, trends and paths."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from benchmarks.diagnosis.loops import repeat
from benchmarks.diagnosis.program import OwnLoop, register_program
from benchmarks.diagnosis.unseen_parts import Adam, Linear, Perceptron, draw_pictures

HIDDEN = (16, 48, 96, 192)  # the candidates of a block
BLOCKS, STEPS_OF_A_PATH = 6, 12


class Supernet(tf.Module):
    """All candidates of all blocks; a path names the candidate that each block uses."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.entry, self.head = Linear(inputs, width), Linear(width, 1)
        self.blocks = [[Perceptron(width, hidden, width) for hidden in HIDDEN] for _ in range(BLOCKS)]

    def __call__(self, x: Any, path: Any) -> Any:
        """x (B, inputs); path: numbers, or a tensor of them."""
        x = self.entry(x)
        chosen = path if isinstance(path, tuple) else tf.unstack(path)
        for candidates, number in zip(self.blocks, chosen, strict=True):
            if isinstance(number, int):
                x = x + candidates[number](x)
            else:
                x = x + tf.switch_case(number, [partial(one, x) for one in candidates])
        return self.head(x)


def draw_paths(as_numbers: bool) -> Iterator[Any]:
    """A new path after every few steps."""
    random = np.random.default_rng(11)
    while True:
        path = tuple(int(one) for one in random.integers(0, len(HIDDEN), BLOCKS))
        yield from [path if as_numbers else tf.constant(path)] * STEPS_OF_A_PATH


@register_program("retracing")
def make_sampled_architectures(planted: bool) -> OwnLoop:
    """One-shot search of an architecture: paths are tuples of Python numbers; the twin switches by a tensor."""
    net, paths = Supernet(32, 64), draw_paths(planted)
    x = tf.random.normal((1024, 32), seed=1)
    y = tf.reduce_sum(tf.sin(x), 1, keepdims=True)

    @tf.function
    def learn(x: Any, y: Any, path: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(net(x, path) - y))
        weights = net.trainable_variables
        gradients = tape.gradient(loss, weights, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.assign_sub(1e-4 * gradient)
        return loss

    return repeat(lambda: learn(x, y, next(paths)))


def build_segmenter(side: int) -> keras.Model:
    """A U-Net of two levels."""

    def convolve(x: Any, width: int) -> Any:
        x = layers.Conv2D(width, 3, padding="same", use_bias=False)(x)
        return layers.ReLU()(layers.BatchNormalization()(x))

    entry = keras.Input((side, side, 3))
    fine = convolve(entry, 16)
    middle = convolve(layers.MaxPooling2D(2)(fine), 32)
    x = convolve(layers.MaxPooling2D(2)(middle), 48)
    x = convolve(layers.Concatenate()([layers.UpSampling2D(2)(x), middle]), 32)
    x = convolve(layers.Concatenate()([layers.UpSampling2D(2)(x), fine]), 16)
    return keras.Model(entry, layers.Conv2D(1, 1)(x))


@register_program("eager")
def make_updates_outside(planted: bool) -> OwnLoop:
    """Segmentation: the gradients are compiled, but are clipped and applied outside; in the twin, inside."""
    net = build_segmenter(32)
    adam = keras.optimizers.Adam(1e-4)
    weights = net.trainable_variables
    adam.build(weights)
    x = tf.constant(draw_pictures(6, 32)[0])
    y = tf.cast(tf.reduce_mean(x, -1, keepdims=True) > 0.5, tf.float32)

    def differentiate(x: Any, y: Any) -> tuple[Any, Sequence[Any]]:
        with tf.GradientTape() as tape:
            found = net(x, training=True)
            chance = tf.sigmoid(found)
            dice = 2.0 * tf.reduce_sum(chance * y) / (tf.reduce_sum(chance) + tf.reduce_sum(y))
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(y, found)) + 1.0 - dice
        return loss, tape.gradient(loss, weights)

    def update(gradients: Sequence[Any]) -> None:
        clipped, _ = tf.clip_by_global_norm(gradients, 1.0)
        adam.apply(clipped, weights)

    compiled = tf.function(differentiate)

    @tf.function
    def learn(x: Any, y: Any) -> Any:
        loss, gradients = differentiate(x, y)
        update(gradients)
        return loss

    def take() -> Any:
        if not planted:
            return learn(x, y)
        loss, gradients = compiled(x, y)
        update(gradients)
        return loss

    return repeat(take)


class TrendFilter(tf.Module):
    """Kalman's filter of a level and its slope, for many series at once, with variances that are learned."""

    def __init__(self, series: int) -> None:
        super().__init__()
        self.logs = [tf.Variable(tf.fill((series,), one)) for one in (0.0, -2.0, -4.0)]  # of noise, level, slope

    def __call__(self, measured: Any) -> Any:
        """The negative log likelihood of what is measured (T, series)."""
        noise, of_level, of_slope = (tf.exp(one) for one in self.logs)
        level, slope = measured[0], tf.zeros_like(noise)
        p, q, r = noise + of_level, tf.zeros_like(noise), 1.0 + of_slope  # covariance: p q, q r
        loss = tf.zeros_like(noise)
        for moment in tf.range(1, measured.shape[0]):
            p, q, r = p + 2.0 * q + r + of_level, q + r, r + of_slope
            level += slope
            error, spread = measured[moment] - level, p + noise
            loss += tf.math.log(spread) + tf.square(error) / spread
            gain, turn = p / spread, q / spread
            level, slope = level + gain * error, slope + turn * error
            p, q, r = (1.0 - gain) * p, (1.0 - gain) * q, r - turn * q
        return tf.reduce_mean(loss)


@register_program("short_operations")
def make_filtered_trends(planted: bool) -> OwnLoop:
    """The variances of 2000 trends are learned through 64 moments of a filter; the twin is compiled by XLA."""
    net = TrendFilter(2000)
    adam = Adam(net.trainable_variables, 1e-3)
    measured = tf.cumsum(tf.random.normal((64, 2000), seed=2))

    @tf.function(jit_compile=not planted)
    def learn(measured: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = net(measured)
        adam.apply(tape.gradient(loss, adam.weights))
        return loss

    return repeat(lambda: learn(measured))


def build_features(side: int) -> keras.Model:
    """A frozen network, of which three layers are looked at."""
    keras.utils.set_random_seed(5)
    entry = x = keras.Input((side, side, 3))
    taps = []
    for width in (16, 32, 64):
        x = layers.Conv2D(width, 3, padding="same", activation="relu")(x)
        x = layers.Conv2D(width, 3, padding="same", activation="relu")(x)
        taps.append(x)
        x = layers.AveragePooling2D(2)(x)
    net = keras.Model(entry, taps)
    net.trainable = False
    return net


def compute_gram(features: Any) -> Any:
    """The matrix of Gram of each picture's channels."""
    return tf.einsum("bhwc,bhwd->bcd", features, features) / (features.shape[1] * features.shape[2])


@register_program("constants")
def make_style_of_a_picture(planted: bool) -> OwnLoop:
    """Style transfer: the features of the style and of the content are computed in each step, or once before."""
    net = build_features(96)
    style, content = (tf.constant(one[None]) for one in draw_pictures(2, 96)[0])
    picture = tf.Variable(content)
    adam = Adam([picture], 1e-3)

    def look_at_targets() -> tuple[Any, Any]:
        return [compute_gram(one) for one in net(style)], net(content)[1]

    known = look_at_targets()

    @tf.function
    def learn() -> Any:
        wanted_style, wanted_content = look_at_targets() if planted else known
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(picture)
            found = net(picture)
            loss = tf.reduce_mean(tf.square(found[1] - wanted_content))
            for one, wanted in zip(found, wanted_style, strict=True):
                loss += 100.0 * tf.reduce_mean(tf.square(compute_gram(one) - wanted))
            loss += 1e-4 * tf.reduce_sum(tf.image.total_variation(picture))
        adam.apply(tape.gradient(loss, [picture]))
        return loss

    return repeat(learn)
