"""Loops of a program's own, made after complaints of users of TensorFlow, and twins with the thread's fix."""

import random
from collections import deque
from collections.abc import Iterable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from benchmarks.diagnosis.fits import BATCH, WIDTH, build_mlp, make_arrays
from benchmarks.diagnosis.loops import build_step, make_batch, repeat
from benchmarks.diagnosis.program import Mark, OwnLoop, register_program


@register_program("method", "predict")
def make_predict_in_loop(planted: bool) -> OwnLoop:
    """An agent asks predict for values before every second step; its twin asks predict_on_batch.

    Complaint: https://github.com/tensorflow/tensorflow/issues/35124
    """
    model = build_mlp(256)
    x, y = make_arrays(1)

    def run(mark: Mark, numbers: Iterable[int]) -> None:
        best = 0.0
        for number in numbers:
            with mark(number):
                if number % 2 == 0:
                    best = np.max(model.predict(x[:1], verbose=0) if planted else model.predict_on_batch(x[:1]))
                model.train_on_batch(x, y + 0.9 * best)

    return OwnLoop(run)


class ReplayMemory:
    """Many transitions, of which a step draws some; a deque looks for each from its ends, a list does not."""

    def __init__(self, kind: type[deque[Any]] | type[list[Any]], size: int) -> None:
        x, y = make_arrays(1)
        few = list(zip(x, y, strict=True))
        self.memory = kind(few[number % len(few)] for number in range(size))

    def sample_memories(self, count: int) -> tuple[Any, Any]:
        """x (count, 64) and y (count, 1)."""
        drawn = [self.memory[random.randrange(len(self.memory))] for _ in range(count)]
        return np.stack([one for one, _ in drawn]), np.stack([target for _, target in drawn])


@register_program("python", "sample_memories")
def make_deque_of_memories(planted: bool) -> OwnLoop:
    """The samples of each step are drawn at random from a long deque; its twin has a list.

    Complaint: https://github.com/ageron/handson-ml/pull/204
    """
    memory = ReplayMemory(deque if planted else list, 1_000_000)
    step, _ = build_step(256)

    def run(mark: Mark, numbers: Iterable[int]) -> None:
        for number in numbers:
            with mark(number):
                x, y = memory.sample_memories(256)
                np.asarray(step(tf.constant(x), tf.constant(y)))

    return OwnLoop(run)


@register_program("retracing")
def make_compile_for_rate(planted: bool) -> OwnLoop:
    """The model is compiled again for another learning rate; its twin assigns the rate.

    Complaint: https://github.com/keras-team/keras/issues/8457
    """
    model = build_mlp(256)
    x, y = make_arrays(1)

    def run(mark: Mark, numbers: Iterable[int]) -> None:
        for number in numbers:
            with mark(number):
                if number % 4 == 0:
                    set_rate(model, 1e-2 / (1 + number), planted)
                model.train_on_batch(x, y)

    return OwnLoop(run)


def set_rate(model: keras.Model, rate: float, by_compiling: bool) -> None:
    """Go on with another learning rate."""
    if by_compiling:
        model.compile(keras.optimizers.SGD(rate), "mse", jit_compile=False)
    else:
        model.optimizer.learning_rate = rate


@register_program("eager")
def make_gradients_applied_outside(planted: bool) -> OwnLoop:
    """Gradients come from a compiled function and are applied outside of it; its twin applies them inside.

    Complaint: https://github.com/keras-team/keras/issues/17668
    """
    model = build_mlp(128, 6, optimizer="adam")
    model.optimizer.build(model.trainable_variables)

    def compute_gradients(x: Any, y: Any) -> tuple[Any, Any]:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True) - tf.cast(y, tf.float32)))
        return loss, tape.gradient(loss, model.trainable_variables)

    compiled = tf.function(compute_gradients)

    def step(x: Any, y: Any) -> Any:
        loss, gradients = (compiled if planted else compute_gradients)(x, y)
        model.optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    return repeat(step if planted else tf.function(step), *make_batch())


@register_program("conversion")
def make_list_of_pictures(planted: bool) -> OwnLoop:
    """A tensor is made of a list of arrays in each step; its twin makes one array of them before.

    Complaint: https://github.com/tensorflow/tensorflow/issues/44555
    """
    draws = np.random.default_rng(1)
    pictures = [draws.integers(0, 256, (24, 24, 3)) for _ in range(BATCH)]
    kernel = tf.Variable(tf.random.normal((24 * 24 * 3, WIDTH), stddev=0.01))

    @tf.function
    def step(batch: Any) -> Any:
        pixels = tf.reshape(tf.cast(batch, tf.float32) / 255.0, (BATCH, -1))
        values = tf.tanh(pixels @ kernel)
        kernel.assign_sub(1e-4 * tf.matmul(pixels, values, transpose_a=True))
        return tf.reduce_mean(values)

    def run(mark: Mark, numbers: Iterable[int]) -> None:
        for number in numbers:
            with mark(number):
                batch = tf.convert_to_tensor(pictures if planted else np.asarray(pictures))
                np.asarray(step(batch))

    return OwnLoop(run)
