"""Loops of a program's own with one planted cause each."""

import gc
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from benchmarks.diagnosis.fits import BATCH, WIDTH, build_mlp, make_arrays
from benchmarks.diagnosis.program import Mark, OwnLoop, register_program
from tfperf.trace.rules.calls import LONGER

Step = Any  # a function, compiled or not


def build_step(units: int = 512, jit: bool = False, compiled: bool = True) -> tuple[Step, keras.Model]:
    """A step of Adam on x (B, 64) and y (B, 1), and its model."""
    model = build_mlp(units, optimizer="adam")
    optimizer = model.optimizer
    optimizer.build(model.trainable_variables)

    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            found = model(x, training=True)
            loss = tf.reduce_mean(tf.square(found - tf.cast(y, tf.float32)))
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    return (tf.function(step, jit_compile=jit) if compiled else step), model


def make_batch(size: int = BATCH) -> tuple[Any, Any]:
    """One batch as tensors."""
    x, y = make_arrays(1, size)
    return tf.constant(x), tf.constant(y)


def repeat(step: Step, *arguments: Any, after: Callable[[int, Any], None] | None = None, times: int = 1) -> OwnLoop:
    """The same batch again and again; `after` has the number and what the step gives, inside of the mark.

    times: steps that the step takes itself, and how often `after` follows.
    """

    def run(mark: Mark, numbers: Iterable[int]) -> None:
        for number in numbers:
            with mark(number):
                loss = step(*arguments)
                np.asarray(loss)
                if after is not None:
                    for _ in range(times):
                        after(number, loss)

    def change_calls() -> OwnLoop:
        return repeat(take_many(step, LONGER), *arguments, after=after, times=LONGER)

    def compile_step() -> OwnLoop:
        return repeat(tf.function(step.python_function, jit_compile=True), *arguments, after=after)

    changes = {"calls": change_calls, "short_operations": compile_step}
    graph = hasattr(step, "python_function") and not step._jit_compile  # XLA takes what does not change out of a loop
    return OwnLoop(run, times, changes if graph and times == 1 else {})


def take_many(step: Step, times: int) -> Step:
    """A function that takes so many steps in one call."""

    @tf.function
    def take(*arguments: Any) -> Any:
        loss = step(*arguments)
        for _ in tf.range(times - 1):
            loss = step(*arguments)
        return loss

    return take


def compute_score(loss: Any, y: Any) -> float:
    """Scores by NumPy, as a program has that was not written for TensorFlow."""
    scores = []
    for shift in (-1.0, 0.0, 1.0):
        values = np.sort(np.tile(np.asarray(y)[:, 0], 8000)) + float(loss) + shift
        scores.append(float(np.quantile(values, 0.9)))
    return sum(scores)


@register_program("python", "compute_score")
def make_numpy_metric(planted: bool) -> OwnLoop:
    """A score of each step by NumPy."""
    step, _ = build_step()
    x, y = make_batch()
    return repeat(step, x, y, after=(lambda number, loss: print(end="" * int(compute_score(loss, y) > 1e9)))
                  if planted else None)  # fmt: skip


def pause(number: int, loss: Any) -> None:
    """Wait, as for a service that takes figures."""
    time.sleep(0.02)


@register_program("python", "pause", sleeps=True)
def make_pause_in_step(planted: bool) -> OwnLoop:
    """A pause between two steps."""
    step, _ = build_step()
    return repeat(step, *make_batch(), after=pause if planted else None)


@register_program("python", "write_log")
def make_logged_steps(planted: bool) -> OwnLoop:
    """All weights are written as histograms in each step."""
    step, model = build_step()
    writer = tf.summary.create_file_writer(tempfile.mkdtemp())

    def write_log(number: int, loss: Any) -> None:
        with writer.as_default(step=number):
            for weight in model.trainable_variables:
                tf.summary.histogram(weight.path, weight)

    return repeat(step, *make_batch(), after=write_log if planted else None)


@register_program("python", "save_all")
def make_saved_steps(planted: bool) -> OwnLoop:
    """A checkpoint every second step."""
    step, model = build_step(768)
    manager = tf.train.CheckpointManager(
        tf.train.Checkpoint(model=model, optimizer=model.optimizer), tempfile.mkdtemp(), 2
    )

    def save_all(number: int, loss: Any) -> None:
        if number % 2 == 0:
            manager.save()

    return repeat(step, *make_batch(), after=save_all if planted else None)


@register_program("python", "write_weights")
def make_saved_weights(planted: bool) -> OwnLoop:
    """Weights are written to HDF5 in every second step."""
    step, model = build_step(512)
    file = str(Path(tempfile.mkdtemp(), "m.weights.h5"))

    def write_weights(number: int, loss: Any) -> None:
        if number % 2 == 0:
            model.save_weights(file)

    return repeat(step, *make_batch(), after=write_weights if planted else None)


@register_program("garbage")
def make_collected_steps(planted: bool) -> OwnLoop:
    """Many objects are alive that the collector looks through in each step."""
    step, _ = build_step()
    objects = [[number] for number in range(600_000)] if planted else []

    def collect(number: int, loss: Any) -> None:
        gc.collect()
        len(objects)

    return repeat(step, *make_batch(), after=collect if planted else None)


@register_program("conversion")
def make_array_arguments(planted: bool) -> OwnLoop:
    """A dict of 300 NumPy arrays of 66 kB goes into each call."""
    x, y = make_arrays(1200)
    parts = {f"part_{number}": part if planted else tf.constant(part) for number, part in enumerate(np.split(x, 300))}
    weight = tf.Variable(tf.zeros((WIDTH, 1)))

    @tf.function
    def step(parts: Any, y: Any) -> Any:
        x = tf.concat(list(parts.values()), 0)
        error = x @ weight - tf.cast(y, tf.float32)
        weight.assign_sub(1e-7 * tf.matmul(x, error, transpose_a=True))
        return tf.reduce_mean(error)

    return repeat(step, parts, tf.constant(y))


@register_program("eager")
def make_eager_loop(planted: bool) -> OwnLoop:
    """A GradientTape without tf.function."""
    step, _ = build_step(compiled=not planted)
    return repeat(step, *make_batch())


@register_program("calls")
def make_one_step_a_call(planted: bool) -> OwnLoop:
    """A step of microseconds, called from Python one by one; its twin takes 512 in a call."""
    weight = tf.Variable(tf.zeros((WIDTH, 256)))
    x, _ = make_batch()

    def take() -> Any:
        error = tf.tanh(x @ weight) - 0.5
        weight.assign_sub(1e-3 * tf.matmul(x, error, transpose_a=True))
        return tf.reduce_mean(error)

    @tf.function
    def take_all() -> Any:
        loss = tf.constant(0.0)
        for _ in tf.range(512):
            loss = take()
        return loss

    return repeat(tf.function(take)) if planted else repeat(take_all, times=512)


@register_program("short_operations")
def make_elementwise_chain(planted: bool) -> OwnLoop:
    """Hundreds of small operations after one another, and one that is long enough for TensorFlow to record it."""
    weight, matrix = tf.Variable(tf.ones((64,))), tf.Variable(tf.ones((192, 192)))

    @tf.function(jit_compile=not planted)
    def step() -> Any:
        value = weight
        for _ in range(800):
            value = tf.abs(value * 0.99 - 0.01)
        weight.assign_add(1e-3 * value)
        return tf.reduce_sum(value) + tf.reduce_sum(matrix @ matrix)

    return repeat(step)
