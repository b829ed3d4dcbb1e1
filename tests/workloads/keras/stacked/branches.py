"""Networks that send the same tensors through many layers side by side, so that one training tests them all."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import layers

Makers = Sequence[Callable[..., Any]]


def join_branches(inputs: Any, x: Any, makers: Makers, end: type = layers.Flatten) -> keras.Model:
    """A compiled model of two numbers by what the layers make of x, each followed by an `end`."""
    found = [end()(make()(x)) for make in makers]
    joined = layers.Concatenate()(found) if len(found) > 1 else found[0]
    model = keras.Model(inputs, layers.Dense(2)(joined))
    model.compile(keras.optimizers.SGD(1e-2, momentum=0.9), "mse", metrics=["mae"])
    return model


def build_branches(makers: Makers, shape: tuple[int, ...], units: int = 6) -> Callable[[], keras.Model]:
    """A function that builds one where x is a dense layer of the inputs."""

    def make() -> keras.Model:
        inputs = keras.Input(shape)
        return join_branches(inputs, layers.Dense(units, "tanh")(inputs), makers)

    return make
