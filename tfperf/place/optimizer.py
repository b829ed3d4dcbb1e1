"""Keras optimizers whose slots and updates run where a placement says."""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import keras
import tensorflow as tf

from tfperf.runcard.descent import Descent

CLIPPING = 2  # operations of a gradient's clipping that give as much as it: squares and a product, or two bounds


@contextmanager
def made_on(device: str) -> Iterator[None]:
    """Variables made inside lie on a device, whatever else says where."""

    def create(next_creator: Any, **kwargs: Any) -> tf.Variable:
        with tf.device(device):
            return next_creator(**kwargs)

    with tf.variable_creator_scope(create):
        yield


class Decayed:
    """Mixed into a Keras optimizer: weights decay with the update of each variable, where that runs.

    Keras lets them decay on whatever device, and Muon's not at all on several.
    """

    def _apply_weight_decay(self, variables: Sequence[Any]) -> None:
        """Left to `decay_and_update`."""

    def decay_and_update(self, gradient: tf.Tensor, variable: tf.Variable, learning_rate: tf.Tensor) -> None:
        """One variable's decay and update."""
        rate = self._decay_rate(variable)
        if rate is not None:
            decay = variable * tf.cast(rate, variable.dtype) * tf.cast(learning_rate, variable.dtype)
            self.assign_sub(variable, decay)  # type: ignore[attr-defined]
        self.update_step(gradient, variable, learning_rate)  # type: ignore[attr-defined]

    def lr_adjust(self, update: tf.Tensor) -> tf.Tensor:
        """Muon's scale of an update (Liu et al. 2025, arXiv:2502.16982), in its own type; Keras' is float32 alone."""
        if self.rms_rate is None:  # type: ignore[attr-defined]
            return update
        return update * tf.cast(math.sqrt(max(update.shape)), update.dtype) * self.rms_rate  # type: ignore[attr-defined]

    def _decay_rate(self, variable: tf.Variable) -> float | None:
        """Share of a variable that decays in a step, over the learning rate."""
        known = self._trainable_variables[self._get_variable_index(variable)]  # type: ignore[attr-defined]
        if isinstance(self, keras.optimizers.Muon) and self._should_use_adamw(known):
            rate: float | None = self.adam_weight_decay
            return rate
        return self.weight_decay  # type: ignore[attr-defined, no-any-return]


