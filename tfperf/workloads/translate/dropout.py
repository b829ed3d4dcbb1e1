"""Dropout whose draws belong to the examples of a global batch, so that they do not depend on who computes them."""

from collections.abc import Sequence

import tensorflow as tf

from tfperf.place.draws import DRAWS, Draws
from tfperf.place.trainable import BatchPosition
from tfperf.workloads.translate.card import TranslationCard


def sample_masks(
    card: TranslationCard, position: BatchPosition, rows: Sequence[tf.Tensor], columns: Sequence[tf.Tensor]
) -> list[tf.Tensor]:
    """What dropout leaves of the inputs of each layer, (B, S, U) and (B, T, U), encoder's first.

    rows: vectors of both sides, (B, S, U) and (B, T, U); columns: of the longest of the global batch, by side.
    """
    draws, rate = Draws(card.seed, position.step, position.first), card.model.dropout
    sides = [0] * card.model.layers + [1] * card.model.layers
    return [sample_mask(draws, rows[side], columns[side], rate, layer) for layer, side in enumerate(sides)]


def sample_mask(draws: Draws, x: tf.Tensor, columns: tf.Tensor, rate: float, layer: int) -> tf.Tensor:
    """Which entries of x (B, T, U) a layer keeps, each with probability 1 - rate; layer: 0 to 63.

    columns (): of the longest example of the global batch, which decides how many draws an example has.
    """
    length = tf.shape(x)[1]
    columns = -(-tf.cast(columns, tf.int64) // DRAWS) * DRAWS  # so that no count is shared by two examples
    return draws.sample_entries([tf.shape(x, tf.int64)[0], columns, x.shape[2]], layer)[:, :length] >= rate


def drop(x: tf.Tensor, mask: tf.Tensor, rate: float) -> tf.Tensor:
    """The entries of x that are kept, scaled so that the mean stays (Srivastava et al. 2014); the others zero."""
    return tf.where(mask, x / (1 - rate), tf.zeros_like(x))
