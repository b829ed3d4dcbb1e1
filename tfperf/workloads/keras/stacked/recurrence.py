"""Recurrent layers of R copies: products with what dropout leaves, and the loop over T steps. B samples of each."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from tfperf.workloads.keras.stacked.draws import draw_replicas
from tfperf.workloads.keras.stacked.layer import Values

States = list[tf.Tensor]  # (R, B, U) each; the first is what a cell gives
Step = Callable[[tf.Tensor, States], States]


class Product:
    """Times a kernel, after dropout where there are factors, of which each part of the kernel may have its own."""

    def __init__(self, kernel: tf.Tensor, factors: tf.Tensor | None = None) -> None:
        """kernel: (R, I, G); factors: (R, K, B, I), the k-th for the k-th of K equal parts of the G columns."""
        self.factors, self.kernel = factors, kernel
        self.parts = 1 if factors is None else factors.shape[1]
        if self.parts > 1:
            self.kernel = tf.stack(tf.split(kernel, self.parts, axis=-1), axis=1)

    def multiply(self, x: tf.Tensor) -> tf.Tensor:
        """(R, B, I) to (R, B, G), or (R, B, T, I) to (R, B, T, G)."""
        if self.factors is None:
            return _multiply(x, self.kernel, 1)
        if self.parts == 1:
            return _multiply(x * self._match(x)[:, 0], self.kernel, 1)
        found = _multiply(x[:, None] * self._match(x), self.kernel, 2)
        return tf.concat(tf.unstack(found, axis=1), axis=-1)

    def _match(self, x: tf.Tensor) -> tf.Tensor:
        """The factors (R, K, B, 1.., I) that every step has."""
        return self.factors if len(x.shape) == 3 else self.factors[..., None, :]


def _multiply(x: tf.Tensor, kernel: tf.Tensor, first: int) -> tf.Tensor:
    """Batched over the axes before `first`; all others but the last are rows."""
    inner = x.shape[first:-1]
    if len(inner) == 1:
        return tf.matmul(x, kernel)
    found = tf.matmul(tf.reshape(x, [*x.shape[:first], -1, x.shape[-1]]), kernel)
    return tf.reshape(found, [*x.shape[:-1], kernel.shape[-1]])


class Factors(NamedTuple):
    """What a batch's inputs (R, K, B, I) and states (R, K, B, U) are multiplied by; None: nothing is dropped."""

    inputs: tf.Tensor | None
    states: tf.Tensor | None


def draw_factors(values: Values, cell: Any, x: tf.Tensor, training: bool) -> Factors:
    """Draw what a cell drops, once for all steps of a batch x (R, B, T, I); also where nothing is dropped.

    Keras' recurrent layers draw without training as well, so the states of their seeds go on.
    """
    rates, count = (cell.dropout, cell.recurrent_dropout), getattr(cell, "dropout_mask_count", None) or 1
    drawn = [rate for rate in rates if rate > 0]
    if not drawn:
        return Factors(None, None)
    shapes = [[x.shape[1], size] if training else [] for size in (x.shape[-1], cell.units)]

    def draw() -> list[tf.Tensor]:
        return [
            tf.stack([
                keras.random.dropout(tf.ones(shape, x.dtype), rate, seed=cell.seed_generator) for _ in range(count)
            ])
            for rate, shape in zip(rates, shapes, strict=True)
            if rate > 0
        ]  # fmt: skip

    found = iter(draw_replicas(values, cell.seed_generator, draw))
    inputs, states = (next(found) if rate > 0 else None for rate in rates)
    return Factors(inputs, states) if training else Factors(None, None)


def run_steps(
    step: Step, inputs: tf.Tensor, states: States, kept: tf.Tensor | None, gather: bool, unroll: bool
) -> tuple[tf.Tensor | None, States]:
    """Go through T steps of inputs (T, R, B, G): what was given after each (T, R, B, U), if wanted; the last states.

    kept: (T, R, B, 1), False where a sample's states stay as they are.
    """
    run = _unroll if unroll else _loop
    return run(lambda one, keep, old: _advance(step, one, keep, old), inputs, states, kept, gather)


def _advance(step: Step, one: tf.Tensor, keep: tf.Tensor | None, states: States) -> States:
    found = step(one, states)
    if keep is None:
        return found
    return [tf.where(keep, new, old) for new, old in zip(found, states, strict=True)]


def _unroll(
    advance: Callable[..., States], inputs: tf.Tensor, states: States, kept: tf.Tensor | None, gather: bool
) -> tuple[tf.Tensor | None, States]:
    given, length = [], inputs.shape[0]
    keeps: Sequence[tf.Tensor | None] = [None] * length if kept is None else tf.unstack(kept)
    for one, keep in zip(tf.unstack(inputs), keeps, strict=True):
        states = advance(one, keep, states)
        given.append(states[0])
    return (tf.stack(given) if gather else None), states


def _loop(
    advance: Callable[..., States], inputs: tf.Tensor, states: States, kept: tf.Tensor | None, gather: bool
) -> tuple[tf.Tensor | None, States]:
    """As a loop in the graph. Its length is given as a most, without which XLA has no gradients."""
    length = tf.shape(inputs)[0] if inputs.shape[0] is None else inputs.shape[0]

    def hold(tensor: tf.Tensor) -> tf.TensorArray:
        return tf.TensorArray(tensor.dtype, length, element_shape=tensor.shape[1:]).unstack(tensor)

    ones, keeps = hold(inputs), None if kept is None else hold(kept)
    given = [tf.TensorArray(states[0].dtype, length, element_shape=states[0].shape)] if gather else []

    def body(t: tf.Tensor, given: list[tf.TensorArray], states: States) -> Any:
        found = advance(ones.read(t), None if keeps is None else keeps.read(t), states)
        return t + 1, [array.write(t, found[0]) for array in given], found

    start = (tf.constant(0), given, states)
    _, given, states = tf.while_loop(lambda t, *_: t < length, body, start, maximum_iterations=length)
    return (given[0].stack() if gather else None), states
