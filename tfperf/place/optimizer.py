"""Keras optimizers whose slots and updates run where a placement says."""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import keras
import tensorflow as tf

from tfperf.runcard.model_optimizer import ModelOptimizer

CLIPPING = 2  # operations of a gradient's clipping that give as much as it: squares and a product, or two bounds
DenseGradients = Sequence[tf.Tensor | None]  # gradients, of which some may be none


@contextmanager
def place_variables(device: str) -> Iterator[None]:
    """Variables made inside lie on a device, whatever else says where."""

    def create(next_creator: Any, **kwargs: Any) -> tf.Variable:
        with tf.device(device):
            return next_creator(**kwargs)

    with tf.variable_creator_scope(create):
        yield


class DecayMixin:
    """Mixed into a Keras optimizer: weights decay with the update of each variable, where that runs.

    Keras lets them decay on whatever device, and Muon's not at all on several.
    """

    def _apply_weight_decay(self, variables: Sequence[Any]) -> None:
        """Left to `decay_and_update`."""

    def decay_and_update(self, gradient: tf.Tensor, variable: tf.Variable, learning_rate: tf.Tensor) -> None:
        """One variable's decay and update."""
        rate = self._get_decay_rate(variable)
        if rate is not None:
            decay = variable * tf.cast(rate, variable.dtype) * tf.cast(learning_rate, variable.dtype)
            self.assign_sub(variable, decay)  # type: ignore[attr-defined]
        self.update_step(gradient, variable, learning_rate)  # type: ignore[attr-defined]

    def lr_adjust(self, update: tf.Tensor) -> tf.Tensor:
        """Muon's scale of an update (Liu et al. 2025, arXiv:2502.16982), in its own type; Keras' is float32 alone."""
        if self.rms_rate is None:  # type: ignore[attr-defined]
            return update
        return update * tf.cast(math.sqrt(max(update.shape)), update.dtype) * self.rms_rate  # type: ignore[attr-defined]

    def _get_decay_rate(self, variable: tf.Variable) -> float | None:
        """Share of a variable that decays in a step, over the learning rate."""
        known = self._trainable_variables[self._get_variable_index(variable)]  # type: ignore[attr-defined]
        if isinstance(self, keras.optimizers.Muon) and self._should_use_adamw(known):
            rate: float | None = self.adam_weight_decay
            return rate
        return self.weight_decay  # type: ignore[attr-defined, no-any-return]


class PlacementMixin(DecayMixin):
    """Mixed into a Keras optimizer: slots and updates on the devices of their variables' `places`.

    What Keras does once for all variables, as Nadam's schedule, stays on the host.
    """

    variables_built: "_TrackedVariables"
    places: Sequence[tuple[str, str]]  # by number of the variable: devices of slots and of the update
    slots: list[tuple[keras.Variable, str]]  # with the device that each was to be on

    def add_variable(self, *args: Any, **kwargs: Any) -> Any:
        """A slot of the variable that is at hand; some name it, some do not."""
        device = self.places[self.variables_built.number][0]
        with place_variables(device):
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
        with _use_device_of(variable):
            super().assign(variable, value)  # type: ignore[misc]

    def assign_add(self, variable: Any, value: Any) -> None:
        """The same, added."""
        with _use_device_of(variable):
            super().assign_add(variable, value)  # type: ignore[misc]

    def assign_sub(self, variable: Any, value: Any) -> None:
        """The same, subtracted."""
        with _use_device_of(variable):
            super().assign_sub(variable, value)  # type: ignore[misc]


class _TrackedVariables(list[keras.Variable]):
    """Variables that tell the number of the one that was taken last."""

    number = 0

    def __iter__(self) -> Iterator[keras.Variable]:
        for self.number, variable in enumerate(super().__iter__()):
            yield variable


def _use_device_of(variable: keras.Variable | tf.Variable) -> Any:
    return tf.device((variable.value if isinstance(variable, keras.Variable) else variable).device)


