"""Embeddings: rows of each replica's own table. V words, O numbers each."""

from typing import Any

import keras
import tensorflow as tf

from tfperf.workloads.keras.stacked.layer import StackedLayer, Values, register


@register
class StackedEmbedding(StackedLayer[keras.layers.Embedding]):
    """Shapes: words (R, B, ...); table (R, V, O); returns (R, B, ..., O)."""

    kinds = (keras.layers.Embedding,)

    @classmethod
    def refuse(cls, layer: Any) -> str | None:
        """LoRA and quantized tables are not stacked."""
        if layer.lora_enabled:
            return "it has LoRA"
        return "it is quantized" if layer.quantization_mode is not None else None

    def call(self, values: Values, *inputs: Any, training: bool, **options: Any) -> tf.Tensor:
        """The rows of the words; with mask_zero, word 0 is masked."""
        (words,), layer = inputs, self.layer
        y = tf.cast(gather_rows(values.get(layer.embeddings), words), layer.compute_dtype)
        if layer.mask_zero:
            y._keras_mask = tf.not_equal(words, tf.zeros([], words.dtype))
        return y


def gather_rows(table: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
    """Rows (R, B, ..., O) of each replica's table (R, V, O); negative words count from its end."""
    if words.dtype not in (tf.int32, tf.int64):
        words = tf.cast(words, tf.int32)
    rows = tf.where(words < 0, words + tf.cast(tf.shape(table)[1], words.dtype), words)
    return tf.gather(table, rows, axis=1, batch_dims=1)
