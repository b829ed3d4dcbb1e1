"""Attention with heads: projections as one batched product; the replicas are folded into the batch in between."""

from typing import Any

import numpy as np
import tensorflow as tf
from keras import layers

from tfperf.workloads.keras.stacked.arguments import bind_arguments, is_shared, read_mask, set_mask
from tfperf.workloads.keras.stacked.layer import StackedLayer, Values, register
from tfperf.workloads.keras.stacked.layers.dropout import StackedDropout
from tfperf.workloads.keras.stacked.regularizers import add_activity_losses
from tfperf.workloads.keras.stacked.replicas import fold, unfold

MASKS = "query_mask", "value_mask", "key_mask", "attention_mask"


class _StackedHeads(StackedLayer[Any]):
    """Shapes: query (R, B, Q, D), value (R, B, V, E), key (R, B, V, F); returns (R, B, Q, O)."""

    @classmethod
    def refuse(cls, layer: Any) -> str | None:
        """LoRA and quantized projections are not stacked."""
        for one in (layer._query_dense, layer._key_dense, layer._value_dense, layer._output_dense):
            if one.lora_enabled:
                return "it has LoRA"
            if one.quantization_mode is not None:
                return "it is quantized"
        return None

    def call(self, values: Values, *inputs: Any, training: bool, **options: Any) -> Any:
        """What the heads give, projected; (R, B, N, Q, V) scores if asked for."""
        layer = self.layer
        given = bind_arguments(layer, inputs, {**options, "training": training})
        query, value = given["query"], given["value"]
        key = value if given["key"] is None else given["key"]
        passed = read_mask(query)
        self.take_masks(given, (query, value, key))
        some = self._make_options(given, query, value, values.replicas)
        projected = [
            fold(_project(values, dense, one, 1))
            for dense, one in zip(
                (layer._query_dense, layer._key_dense, layer._value_dense), (query, key, value), strict=True
            )
        ]  # fmt: skip
        q, k, v = self.repeat_heads(*projected)
        heads, scores = self._attend(values, q, k, v, some, training)
        output = unfold(heads, values.replicas)
        if getattr(layer, "use_gate", getattr(layer, "_use_gate", False)):
            output *= _project(values, layer._gate_dense, query, 1)
        output = set_mask(_project(values, layer._output_dense, output, 2), passed)
        return (output, unfold(scores, values.replicas)) if given["return_attention_scores"] else output

    def take_masks(self, given: dict[str, Any], tensors: tuple[tf.Tensor, ...]) -> None:
        """Settle which masks the call has, among its arguments by name."""

    def repeat_heads(self, *projected: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Query, key and value (R B, ..., N, H), with as many heads each."""
        return projected

    def set_scores(self, wanted: bool) -> dict[str, bool]:
        """Let the template give scores or not; what its attention is called with for that."""
        raise NotImplementedError

    def _make_options(self, given: dict[str, Any], query: tf.Tensor, value: tf.Tensor, replicas: int) -> dict[str, Any]:
        """What the template's attention is called with, of masks (R, B, ...); a causal one alone is its own affair."""
        layer, is_causal = self.layer, given["use_causal_mask"]
        options: dict[str, Any] = self.set_scores(given["return_attention_scores"])
        window = getattr(layer, "sliding_window", getattr(layer, "_sliding_window", None))
        if is_causal and window is None and all(given[name] is None for name in MASKS):
            return {**options, "attention_mask": None, "use_causal_mask": True}
        masks = {name: _fold_mask(given[name], replicas) for name in MASKS}
        mask = layer._compute_attention_mask(fold(query), fold(value), use_causal_mask=is_causal, **masks)
        return {**options, "attention_mask": mask}

    def _attend(
        self, values: Values, query: tf.Tensor, key: tf.Tensor, value: tf.Tensor, options: Any, training: bool
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """What the heads give (R B, ..., N, H), and scores (R B, N, ...); each replica drops by its own draws."""
        layer = self.layer
        output, scores = layer._compute_attention(query, key, value, training=False, **options)
        if training and layer.dropout > 0:
            apart = StackedDropout(layer._dropout_layer).call(values, unfold(scores, values.replicas), training=True)
            output = tf.einsum(layer._combine_equation, fold(apart), value)
        return output, scores


@register
class StackedMultiHeadAttention(_StackedHeads):
    """As many heads of keys and values as of queries."""

    kinds = (layers.MultiHeadAttention,)

    def take_masks(self, given: dict[str, Any], tensors: tuple[tf.Tensor, ...]) -> None:
        """The query's own mask is taken whatever is given; no tensor keeps its mask, as in Keras."""
        given["query_mask"] = read_mask(tensors[0])
        for one in tensors:
            one._keras_mask = None

    def set_scores(self, wanted: bool) -> dict[str, bool]:
        """By its argument."""
        return {"return_attention_scores": wanted}


@register
class StackedGroupedQueryAttention(_StackedHeads):
    """Groups of queries share keys and values."""

    kinds = (layers.GroupQueryAttention,)

    def repeat_heads(self, *projected: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """The keys and values of a group once for each of its queries."""
        query, *rest = projected
        return (query, *(tf.repeat(one, self.layer.num_repeats, axis=2) for one in rest))

    def set_scores(self, wanted: bool) -> dict[str, bool]:
        """By its attribute, which its call sets as well."""
        self.layer._return_attention_scores = wanted
        return {}


def _project(values: Values, dense: Any, x: tf.Tensor, bound: int) -> tf.Tensor:
    """What an einsum layer gives (R, B, ..., O...) whose kernel is (R, I..., O...); bound: how many axes I has."""
    kernel = values.get(dense.kernel)
    outer = kernel.shape[1 + bound :]
    rows = tf.reshape(x, [values.replicas, -1, np.prod(kernel.shape[1 : 1 + bound], dtype=int)])
    y = tf.matmul(rows, tf.reshape(kernel, [values.replicas, rows.shape[-1], -1]))
    if dense.bias is not None:
        y += tf.reshape(values.get(dense.bias), [values.replicas, 1, -1])
    y = tf.reshape(y, [*x.shape[: len(x.shape) - bound], *outer])
    y = y if dense.activation is None else dense.activation(y)
    add_activity_losses(values, dense, y)
    return y


def _fold_mask(mask: Any, replicas: int) -> Any:
    """(R, B, ...) as (R B, ...); a constant of the graph, which all replicas share, once for each."""
    if mask is None:
        return None
    if not is_shared(mask):
        return fold(mask)
    mask = tf.convert_to_tensor(mask)
    return mask if mask.ndim < 3 or mask.shape[0] == 1 else tf.tile(mask, [replicas, *[1] * (mask.ndim - 1)])
