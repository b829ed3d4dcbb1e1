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
        table, probe = values.get(layer.embeddings), values.get_probe(layer.embeddings)
        found = gather_rows(table, words) if probe is None else gather_with_squares(table, probe, words)
        y = tf.cast(found, layer.compute_dtype)
        if layer.mask_zero:
            y._keras_mask = tf.not_equal(words, tf.zeros([], words.dtype))
        return y


def gather_rows(table: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
    """Rows (R, B, ..., O) of each replica's table (R, V, O); negative words count from its end."""
    return tf.gather(table, _count_rows(table, words), axis=1, batch_dims=1)


def gather_with_squares(table: tf.Tensor, probe: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
    """The same; the probe's gradient (R, V, O) is the sum of squares of what each word of a row gives it."""
    rows = _count_rows(table, words)

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def gather(table: tf.Tensor, probe: tf.Tensor) -> Any:
        replicas, count, size = table.shape
        first = tf.range(replicas, dtype=rows.dtype) * count
        places = tf.reshape(rows, [replicas, -1]) + first[:, None]

        def sum_rows(values: tf.Tensor) -> tf.Tensor:
            found = tf.math.unsorted_segment_sum(
                tf.reshape(values, [-1, size]), tf.reshape(places, [-1]), replicas * count
            )
            return tf.reshape(found, table.shape)

        found = tf.gather(table, rows, axis=1, batch_dims=1)
        return found, lambda upstream: (sum_rows(upstream), sum_rows(upstream * upstream))

    return gather(table, probe)


def _count_rows(table: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
    if words.dtype not in (tf.int32, tf.int64):
        words = tf.cast(words, tf.int32)
    return tf.where(words < 0, words + tf.cast(tf.shape(table)[1], words.dtype), words)