def make_optimizer(options: ModelOptimizer, mixin: type, **attributes: Any) -> keras.optimizers.Optimizer:
    """The card's optimizer with a mixin, whose attributes these are; clipping is left to `clip`."""
    base: type[keras.optimizers.Optimizer] = getattr(keras.optimizers, options.name)
    kind = type(base.__name__, (mixin, base), attributes)  # of an instance Keras would wrap attributes
    optimizer: keras.optimizers.Optimizer = kind(**options.make_arguments(), name="optimizer")
    return optimizer


def build_placed_optimizer(
    options: ModelOptimizer, variables: list[keras.Variable], slots: Sequence[str], updates: Sequence[str], host: str
) -> keras.optimizers.Optimizer:
    """The card's optimizer for variables, with the device of the slots and of the update of each."""
    places, tracked = tuple(zip(slots, updates, strict=True)), _TrackedVariables(variables)
    with tf.device(host):
        optimizer = make_optimizer(options, PlacementMixin, places=places, variables_built=tracked, slots=[])
        optimizer.build(tracked)
    return optimizer


def has_clipping(options: ModelOptimizer) -> bool:
    """Whether gradients are clipped."""
    return (options.clipnorm, options.clipvalue, options.global_clipnorm) != (None, None, None)


def clip(
    options: ModelOptimizer, gradients: DenseGradients, devices: Sequence[str | None], host: str | None = None
) -> list[tf.Tensor | None]:
    """Dense gradients clipped as the card says: each entry, each one's norm, or the norm of all together.

    None: there is no gradient, which stays so. devices: of each, where it stays; host: where the norm of all is found;
    None: wherever this is called.
    """
    if not has_clipping(options):
        return list(gradients)
    with tf.name_scope("clip"):
        limit = None if options.global_clipnorm is None else _compute_global_factor(options, gradients, devices, host)
        clipped = list(gradients)
        for i, g, device in _list_gradients(gradients, devices):
            with tf.name_scope(f"gradient_{i}"), _use_device(device):
                clipped[i] = _clip_one(options, g) if limit is None else g * tf.cast(limit, g.dtype)
    return clipped


def _list_gradients(
    gradients: DenseGradients, devices: Sequence[str | None]
) -> Iterator[tuple[int, tf.Tensor, str | None]]:
    """Gradients that there are, each with its number and device."""
    for i, (gradient, device) in enumerate(zip(gradients, devices, strict=True)):
        if gradient is not None:
            yield i, gradient, device


def _compute_global_factor(
    options: ModelOptimizer, gradients: DenseGradients, devices: Sequence[str | None], host: str | None
) -> tf.Tensor:
    """What the norm of all gradients together makes of each, in the widest type of any."""
    squares = []
    for i, gradient, device in _list_gradients(gradients, devices):
        with tf.name_scope(f"gradient_{i}"), _use_device(device):
            squares.append(tf.reduce_sum(gradient * gradient))
    widest = max((square.dtype for square in squares), key=lambda kind: kind.size)
    with _use_device(host):
        return _compute_factor(tf.add_n([tf.cast(square, widest) for square in squares]), options.global_clipnorm)


def _use_device(device: str | None) -> AbstractContextManager[Any]:
    """On a device; None: where this is called, which `tf.device(None)` would forget."""
    return nullcontext() if device is None else tf.device(device)


def _clip_one(options: ModelOptimizer, gradient: tf.Tensor) -> tf.Tensor:
    if options.clipvalue is not None:
        return tf.clip_by_value(gradient, -options.clipvalue, options.clipvalue)
    return gradient * _compute_factor(tf.reduce_sum(gradient * gradient), options.clipnorm)


def _compute_factor(square: tf.Tensor, norm: float | None) -> tf.Tensor:
    """By which a gradient of that squared norm is multiplied, 1 at most."""
    limit = tf.constant(norm, square.dtype)
    return limit / tf.maximum(tf.sqrt(square), limit)
