"""Loops whose functions are traced or compiled again, in five ways."""

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.diagnosis.fits import WIDTH, make_arrays
from benchmarks.diagnosis.loops import build_step, make_batch
from benchmarks.diagnosis.program import Mark, OwnLoop, register_program


def repeat_lengths(step: Any, planted: bool) -> OwnLoop:
    """Each batch has another length, or all the same."""
    x, y = make_arrays(40)

    def run(mark: Mark, numbers: Iterable[int]) -> None:
        lengths = list_lengths()
        for number in numbers:
            size = next(lengths) if planted else 64
            with mark(number):
                np.asarray(step(tf.constant(x[:size]), tf.constant(y[:size])))

    seen = iter(range(8, 1200))

    def list_lengths() -> Any:
        return seen

    return OwnLoop(run)


@register_program("retracing", "shape")
def make_new_shapes(planted: bool) -> OwnLoop:
    """Each batch has another size, for which a graph is made."""
    step, _ = build_step(64)
    return repeat_lengths(tf.function(step.python_function, reduce_retracing=False), planted)


@register_program("retracing")
def make_recompiled(planted: bool) -> OwnLoop:
    """One graph for all sizes, which XLA compiles for each."""
    step, _ = build_step(64)
    signature = [tf.TensorSpec((None, WIDTH), tf.float32), tf.TensorSpec((None, 1), tf.float64)]
    return repeat_lengths(tf.function(step.python_function, input_signature=signature, jit_compile=True), planted)


@register_program("retracing", "Python value")
def make_python_numbers(planted: bool) -> OwnLoop:
    """The number of the step is an argument, each of which is another graph."""
    step, _ = build_step(64)
    batch = make_batch()

    @tf.function
    def take(number: Any) -> Any:
        return step(*batch) + tf.cast(number, tf.float32)

    counter = iter(range(100_000))

    def run(mark: Mark, numbers: Iterable[int]) -> None:
        for number in numbers:
            count = next(counter)
            with mark(number):
                np.asarray(take(count if planted else tf.constant(count)))

    return OwnLoop(run)


@register_program("retracing")
def make_function_in_loop(planted: bool) -> OwnLoop:
    """A tf.function is made in every step."""
    step, _ = build_step(64)
    batch = make_batch()
    once = tf.function(step.python_function)

    def run(mark: Mark, numbers: Iterable[int]) -> None:
        for number in numbers:
            with mark(number):
                np.asarray((tf.function(lambda x, y: step(x, y)) if planted else once)(*batch))

    return OwnLoop(run)


@register_program("retracing")
def make_eager_then_shapes(planted: bool) -> OwnLoop:
    """An eager operation gives a size that differs from step to step, and a function of it is traced again."""
    weight = tf.Variable(tf.ones((WIDTH, 1)))
    x, _ = make_arrays(16)

    @tf.function(reduce_retracing=False)
    def step(chosen: Any) -> Any:
        loss = tf.reduce_mean(tf.square(chosen @ weight))
        weight.assign_sub(1e-6 * tf.ones_like(weight) * loss)
        return loss

    tensor, count = tf.constant(x), itertools.count(3)

    def choose(chosen: Any) -> Any:
        kept = tf.boolean_mask(tensor, chosen)
        size = kept.shape[0] or tf.shape(kept)[0]  # which a graph does not know
        return step(kept if planted else tf.pad(kept, [[0, len(x) - size], [0, 0]]))

    def repeat_sizes(take: Any) -> OwnLoop:
        def run(mark: Mark, numbers: Iterable[int]) -> None:
            for number in numbers:
                size = next(count) % len(x)
                with mark(number):
                    np.asarray(take(np.arange(len(x)) < size))

        return OwnLoop(run, changes={} if planted else {"eager": lambda: repeat_sizes(tf.function(choose))})

    return repeat_sizes(choose)
