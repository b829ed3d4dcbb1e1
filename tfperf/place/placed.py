"""A trainable whose variables lie where a placement says, with the copies of those that several devices have."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from tfperf.place.devices import Devices
from tfperf.place.optimizer import made_on
from tfperf.place.policy import Home, find_homes
from tfperf.place.state import every_variable, named, size
from tfperf.place.trainable import Build, Model
from tfperf.runcard.placement import Placement


@dataclass(frozen=True)
class Placed:
    """A variable's copies, each on its device."""

    name: str
    home: Home
    copies: tuple[keras.Variable, ...]

    def nearest(self, tower: int) -> keras.Variable:
        """The copy that a tower reads."""
        return self.copies[tower if len(self.copies) > 1 else 0]

    def called(self, copy: int) -> str:
        """Name of a copy."""
        return f"{self.name}, copy {copy}" if len(self.copies) > 1 else self.name

    def assign(self, value: Any) -> None:
        """The same value to each copy."""
        for copy in self.copies:
            copy.assign(value)


def build_placed(
    build: Build[Model], placement: Placement, devices: Devices
) -> tuple[Model, list[Placed], list[Placed]]:
    """The trainable; its tables and weights; its statistics, which have the homes of weights."""
    homes, order = _find_homes(build, placement, devices)
    with _made_at(order):
        trainable = build()
    variables = [
        Placed(name, home, tuple(_copies(variable, home)))
        for (name, home), variable in zip(homes.items(), every_variable(trainable).values(), strict=True)
    ]
    changed = len(named(trainable))
    return trainable, variables[:changed], variables[changed:]


def _find_homes(build: Build[Any], placement: Placement, devices: Devices) -> tuple[dict[str, Home], list[str | None]]:
    """Homes by name, and the device of each variable in the order in which they are made; None: any.

    The trainable is built for its shapes alone: Keras would make variables without values later, inside of the
    compiled call.
    """
    made: list[tf.Variable] = []

    def create(next_creator: Any, **kwargs: Any) -> tf.Variable:
        made.append(next_creator(**kwargs))
        return made[-1]

    with tf.variable_creator_scope(create), made_on(devices.host):
        shapes = build()
    variables = every_variable(shapes)
    tables = {table.path: size(table) for table in shapes.embeddings}
    weights = {name: size(variable) for name, variable in variables.items() if name not in tables}
    found = find_homes(placement, devices.host, devices.each, weights, tables)
    homes = {name: found[name] for name in variables}
    first = {id(variable.value): homes[name].copies[0] for name, variable in variables.items()}
    return homes, [first.get(id(variable)) for variable in made]


@contextmanager
def _made_at(devices: Sequence[str | None]) -> Iterator[None]:
    """Variables made inside lie on the devices, in the order in which they are made."""
    left = iter(devices)

    def create(next_creator: Any, **kwargs: Any) -> tf.Variable:
        with tf.device(next(left, None)):
            return next_creator(**kwargs)

    with tf.variable_creator_scope(create):
        yield


def _copies(variable: keras.Variable, home: Home) -> Iterator[keras.Variable]:
    """The variable itself, and more with the same value and path on the other devices of its home."""
    yield variable
    for device in home.copies[1:]:
        with ExitStack() as scopes:
            for part in variable.path.split("/")[:-1]:  # optimizers go by it
                scopes.enter_context(keras.name_scope(part))
            scopes.enter_context(made_on(device))
            yield keras.Variable(
                variable.numpy(), dtype=variable.dtype, name=variable.name, trainable=variable.trainable
            )
