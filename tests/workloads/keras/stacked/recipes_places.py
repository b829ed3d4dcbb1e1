"""Recipes of layers of places along one, two and three axes: convolutions, pools, what cuts and pads."""

from functools import partial
from typing import Any

from keras import layers

from tests.workloads.keras.stacked.recipes import LINE, PLANE, SPACE, put_in

SHAPES = {1: LINE, 2: PLANE, 3: SPACE}
# by the name without the number of axes: arguments, and which numbers there are
KINDS: dict[str, tuple[tuple[Any, ...], tuple[int, ...]]] = {
    "Conv{}": ((3, 2), (1, 2, 3)), "Conv{}Transpose": ((3, 2), (1, 2, 3)), "DepthwiseConv{}": ((2,), (1, 2)),
    "SeparableConv{}": ((3, 2), (1, 2)), "ConvLSTM{}": ((2, 2), (1, 2, 3)),
    "AveragePooling{}": ((2,), (1, 2, 3)), "MaxPooling{}": ((2,), (1, 2, 3)),
    "AdaptiveAveragePooling{}": ((2,), (1, 2, 3)), "AdaptiveMaxPooling{}": ((2,), (1, 2, 3)),
    "GlobalAveragePooling{}": ((), (1, 2, 3)), "GlobalMaxPooling{}": ((), (1, 2, 3)),
    "Cropping{}": ((1,), (1, 2, 3)), "ZeroPadding{}": ((1,), (1, 2, 3)), "UpSampling{}": ((2,), (1, 2, 3)),
    "SpatialDropout{}": ((0.3,), (2, 3)),
}  # fmt: skip
# TensorFlow's own programs of these are for float32 alone
NARROW = {
    f"{name}{axes}" for name in ("AveragePooling", "MaxPooling", "AdaptiveAveragePooling", "AdaptiveMaxPooling")
    for axes in ("3D",)
}  # fmt: skip
NAMES = tuple(name.format(f"{axes}D") for name, (_, every) in KINDS.items() for axes in every)


def note_recipes() -> None:
    """After a dense layer each; those with a state at each step of a sequence of places."""
    for kind, (arguments, every) in KINDS.items():
        for axes in every:
            name = kind.format(f"{axes}D")
            shape = SHAPES[axes] if "LSTM" not in kind else (2, *SHAPES[axes])
            put_in(name, partial(getattr(layers, name), *arguments), [shape], units=2, is_narrow=name in NARROW)
