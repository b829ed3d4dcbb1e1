"""What every engine computes on one device: loss and gradients of its part of a batch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tfperf.scopes import phase
from tfperf.workloads.translate.card import Translation
from tfperf.workloads.translate.dropout import Draws
from tfperf.workloads.translate.translator import Translator, draw_kept, pieces


@dataclass(frozen=True)
class Gradients:
    """Of one device's part: its share of the loss per label, and gradients of it.

    tables: (V, U) dense, or slices of it; weights: dense.
    """

    loss: tf.Tensor
    tables: Sequence[tf.Tensor | tf.IndexedSlices]
    weights: Sequence[tf.Tensor]

    def of(self, index: int) -> tf.Tensor | tf.IndexedSlices:
        """Of a variable, tables first."""
        return [*self.tables, *self.weights][index]


def longest(batches: Sequence[tuple[tf.Tensor, tf.Tensor]]) -> list[tf.Tensor]:
    """Columns that are looked up of source and target, where they are most among the parts of a global batch."""
    with tf.name_scope("columns"):
        sides = zip(*(pieces(source, target) for source, target in batches), strict=True)
        return [tf.reduce_max(tf.stack([tf.shape(ids)[1] for ids in side])) for side in sides]


def drop_out(
    card: Translation, step: tf.Tensor, tower: int, rows: Sequence[tf.Tensor], columns: Sequence[tf.Tensor]
) -> list[tf.Tensor] | None:
    """What dropout leaves in a step on a device, by `draw_kept`; none without dropout.

    Drawn outside of what XLA compiles, whose streams have another order.
    """
    if not card.model.dropout:
        return None
    with phase("forward"), tf.name_scope("dropout"):
        draws = Draws(card.seed, step, tower * rows[0].shape[0])
        return draw_kept(card, draws, rows, columns)


def forward_backward(model: Translator, card: Translation) -> Callable[..., Gradients]:
    """A function of (values, rows, source, target, tokens, kept) that gives a device's gradients."""

    def compute(
        values: Sequence[tf.Tensor], rows: Sequence[tf.Tensor], source: tf.Tensor, target: tf.Tensor, tokens: tf.Tensor,
        kept: Sequence[tf.Tensor] | None,
    ) -> tuple[Any, ...]:  # fmt: skip
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch((values, rows))
            with phase("forward"):
                loss = model.loss(values, rows, source, target, kept) / tokens
        with phase("backward"):
            weights, inner = tape.gradient(loss, (list(values), list(rows)))
            tables = [_flat(g, ids) for g, ids in zip(inner, pieces(source, target), strict=True)]
            if card.engine.embedding_gradients == "dense":
                return loss, [(tf.math.unsorted_segment_sum(g, i, model.rows), i) for g, i in tables], weights
        return loss, tables, weights

    run = tf.function(compute, jit_compile=True, autograph=False) if card.engine.xla else compute

    def gradients(*args: Any) -> Gradients:
        loss, tables, weights = run(*args)
        if card.engine.embedding_gradients == "dense":
            return Gradients(loss, [values for values, _ in tables], weights)
        slices = [tf.IndexedSlices(g, ids, tf.constant([model.rows, g.shape[-1]])) for g, ids in tables]
        return Gradients(loss, slices, weights)

    return gradients


def _flat(gradient: tf.Tensor, ids: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Gradients of rows (B, T, U) and their ids (B, T) as (B T, U) and (B T)."""
    return tf.reshape(gradient, [-1, gradient.shape[-1]]), tf.reshape(ids, [-1])
