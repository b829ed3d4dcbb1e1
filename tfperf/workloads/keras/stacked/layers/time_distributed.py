"""A layer at each of T steps: at all at once where that is the same, else one by one, as Keras has it."""

from typing import Any

import keras
import tensorflow as tf

from tfperf.workloads.keras.stacked.arguments import bind_arguments, convert_inputs, read_mask, set_mask
from tfperf.workloads.keras.stacked.layer import StackedLayer, Values, find_handlers, register
from tfperf.workloads.keras.stacked.layers.activation import refuse_activation
from tfperf.workloads.keras.stacked.network import StackedNetwork, list_reasons


@register
class StackedTimeDistributed(StackedLayer[keras.layers.TimeDistributed]):
    """Shapes: inputs (R, B, T, ...) to (R, B, T, ...)."""

    kinds = (keras.layers.TimeDistributed,)

    def __init__(self, layer: keras.layers.TimeDistributed) -> None:
        super().__init__(layer)
        inner = layer.layer
        self.inner: Any = (
            StackedNetwork(inner) if isinstance(inner, keras.Model) else find_handlers()[type(inner)](inner)
        )
        # penalties of layers within are divided by the samples of a step
        within = inner._flatten_layers(include_self=False)
        self.at_once = all(one.activity_regularizer is None for one in within) and not any(
            one._non_trainable_variables or _needs_draws(one) for one in inner._flatten_layers()
        )

    @classmethod
    def refuse(cls, layer: keras.layers.TimeDistributed) -> str | None:
        """What its layer refuses."""
        inner = layer.layer
        if isinstance(inner, keras.Model):
            reason: str | None = "; ".join(list_reasons(inner))
        else:
            handler = find_handlers().get(type(inner))
            own = getattr(inner, "activation", None)
            reason = "it has no stacked form" if handler is None else handler.refuse(inner) or refuse_activation(own)
        return f"within it {type(inner).__name__} ({inner.name}): {reason}" if reason else None

    def call(self, values: Values, *inputs: Any, training: bool, **options: Any) -> tf.Tensor:
        """What the layer gives at each step, with the input's mask."""
        given = bind_arguments(self.layer, inputs, {**options, "training": training})
        x, mask = given["inputs"], given["mask"]
        call = self._call_at_once if self.at_once else self._call_steps
        return set_mask(call(values, x, mask, training), read_mask(x) if mask is None else mask)

    def _call_at_once(self, values: Values, x: tf.Tensor, mask: Any, training: bool) -> tf.Tensor:
        """With the steps as samples."""
        replicas, batch, length = x.shape[:3]
        y = self._call_inner(values, _join_steps(x), None if mask is None else _join_steps(mask), training)
        return tf.reshape(y, [replicas, batch, length, *y.shape[2:]])

    def _call_steps(self, values: Values, x: tf.Tensor, mask: Any, training: bool) -> tf.Tensor:
        masks = [None] * x.shape[2] if mask is None else tf.unstack(mask, axis=2)
        found = [
            self._call_inner(values, one, own, training)
            for one, own in zip(tf.unstack(x, axis=2), masks, strict=True)
        ]  # fmt: skip
        return tf.stack(found, axis=2)

    def _call_inner(self, values: Values, x: tf.Tensor, mask: Any, training: bool) -> tf.Tensor:
        """With (R, B, ...), with the mask where the layer takes one."""
        if self.layer.layer._call_has_mask_arg:
            set_mask(x, mask)
        if isinstance(self.inner, StackedNetwork):
            return self.inner.call(values, x, training)
        return self.inner.call(values, convert_inputs(self.layer.layer, x), training=training)


def _needs_draws(layer: Any) -> bool:
    """Whether its seed goes on from step to step; cells of recurrent layers have one in any case."""
    rates = getattr(layer, "dropout", 1), getattr(layer, "recurrent_dropout", 0)
    return bool(layer._seed_generators) and any(rates)


def _join_steps(tensor: tf.Tensor) -> tf.Tensor:
    """(R, B, T, ...) as (R, B T, ...)."""
    replicas, batch, length = tensor.shape[:3]
    return tf.reshape(tensor, [replicas, batch * length, *tensor.shape[3:]])
