"""Recurrent layers: the inputs of all steps as one batched product, then a loop over the steps with one a step."""

from typing import Any

import keras
import tensorflow as tf
from keras import layers

from tfperf.workloads.keras.stacked.arguments import bind_arguments, read_mask, set_mask
from tfperf.workloads.keras.stacked.layer import StackedLayer, Values, register
from tfperf.workloads.keras.stacked.layers.activation import refuse_activation
from tfperf.workloads.keras.stacked.layers.recurrent_cells import CELLS
from tfperf.workloads.keras.stacked.recurrence import States, run_steps


@register
class StackedRecurrent(StackedLayer[layers.RNN]):
    """Shapes: inputs (R, B, T, I); returns (R, B, U) or (R, B, T, U), and the last states (R, B, U) if asked for."""

    kinds = (layers.RNN, layers.SimpleRNN, layers.LSTM, layers.GRU)

    @classmethod
    def refuse(cls, layer: layers.RNN) -> str | None:
        """States kept between batches, and cells other than Keras' own."""
        if layer.stateful:
            return "it is stateful"
        if isinstance(layer.cell, layers.StackedRNNCells) and layer.return_state:
            return "it returns the states of several cells"
        return next(filter(None, (_refuse_cell(layer, cell) for cell in list_cells(layer))), None)

    def call(self, values: Values, *inputs: Any, training: bool, **options: Any) -> Any:
        """Go through all steps. Where a mask is False the states stay, and the output is the last one, or 0."""
        layer = self.layer
        given = bind_arguments(layer, inputs, {**options, "training": training})
        x, mask, cells = given["sequences"], keras.tree.flatten(given["mask"])[0], list_cells(layer)
        states = _list_states(given["initial_state"])
        for cell in cells:
            is_last, is_first = cell is cells[-1], cell is cells[0]
            own = [states.pop(0) for _ in keras.tree.flatten(cell.state_size)] if states else []
            x, after = self._run_cell(values, cell, x, own, mask, is_first, is_last, training)
        passed = read_mask(given["sequences"]) if mask is None else mask
        output = set_mask(x, passed if layer.return_sequences else None)
        return (output, *after) if layer.return_state else output

    def _run_cell(
        self, values: Values, cell: Any, x: tf.Tensor, states: States, mask: tf.Tensor | None, is_first: bool,
        is_last: bool, training: bool,
    ) -> tuple[tf.Tensor, States]:  # fmt: skip
        """What a cell gives, at the last step or, where another cell follows, at each; its states."""
        layer, gather = self.layer, self.layer.return_sequences or not is_last
        x = tf.cast(x, cell.compute_dtype)
        own = CELLS[type(cell)](values, cell, x, training)
        inputs = tf.transpose(own.project(x), [2, 0, 1, 3])
        kept = None if mask is None else tf.transpose(tf.cast(mask, tf.bool), [2, 0, 1])[..., None]
        if layer.go_backwards:
            kept = None if kept is None else tf.reverse(kept, [0])
            inputs = tf.reverse(inputs, [0]) if is_first else inputs
        zeros = tf.zeros([*x.shape[:2], cell.units], x.dtype)
        states = [tf.cast(one, x.dtype) for one in states] or [zeros for _ in keras.tree.flatten(cell.state_size)]
        found = run_steps(own.step, own.prepare(), inputs, states, kept, layer.unroll)
        after, output = [one[-1] for one in found], found[0] if gather else found[0][-1]
        if kept is not None:
            output = _hide(layer, output, kept)
        return (tf.transpose(output, [1, 2, 0, 3]) if gather else output), after


def list_cells(layer: layers.RNN) -> list[Any]:
    """The cells of a recurrent layer, in the order in which inputs go through them."""
    cell = layer.cell
    return list(cell.cells) if isinstance(cell, layers.StackedRNNCells) else [cell]


def _refuse_cell(layer: layers.RNN, cell: Any) -> str | None:
    if type(cell) not in CELLS:
        return f"its cell {type(cell).__name__} has no stacked form"
    if {cell.compute_dtype, cell.variable_dtype} != {layer.compute_dtype}:
        return f"its cell computes in {cell.compute_dtype}, it in {layer.compute_dtype}"
    named = (getattr(cell, name, None) for name in ("activation", "recurrent_activation"))
    return next(filter(None, map(refuse_activation, named)), None)


def _list_states(given: Any) -> States:
    """(R, B, U) of all cells, in their order; none: they begin at 0."""
    return [] if given is None else keras.tree.flatten(given)


def _hide(layer: layers.RNN, output: tf.Tensor, kept: tf.Tensor) -> tf.Tensor:
    """Outputs after each step (T, R, B, U) or the last one (R, B, U): 0 before the first step that is kept.

    Where the layer asks for it also at every other one that is not.
    """
    every = len(output.shape) == 4
    visible = tf.cumsum(tf.cast(kept, tf.int32)) > 0 if every else tf.reduce_any(kept, 0)
    if layer.zero_output_for_mask:
        # unrolled Keras takes the mask in the order of the inputs, though the outputs are in that of the steps
        is_turned = every and layer.unroll and layer.go_backwards
        visible &= tf.reverse(kept, [0]) if is_turned else kept if every else kept[-1]
    return tf.where(visible, output, tf.zeros_like(output))
