"""Attention without heads: of queries (R, B, Q, D) over values (R, B, V, E) by their keys (R, B, V, D)."""

from typing import Any

import keras
import tensorflow as tf
from keras import layers
from keras.src.ops.core import ConvertToTensor

from tfperf.workloads.keras.stacked.arguments import bind_arguments, set_mask
from tfperf.workloads.keras.stacked.draws import draw_replicas
from tfperf.workloads.keras.stacked.layer import StackedLayer, Values, register
from tfperf.workloads.keras.stacked.replicas import fold, unfold


class _StackedScores(StackedLayer[layers.Attention]):
    """Scores differ by kind; what is made of them does not."""

    def score(self, values: Values, query: tf.Tensor, key: tf.Tensor) -> tf.Tensor:
        """(R, B, Q, V)."""
        raise NotImplementedError

    def call(self, values: Values, *inputs: Any, training: bool, **options: Any) -> Any:
        """Values weighted by scores (R, B, Q, E); the weights (R, B, Q, V) if asked for."""
        layer = self.layer
        given = bind_arguments(layer, inputs, {**options, "training": training})
        query, value, *rest = given["inputs"]
        masks = given["mask"] or [None, None]
        scores = self.score(values, query, rest[0] if rest else value)
        flat, folded = fold(scores), None if masks[1] is None else fold(masks[1])
        mask = layer._calculate_score_mask(flat, folded, given["use_causal_mask"])
        output, weights = layer._apply_scores(flat, fold(value), mask, training=False)
        output, weights = (unfold(one, values.replicas) for one in (output, weights))
        if training and layer.dropout > 0:
            weights = self._drop(values, weights)
            output = tf.matmul(weights, value)
        if masks[0] is not None:
            output = tf.where(masks[0][..., None], output, tf.zeros_like(output))
        set_mask(output, masks[0])
        return (output, weights) if given["return_attention_scores"] else output

    def _drop(self, values: Values, weights: tf.Tensor) -> tf.Tensor:
        layer, ones = self.layer, tf.ones(weights.shape[1:], weights.dtype)
        seed = layer.seed_generator
        return weights * draw_replicas(values, seed, lambda: keras.random.dropout(ones, layer.dropout, seed=seed))


@register
class StackedAttention(_StackedScores):
    """Scores are products, or sums of tanh of sums."""

    kinds = (layers.Attention,)

    def score(self, values: Values, query: tf.Tensor, key: tf.Tensor) -> tf.Tensor:
        """(R, B, Q, V); each replica has its own scale."""
        layer, wide = self.layer, len(query.shape)
        scale = None if layer.scale is None else _widen(values.get(layer.scale), wide)
        if layer.score_mode == "dot":
            scores = tf.matmul(query, key, transpose_b=True)
            return scores if scale is None else scores * scale
        sums = query[..., :, None, :] + key[..., None, :, :]
        sums = sums if scale is None else scale[..., None] * sums
        return _widen(values.get(layer.concat_score_weight), wide) * tf.reduce_sum(tf.tanh(sums), -1)


@register
class StackedAdditiveAttention(_StackedScores):
    """Scores are weighted sums of tanh of sums."""

    kinds = (layers.AdditiveAttention,)

    def score(self, values: Values, query: tf.Tensor, key: tf.Tensor) -> tf.Tensor:
        """(R, B, Q, V); each replica has its own weights (R, D)."""
        sums = tf.tanh(query[..., :, None, :] + key[..., None, :, :])
        if self.layer.scale is not None:
            scale = values.get(self.layer.scale)
            sums *= tf.reshape(scale, [scale.shape[0], *[1] * (len(sums.shape) - 2), scale.shape[1]])
        return tf.reduce_sum(sums, -1)


@register
class StackedConversion(StackedLayer[Any]):
    """What Keras puts into a graph where attention passes on a mask: a tensor, as a tensor."""

    kinds = (ConvertToTensor,)

    def call(self, values: Values, *inputs: Any, training: bool, **options: Any) -> tf.Tensor:
        """The same, in the wanted type."""
        return self.layer.call(*inputs)


def _widen(scale: tf.Tensor, rank: int) -> tf.Tensor:
    """(R) as (R, 1, ...)."""
    return tf.reshape(scale, [-1, *[1] * (rank - 1)])
