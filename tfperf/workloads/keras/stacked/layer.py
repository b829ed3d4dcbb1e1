"""What a layer of R copies of a model is made of, and which layers there are. B samples of each copy."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Generic, TypeVar

import keras
import tensorflow as tf

L = TypeVar("L", bound=keras.layers.Layer)


class Values:
    """The variables of all copies while a batch goes through them: read and assigned by the template's variable.

    get_probe: zeros (R, ...) of a table's shape, whose gradient is to be the sum of the squares of all gradients of
    each of its rows; None: nobody asks for it.
    """

    def __init__(
        self, replicas: int, read: Callable[[keras.Variable], tf.Tensor],
        find_probe: Callable[[keras.Variable], tf.Tensor | None] = lambda variable: None,
    ) -> None:  # fmt: skip
        """read: the values (R, ...) that stand for a variable of the template; find_probe: see `get_probe`."""
        self.replicas, self._read, self.get_probe = replicas, read, find_probe
        self.assigned: dict[int, tuple[keras.Variable, tf.Tensor]] = {}  # by identity of the template's variable
        self.losses: list[tf.Tensor] = []  # that layers add (R)

    def get(self, variable: keras.Variable) -> tf.Tensor:
        """(R, ...): what it was assigned last, else what it was before the batch."""
        known = self.assigned.get(id(variable))
        return self._read(variable) if known is None else known[1]

    def assign(self, variable: keras.Variable, value: tf.Tensor) -> None:
        """Let it be that (R, ...) after the batch."""
        self.assigned[id(variable)] = variable, value


class StackedLayer(ABC, Generic[L]):
    """A layer of the template, for R copies at once."""

    kinds: ClassVar[tuple[type[keras.layers.Layer], ...]]  # exactly these: what is derived from them may do otherwise

    def __init__(self, layer: L) -> None:
        self.layer = layer

    @classmethod
    def refuse(cls, layer: Any) -> str | None:
        """Why such a layer cannot be stacked as it is made, in words; None where it can."""
        return None

    @abstractmethod
    def call(self, values: Values, *inputs: Any, training: bool, **options: Any) -> Any:
        """What the layers give: tensors (R, B, ...) from tensors (R, B, ...). Masks are Keras' own, at tensors.

        options: what else the template's layer is called with.
        """


HANDLERS: dict[type[keras.layers.Layer], type[StackedLayer[Any]]] = {}


def register(handler: type[StackedLayer[Any]]) -> type[StackedLayer[Any]]:
    """Let a class stand for the layers that it names; a decorator."""
    HANDLERS.update(dict.fromkeys(handler.kinds, handler))
    return handler


def find_handlers() -> Mapping[type[keras.layers.Layer], type[StackedLayer[Any]]]:
    """All of them, by the kind of layer."""
    from importlib import import_module
    from pkgutil import iter_modules

    from tfperf.workloads.keras.stacked import layers

    for module in iter_modules(layers.__path__):
        import_module(f"{layers.__name__}.{module.name}")
    return HANDLERS