class Placed(Decayed):
    """Mixed into a Keras optimizer: slots and updates on the devices of their variables' `places`.

    What Keras does once for all variables, as Nadam's schedule, stays on the host.
    """

    variables_built: "_Followed"
    places: Sequence[tuple[str, str]]  # by number of the variable: devices of slots and of the update
    slots: list[tuple[keras.Variable, str]]  # with the device that each was to be on

    def add_variable(self, *args: Any, **kwargs: Any) -> Any:
        """A slot of the variable that is at hand; some name it, some do not."""
        device = self.places[self.variables_built.number][0]
        with made_on(device):
            slot = super().add_variable(*args, **kwargs)  # type: ignore[misc]
        self.slots.append((slot, device))
        return slot

    def _all_reduce_sum_gradients(self, grads_and_vars: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        """They are summed already."""
        return list(grads_and_vars)

    def _distributed_tf_update_step(
        self, distribution: Any, grads_and_vars: Iterable[tuple[tf.Tensor, tf.Variable]], learning_rate: tf.Tensor
    ) -> None:
        for gradient, variable in grads_and_vars:
            i = self._get_variable_index(variable)  # type: ignore[attr-defined]
            with tf.name_scope(f"variable_{i}"), tf.device(self.places[i][1]):
                self.decay_and_update(gradient, variable, learning_rate)

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


class _Followed(list[keras.Variable]):
    """Variables that tell the number of the one that was taken last."""

    number = 0

    def __iter__(self) -> Iterator[keras.Variable]:
        for self.number, variable in enumerate(super().__iter__()):
            yield variable


def _at(variable: keras.Variable | tf.Variable) -> Any:
    return tf.device((variable.value if isinstance(variable, keras.Variable) else variable).device)


def make_optimizer(descent: Descent, mixin: type, **attributes: Any) -> keras.optimizers.Optimizer:
    """The card's optimizer with a mixin, whose attributes these are; clipping is left to `clip`."""
    base: type[keras.optimizers.Optimizer] = getattr(keras.optimizers, descent.name)
    kind = type(base.__name__, (mixin, base), attributes)  # of an instance Keras would wrap attributes
    optimizer: keras.optimizers.Optimizer = kind(**descent.arguments(), name="optimizer")
    return optimizer


def placed_optimizer(
    card: Descent, variables: Sequence[keras.Variable], slots: Sequence[str], updates: Sequence[str], host: str
) -> keras.optimizers.Optimizer:
    """The card's optimizer for variables, with the device of the slots and of the update of each."""
    places, followed = tuple(zip(slots, updates, strict=True)), _Followed(variables)
    with tf.device(host):
        optimizer = make_optimizer(card, Placed, places=places, variables_built=followed, slots=[])
        optimizer.build(followed)
    return optimizer


def clips(card: Descent) -> bool:
    """Whether gradients are clipped."""
    return (card.clipnorm, card.clipvalue, card.global_clipnorm) != (None, None, None)


def clip(
    card: Descent, gradients: Sequence[tf.Tensor | None], devices: Sequence[str | None], host: str | None = None
) -> list[tf.Tensor | None]:
    """Dense gradients clipped as the card says: each entry, each one's norm, or the norm of all together.

    None: there is no gradient, which stays so. devices: of each, where it stays; host: where the norm of all is found;
    None: wherever this is called.
    """
    if not clips(card):
        return list(gradients)
    with tf.name_scope("clip"):
        limit = None if card.global_clipnorm is None else _factor_of_all(card, gradients, devices, host)
        clipped = list(gradients)
        for i, gradient, device in _numbered(gradients, devices):
            with tf.name_scope(f"gradient_{i}"), _on(device):
                clipped[i] = _clip_one(card, gradient) if limit is None else gradient * tf.cast(limit, gradient.dtype)
    return clipped


def _numbered(
    gradients: Sequence[tf.Tensor | None], devices: Sequence[str | None]
) -> Iterator[tuple[int, tf.Tensor, str | None]]:
    """Gradients that there are, each with its number and device."""
    for i, (gradient, device) in enumerate(zip(gradients, devices, strict=True)):
        if gradient is not None:
            yield i, gradient, device


def _factor_of_all(
    card: Descent, gradients: Sequence[tf.Tensor | None], devices: Sequence[str | None], host: str | None
) -> tf.Tensor:
    """What the norm of all gradients together makes of each, in the widest type of any."""
    squares = []
    for i, gradient, device in _numbered(gradients, devices):
        with tf.name_scope(f"gradient_{i}"), _on(device):
            squares.append(tf.reduce_sum(gradient * gradient))
    widest = max((square.dtype for square in squares), key=lambda kind: kind.size)
    with _on(host):
        return _factor(tf.add_n([tf.cast(square, widest) for square in squares]), card.global_clipnorm)


def _on(device: str | None) -> AbstractContextManager[Any]:
    """On a device; None: where this is called, which `tf.device(None)` would forget."""
    return nullcontext() if device is None else tf.device(device)


def _clip_one(card: Descent, gradient: tf.Tensor) -> tf.Tensor:
    if card.clipvalue is not None:
        return tf.clip_by_value(gradient, -card.clipvalue, card.clipvalue)
    return gradient * _factor(tf.reduce_sum(gradient * gradient), card.clipnorm)


def _factor(square: tf.Tensor, norm: float | None) -> tf.Tensor:
    """By which a gradient of that squared norm is multiplied, 1 at most."""
    limit = tf.constant(norm, square.dtype)
    return limit / tf.maximum(tf.sqrt(square), limit)
