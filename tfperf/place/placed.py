"""A trainable whose variables lie where a placement says, with the copies of those that several devices have."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from tfperf.place.devices import Devices
from tfperf.place.optimizer import place_variables
from tfperf.place.policy import VariableDevices, resolve_devices
from tfperf.place.state import count_bytes, list_all_variables, list_trained_variables
from tfperf.place.trainable import Builder, Model
from tfperf.runcard.placement import Placement


@dataclass(frozen=True)
class PlacedVariable:
    """A variable's copies, each on its device."""

    name: str
    devices: VariableDevices
    copies: tuple[keras.Variable, ...]

    def get_copy(self, tower: int) -> keras.Variable:
        """The copy that a tower reads."""
        return self.copies[tower if len(self.copies) > 1 else 0]

    def format_name(self, copy: int) -> str:
        """Name of a copy."""
        return f"{self.name}, copy {copy}" if len(self.copies) > 1 else self.name

    def assign(self, value: Any) -> None:
        """The same value to each copy."""
        for copy in self.copies:
            copy.assign(value)


def build_trainable(
    build: Builder[Model], placement: Placement, devices: Devices
) -> tuple[Model, list[PlacedVariable], list[PlacedVariable]]:
    """The trainable; its tables and weights; its statistics, which lie as weights do."""
    found, order = _resolve_devices(build, placement, devices)
    with _place_in_order(order):
        trainable = build()
    variables = [
        PlacedVariable(name, where, tuple(_make_copies(variable, where)))
        for (name, where), variable in zip(found.items(), list_all_variables(trainable).values(), strict=True)
    ]
    changed = len(list_trained_variables(trainable))
    return trainable, variables[:changed], variables[changed:]


def _resolve_devices(
    build: Builder[Any], placement: Placement, devices: Devices
) -> tuple[dict[str, VariableDevices], list[str | None]]:
    """Devices by name, and that of each variable in the order in which they are made; None: any.

    The trainable is built for its shapes alone: Keras would make variables without values inside of the compiled call.
    """
    made: list[tf.Variable] = []

    def create(next_creator: Any, **kwargs: Any) -> tf.Variable:
        made.append(next_creator(**kwargs))
        return made[-1]

    with tf.variable_creator_scope(create), place_variables(devices.host):
        shapes = build()
    variables = list_all_variables(shapes)
    tables = {table.path: count_bytes(table) for table in shapes.embeddings}
    weights = {name: count_bytes(variable) for name, variable in variables.items() if name not in tables}
    found = resolve_devices(placement, devices.host, devices.each, weights, tables)
    first = {id(variable.value): found[name].copies[0] for name, variable in variables.items()}
    return {name: found[name] for name in variables}, [first.get(id(variable)) for variable in made]


@contextmanager
def _place_in_order(devices: Sequence[str | None]) -> Iterator[None]:
    """Variables made inside lie on the devices, in the order in which they are made."""
    left = iter(devices)

    def create(next_creator: Any, **kwargs: Any) -> tf.Variable:
        with tf.device(next(left, None)):
            return next_creator(**kwargs)

    with tf.variable_creator_scope(create):
        yield


def _make_copies(variable: keras.Variable, devices: VariableDevices) -> Iterator[keras.Variable]:
    """The variable itself, and more with the same value and path on the other devices."""
    yield variable
    for device in devices.copies[1:]:
        with ExitStack() as scopes:
            for name in variable.path.split("/")[:-1]:  # optimizers go by it
                scopes.enter_context(keras.name_scope(name))
            scopes.enter_context(place_variables(device))
            yield keras.Variable(
                variable.numpy(), dtype=variable.dtype, name=variable.name, trainable=variable.trainable
            )
