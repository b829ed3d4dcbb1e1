"""Recurrent layers of R copies: products with what dropout leaves, and the loop over T steps. B samples of each."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from tfperf.workloads.keras.stacked.draws import draw_replicas
from tfperf.workloads.keras.stacked.layer import Values

States = list[tf.Tensor]  # (R, B, U) each; the first is what a cell gives
Step = Callable[[tf.Tensor, States, Sequence[tf.Tensor]], States]  # of an input (R, B, G), states, the cell's weights
Advance = Callable[[tf.Tensor, tf.Tensor | None, States, Sequence[tf.Tensor]], States]  # the second: who moves on


class ReplicaProduct:
    """Times a kernel, after dropout where there are factors, of which each part of the kernel may have its own."""

    def __init__(self, factors: tf.Tensor | None = None) -> None:
        """factors: (R, K, B, I), the k-th for the k-th of K equal parts of the columns."""
        self.factors, self.parts = factors, 1 if factors is None else factors.shape[1]

    def take_apart(self, kernel: tf.Tensor) -> tf.Tensor:
        """A kernel (R, I, G) as it is multiplied with: (R, K, I, G / K) where there are parts."""
        return kernel if self.parts == 1 else tf.stack(tf.split(kernel, self.parts, axis=-1), axis=1)

    def multiply(self, x: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
        """(R, B, I) to (R, B, G), or (R, B, T, I) to (R, B, T, G); the kernel is taken apart."""
        if self.factors is None:
            return _multiply(x, kernel, 1)
        factors = self.factors if len(x.shape) == 3 else self.factors[..., None, :]  # all steps have the same
        if self.parts == 1:
            return _multiply(x * factors[:, 0], kernel, 1)
        return tf.concat(tf.unstack(_multiply(x[:, None] * factors, kernel, 2), axis=1), axis=-1)


def _multiply(x: tf.Tensor, kernel: tf.Tensor, first: int) -> tf.Tensor:
    """Batched over the axes before `first`; all others but the last are rows."""
    if len(x.shape) == first + 2:
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
    step: Step, weights: Sequence[tf.Tensor], inputs: tf.Tensor, states: States, kept: tf.Tensor | None, unroll: bool
) -> list[tf.Tensor]:
    """The states after each of T steps of inputs (T, R, B, G): (T, R, B, U) each.

    kept: (T, R, B, 1), False where a sample's states stay as they are.
    """

    def advance(one: tf.Tensor, keep: tf.Tensor | None, old: States, weights: Sequence[tf.Tensor]) -> States:
        found = step(one, old, weights)
        if keep is None:
            return found
        return [tf.where(keep, new, before) for new, before in zip(found, old, strict=True)]

    if unroll:
        return _unroll(advance, weights, inputs, states, kept)
    return _loop_with_gradient(advance, weights, inputs, states, kept)


def _unroll(
    advance: Advance, weights: Sequence[tf.Tensor], inputs: tf.Tensor, states: States, kept: tf.Tensor | None
) -> list[tf.Tensor]:
    found, length = [], inputs.shape[0]
    keeps: Sequence[tf.Tensor | None] = [None] * length if kept is None else tf.unstack(kept)
    for one, keep in zip(tf.unstack(inputs), keeps, strict=True):
        states = advance(one, keep, states, weights)
        found.append(states)
    return [tf.stack(each) for each in zip(*found, strict=True)]


def _loop_with_gradient(
    advance: Advance, weights: Sequence[tf.Tensor], inputs: tf.Tensor, states: States, kept: tf.Tensor | None
) -> list[tf.Tensor]:
    """As a loop in the graph, and as one for the gradient, which takes each step again from the states before it.

    A loop's own gradient keeps lists of tensors, which under XLA cannot leave a branch of the graph.
    """
    count = len(states)

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def run(inputs: tf.Tensor, *rest: tf.Tensor) -> Any:
        states, weights = [*rest[:count]], rest[count:]
        found = _loop(lambda one, keep, old: advance(one, keep, old, weights), inputs, states, kept)

        def find_gradient(*upstream: tf.Tensor) -> list[tf.Tensor]:
            before = [tf.concat([first[None], each[:-1]], 0) for first, each in zip(states, found, strict=True)]
            return _loop_back(advance, weights, inputs, before, kept, upstream)

        return found, find_gradient

    return list(run(inputs, *states, *weights))


def _loop(advance: Callable[..., States], inputs: tf.Tensor, states: States, kept: tf.Tensor | None) -> list[tf.Tensor]:
    """The states after each step. The length is given as a most too, which XLA asks for."""
    length = inputs.shape[0]
    ones, keeps = _keep_masked(inputs), None if kept is None else _keep_masked(kept)
    found = [tf.TensorArray(one.dtype, length, element_shape=one.shape) for one in states]

    def body(t: tf.Tensor, found: list[tf.TensorArray], states: States) -> Any:
        after = advance(ones.read(t), None if keeps is None else keeps.read(t), states)
        return t + 1, [array.write(t, one) for array, one in zip(found, after, strict=True)], after

    _, found, _ = tf.while_loop(
        lambda t, *_: t < length, body, (tf.constant(0), found, states), maximum_iterations=length
    )
    return [array.stack() for array in found]


def _loop_back(
    advance: Advance, weights: Sequence[tf.Tensor], inputs: tf.Tensor, before: list[tf.Tensor],
    kept: tf.Tensor | None, upstream: Sequence[tf.Tensor],
) -> list[tf.Tensor]:  # fmt: skip
    """Gradients by inputs, first states and weights, of those by the states after each step."""
    length, count = inputs.shape[0], len(before)
    ones, keeps = _keep_masked(inputs), None if kept is None else _keep_masked(kept)
    olds, given = [_keep_masked(one) for one in before], [_keep_masked(one) for one in upstream]
    found = tf.TensorArray(inputs.dtype, length, element_shape=inputs.shape[1:])

    def body(i: tf.Tensor, found: tf.TensorArray, later: States, sums: list[tf.Tensor]) -> Any:
        t = length - 1 - i
        one, old = ones.read(t), [array.read(t) for array in olds]
        with tf.GradientTape() as tape:
            tape.watch([one, old, weights])
            after = advance(one, None if keeps is None else keeps.read(t), old, weights)
        wanted = [array.read(t) + own for array, own in zip(given, later, strict=True)]
        by_one, *rest = tape.gradient(after, [one, *old, *weights], wanted, tf.UnconnectedGradients.ZERO)
        sums = [total + own for total, own in zip(sums, rest[count:], strict=True)]
        return i + 1, found.write(t, by_one), rest[:count], sums

    start = (tf.constant(0), found, [tf.zeros_like(one[0]) for one in before], [tf.zeros_like(one) for one in weights])
    _, found, first, sums = tf.while_loop(lambda i, *_: i < length, body, start, maximum_iterations=length)
    return [found.stack(), *first, *sums]


def _keep_masked(tensor: tf.Tensor) -> tf.TensorArray:
    """The tensor's parts by its first axis."""
    return tf.TensorArray(tensor.dtype, tensor.shape[0], element_shape=tensor.shape[1:]).unstack(tensor)
