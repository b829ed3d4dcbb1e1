"""Keras optimizers whose slots and updates run where a placement says."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import keras
import tensorflow as tf

from tfperf.runcard.translation import Descent


@contextmanager
def made_on(device: str) -> Iterator[None]:
    """Variables made inside lie on a device, whatever else says where."""

    def create(next_creator: Any, **kwargs: Any) -> tf.Variable:
        with tf.device(device):
            return next_creator(**kwargs)

    with tf.variable_creator_scope(create):
        yield


class Placed:
    """Mixed into a Keras optimizer: device of slots and updates by `id` of the variable."""

    slot_device: Mapping[int, str]
    update_device: Mapping[int, str]
    slots: list[tuple[keras.Variable, str]]  # with the device that each was to be on

    def add_variable_from_reference(self, reference_variable: keras.Variable, *args: Any, **kwargs: Any) -> Any:
        """A slot of a variable."""
        device = self.slot_device[id(reference_variable)]
        with made_on(device):
            slot = super().add_variable_from_reference(reference_variable, *args, **kwargs)  # type: ignore[misc]
        self.slots.append((slot, device))
        return slot

    def _backend_update_step(
        self, grads: Sequence[tf.Tensor], trainable_variables: Sequence[keras.Variable], learning_rate: tf.Tensor
    ) -> None:
        for i, (gradient, variable) in enumerate(zip(grads, trainable_variables, strict=True)):
            with tf.name_scope(f"variable_{i}"), tf.device(self.update_device[id(variable)]):
                self.update_step(gradient, variable, learning_rate)  # type: ignore[attr-defined]

    def assign(self, variable: Any, value: Any) -> None:
        """Assignments run where the variable is."""
        with _at(variable):
            super().assign(variable, value)  # type: ignore[misc]

    def assign_add(self, variable: Any, value: Any) -> None:
        """The same, added."""
        with _at(variable):
            super().assign_add(variable, value)  # type: ignore[misc]

    def assign_sub(self, variable: Any, value: Any) -> None:
        """The same, subtracted."""
        with _at(variable):
            super().assign_sub(variable, value)  # type: ignore[misc]


def _at(variable: Any) -> Any:
    return tf.device(getattr(variable, "value", variable).device)


def optimizer_class(card: Descent) -> type[keras.optimizers.Optimizer]:
    """The Keras class of a card's optimizer."""
    found: type[keras.optimizers.Optimizer] = getattr(keras.optimizers, card.name)
    return found


def arguments(card: Descent) -> dict[str, Any]:
    """Its arguments; clipping is left to `clip`, since it comes after the gradients of all devices are summed."""
    momentum = {"momentum": card.momentum} if card.momentum else {}
    return {"learning_rate": card.learning_rate, "name": "optimizer", **momentum}


def placed_optimizer(
    card: Descent, variables: Sequence[keras.Variable], slots: Sequence[str], updates: Sequence[str], host: str
) -> keras.optimizers.Optimizer:
    """The card's optimizer for variables, with the device of the slots and of the update of each."""
    base = optimizer_class(card)
    keys = [id(variable) for variable in variables]
    places = {
        "slot_device": dict(zip(keys, slots, strict=True)), "update_device": dict(zip(keys, updates, strict=True)),
        "slots": [],
    }  # fmt: skip
    kind = type(base.__name__, (Placed, base), places)
    with made_on(host):
        optimizer = kind(**arguments(card))
    optimizer.build(list(variables))  # outside: of two creators the outer one would win
    return optimizer


def clip(
    card: Descent, gradients: Sequence[tf.Tensor], devices: Sequence[str | None], host: str | None = None
) -> list[tf.Tensor]:
    """Dense gradients scaled so that the norm of all together is at most the card's.

    devices: of each gradient, where it stays; host: where the norm is found; None: wherever this is called.
    """
    if card.global_clipnorm is None:
        return list(gradients)
    with tf.name_scope("clip"):
        squares, clipped = [], []
        for gradient, device in zip(gradients, devices, strict=True):
            with tf.device(device):
                squares.append(tf.reduce_sum(gradient * gradient))
        with tf.device(host):
            limit = tf.constant(card.global_clipnorm, gradients[0].dtype)
            factor = limit / tf.maximum(tf.sqrt(tf.add_n(squares)), limit)
        for gradient, device in zip(gradients, devices, strict=True):
            with tf.device(device):
                clipped.append(gradient * factor)
    return clipped
