"""Cells of recurrent layers for R copies. Shapes: inputs (R, B, T, I), states (R, B, U)."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import tensorflow as tf
from keras import layers

from tfperf.workloads.keras.stacked.layer import Values
from tfperf.workloads.keras.stacked.recurrence import ReplicaProduct, States, draw_factors


class StackedCell(ABC):
    """A cell with the weights and draws of a batch. The inputs of all steps are multiplied at once, before the loop."""

    drops_all: ClassVar[bool] = False  # a rate of 1 drops everything; else it drops nothing, as in Keras

    def __init__(self, values: Values, cell: Any, x: tf.Tensor, training: bool) -> None:
        self.cell = cell
        self.kernel, self.recurrent = (values.get(v) for v in (cell.kernel, cell.recurrent_kernel))
        self.bias = values.get(cell.bias) if cell.bias is not None else None
        inputs, states = draw_factors(values, cell, x, training)
        self.input_factors = inputs if self._has_argument(cell.dropout) else None
        self.state_factors = states if self._has_argument(cell.recurrent_dropout) else None

    def _has_argument(self, rate: float) -> bool:
        return rate < 1 or self.drops_all

    def project(self, x: tf.Tensor) -> tf.Tensor:
        """What the inputs give at every step (R, B, T, G)."""
        product = ReplicaProduct(self.input_factors)
        found = product.multiply(x, product.take_apart(self.kernel))
        bias = self.get_input_bias()
        return found if bias is None else found + bias[:, None, None]

    def get_input_bias(self) -> tf.Tensor | None:
        """(R, G), None: none is added."""
        return self.bias

    @abstractmethod
    def prepare(self) -> list[tf.Tensor]:
        """The weights that each step is called with, taken apart once for all."""

    @abstractmethod
    def step(self, z: tf.Tensor, states: States, weights: Sequence[tf.Tensor]) -> States:
        """The states after a step, of which the first is what the cell gives; z: (R, B, G)."""


class StackedSimpleCell(StackedCell):
    """One matrix."""

    drops_all = True

    def prepare(self) -> list[tf.Tensor]:
        """One kernel."""
        self.product = ReplicaProduct(self.state_factors)
        return [self.product.take_apart(self.recurrent)]

    def step(self, z: tf.Tensor, states: States, weights: Sequence[tf.Tensor]) -> States:
        """Activation of inputs and state."""
        return [self.cell.activation(z + self.product.multiply(states[0], weights[0]))]


class StackedLongCell(StackedCell):
    """Four gates: input, forget, candidate, output."""

    def prepare(self) -> list[tf.Tensor]:
        """One kernel for all gates."""
        self.product = ReplicaProduct(self.state_factors)
        return [self.product.take_apart(self.recurrent)]

    def step(self, z: tf.Tensor, states: States, weights: Sequence[tf.Tensor]) -> States:
        """The output and the carried state."""
        output, carry = states
        open_gate, activate = self.cell.recurrent_activation, self.cell.activation
        i, f, candidate, o = tf.split(z + self.product.multiply(output, weights[0]), 4, axis=-1)
        carry = open_gate(f) * carry + open_gate(i) * activate(candidate)
        return [open_gate(o) * activate(carry), carry]


class StackedGatedCell(StackedCell):
    """Three gates: update, reset, candidate; the reset comes after or before the candidate's product."""

    def get_input_bias(self) -> tf.Tensor | None:
        """The first of two where the states have a bias as well."""
        return self.bias[:, 0] if self.bias is not None and self.cell.reset_after else self.bias

    def prepare(self) -> list[tf.Tensor]:
        """One kernel for all gates, and a bias if there is one; or a kernel for two gates, one for the candidate."""
        kernel, factors = self.recurrent, self.state_factors
        if self.cell.reset_after:
            self.product = ReplicaProduct(factors)
            return [self.product.take_apart(kernel), *([] if self.bias is None else [self.bias[:, None, 1]])]
        gates = 2 * self.cell.units
        self.product = ReplicaProduct(None if factors is None else factors[:, :2])
        self.candidate = ReplicaProduct(None if factors is None else factors[:, 2:])
        return [self.product.take_apart(kernel[..., :gates]), self.candidate.take_apart(kernel[..., gates:])]

    def step(self, z: tf.Tensor, states: States, weights: Sequence[tf.Tensor]) -> States:
        """The old and the new state, mixed."""
        (old,), (kernel, *rest), open_gate = states, weights, self.cell.recurrent_activation
        given = tf.split(z, 3, axis=-1)
        found = self.product.multiply(old, kernel)
        if self.cell.reset_after:
            for_update, for_reset, inner = tf.split(found + rest[0] if rest else found, 3, axis=-1)
            inner = open_gate(given[1] + for_reset) * inner
        else:
            for_update, for_reset = tf.split(found, 2, axis=-1)
            inner = self.candidate.multiply(open_gate(given[1] + for_reset) * old, rest[0])
        update = open_gate(given[0] + for_update)
        return [update * old + (1 - update) * self.cell.activation(given[2] + inner)]


CELLS: dict[type[layers.Layer], type[StackedCell]] = {
    layers.SimpleRNNCell: StackedSimpleCell, layers.LSTMCell: StackedLongCell, layers.GRUCell: StackedGatedCell,
}  # fmt: skip
