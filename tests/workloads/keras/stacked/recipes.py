"""A tiny model with each class of `keras.layers`, and data for it."""

import inspect
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import layers

from tests.workloads.keras.stacked.pairs import draw, use_float64

SAMPLES = 16
LINE, PLANE, SPACE = (6, 3), (6, 6, 3), (4, 4, 4, 2)


class Recipe(NamedTuple):
    """How a layer is put between inputs and a dense layer."""

    make: Callable[[], Any]  # makes the layer, or what calls it
    shapes: Sequence[tuple[int, ...]]  # of the inputs
    data: Sequence[Any]  # of each input
    units: int | None  # of a dense layer before, so that gradients go through
    is_narrow: bool  # for float32 alone


RECIPES: dict[str, Recipe] = {}
# classes of keras.layers that no row is for, or that no recipe can be made of, and why
LEFT_OUT = {
    "Layer": "a base class", "InputLayer": "an input", "InputSpec": "no layer", "Wrapper": "a base class",
    "FlaxLayer": "needs Flax", "JaxLayer": "needs JAX", "TorchModuleWrapper": "needs PyTorch",
    "TFSMLayer": "a saved program, which is not trained",
    "MaxNumBoundingBoxes": "boxes of pictures, for a tf.data.Dataset",
}  # fmt: skip


def list_classes() -> dict[str, list[str]]:
    """The classes of `keras.layers` by name, and the other names of each."""
    found: dict[str, list[str]] = {}
    for name, one in sorted(inspect.getmembers(layers, inspect.isclass)):
        aliases = found.setdefault(one.__name__, [])
        if name != one.__name__:
            aliases.append(name)
    return found


def put_in(
    name: str, make: Callable[[], Any], shapes: Sequence[tuple[int, ...]], data: Sequence[Any] = (),
    units: int | None = None, is_narrow: bool = False,
) -> None:  # fmt: skip
    """Note a recipe; without data they are drawn."""
    given = [*data] or [draw(SAMPLES, *shape, seed=i) for i, shape in enumerate(shapes)]
    assert name not in RECIPES
    if is_narrow:
        given = [one.astype(np.float32) for one in given]
    RECIPES[name] = Recipe(make, shapes, given, units, is_narrow)


def follow(*some: keras.layers.Layer) -> Callable[[Any], Any]:
    """Calls one layer after the other."""

    def call(x):
        for one in some:
            x = one(x)
        return x

    return call


def use_precision(recipe: Recipe) -> AbstractContextManager[None]:
    """In which the recipe's model is built and trained: float64, or Keras' own float32."""
    return nullcontext() if recipe.is_narrow else use_float64()


def build_model(recipes: Sequence[Recipe]) -> keras.Model:
    """Layers side by side, of the same inputs, compiled."""
    shapes, data, units = recipes[0][1:4]
    kinds = ["string" if one.dtype.kind == "U" else one.dtype.name for one in data]
    inputs = [keras.Input(shape, dtype=kind) for shape, kind in zip(shapes, kinds, strict=True)]
    found = []
    for recipe in recipes:
        hidden = inputs if units is None else [layers.Dense(units, "tanh")(one) for one in inputs]
        x = recipe.make()(hidden if len(hidden) > 1 else hidden[0])
        found.append(layers.Flatten()(x))
    model = keras.Model(inputs, layers.Dense(2)(layers.Concatenate()(found) if len(found) > 1 else found[0]))
    model.compile(keras.optimizers.SGD(1e-2, momentum=0.9), "mse", metrics=["mae"])
    return model


def get_data(recipe: Recipe) -> Any:
    """Inputs and targets."""
    return (tuple(recipe.data) if len(recipe.data) > 1 else recipe.data[0]), draw(SAMPLES, 2, seed=9)


def collect_recipes() -> dict[str, Recipe]:
    """All of them, by the name of the class."""
    from tests.workloads.keras.stacked import recipes_core, recipes_inputs, recipes_places

    for one in (recipes_core, recipes_inputs, recipes_places):
        if not set(one.NAMES) <= {*RECIPES}:
            one.note_recipes()
    return RECIPES
