"""A recurrent layer forwards and one backwards."""

from typing import Any

import keras
import tensorflow as tf

from tfperf.workloads.keras.stacked.arguments import bind_arguments, convert_inputs, read_mask, set_mask
from tfperf.workloads.keras.stacked.layer import StackedLayer, Values, find_handlers, register
from tfperf.workloads.keras.stacked.regularizers import add_activity_losses


@register
class StackedBidirectional(StackedLayer[keras.layers.Bidirectional]):
    """Shapes: inputs (R, B, T, I); returns what the two layers give, merged, or both; then the states of both."""

    kinds = (keras.layers.Bidirectional,)

    def __init__(self, layer: keras.layers.Bidirectional) -> None:
        super().__init__(layer)
        self.pair = [find_handlers()[type(one)](one) for one in (layer.forward_layer, layer.backward_layer)]

    @classmethod
    def refuse(cls, layer: keras.layers.Bidirectional) -> str | None:
        """What one of its layers refuses."""
        for one in (layer.forward_layer, layer.backward_layer):
            handler = find_handlers().get(type(one))
            reason = "it has no stacked form" if handler is None else handler.refuse(one)
            if reason:
                return f"within it {type(one).__name__} ({one.name}): {reason}"
        return None

    def call(self, values: Values, *inputs: Any, training: bool, **options: Any) -> Any:
        """Call both, turn round what the second gives, merge."""
        layer = self.layer
        given = bind_arguments(layer, inputs, {**options, "training": training})
        x, mask, states = given["sequences"], keras.tree.flatten(given["mask"])[0], given["initial_state"]
        half = 0 if states is None else len(states) // 2
        parts = (states[:half], states[half:]) if half else (None, None)
        ahead, back = (
            self._call_one(values, one, x, mask, part, training) for one, part in zip(self.pair, parts, strict=True)
        )
        found = [ahead[0], tf.reverse(back[0], [2]) if layer.return_sequences else back[0]]
        merged = _merge(layer.merge_mode, *found)
        passed = (read_mask(x) if mask is None else mask) if layer.return_sequences else None
        for one in merged:
            set_mask(one, passed)
        outputs = (*merged, *ahead[1:], *back[1:])
        return outputs if len(outputs) > 1 else outputs[0]

    def _call_one(
        self, values: Values, handler: StackedLayer[Any], x: tf.Tensor, mask: Any, states: Any, training: bool
    ) -> list[tf.Tensor]:
        """What one of the layers gives, and its states; with the penalty of its own."""
        x, states = convert_inputs(handler.layer, (x, states))
        found = handler.call(values, x, mask=mask, initial_state=states, training=training)
        add_activity_losses(values, handler.layer, found)
        return list(keras.tree.flatten(found))


def _merge(mode: str | None, ahead: tf.Tensor, back: tf.Tensor) -> tuple[tf.Tensor, ...]:
    if mode is None:
        return tf.identity(ahead), tf.identity(back)
    if mode == "concat":
        return (tf.concat([ahead, back], axis=-1),)
    if mode == "mul":
        return (ahead * back,)
    return (ahead + back if mode == "sum" else (ahead + back) / 2,)
