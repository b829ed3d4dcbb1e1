"""Embeddings that also give the words' scores: the same table, or one of their own. V words, O numbers each."""

from typing import Any

import keras
import tensorflow as tf

from tfperf.workloads.keras.stacked.layer import Values, register
from tfperf.workloads.keras.stacked.layers.embedding import StackedEmbedding


@register
class StackedReversibleEmbedding(StackedEmbedding):
    """Shapes: words (R, B, ...) to (R, B, ..., O); in reverse (R, B, ..., O) to (R, B, ..., V)."""

    kinds = (keras.layers.ReversibleEmbedding,)

    def call(
        self, values: Values, *inputs: Any, training: bool, reverse: bool = False, **options: Any
    ) -> tf.Tensor:  # fmt: skip
        """The rows of the words, or the words' scores."""
        layer: Any = self.layer
        if not reverse:
            return super().call(values, *inputs, training=training, **options)
        (x,) = inputs
        table = values.get(layer.embeddings if layer.tie_weights else layer.reverse_embeddings)
        if layer.reverse_dtype is not None:
            x, table = tf.cast(x, layer.reverse_dtype), tf.cast(table, layer.reverse_dtype)
        flat = tf.reshape(x, [values.replicas, -1, x.shape[-1]])
        scores = tf.matmul(flat, table, transpose_b=layer.tie_weights)
        scores = tf.reshape(scores, [*(-1 if n is None else n for n in x.shape[:-1]), scores.shape[-1]])
        if (limit := layer.logit_soft_cap) is not None:
            scores = tf.tanh(scores / limit) * limit
        return scores
