"""Whether batches are what a model takes, as far as the model says it before it is called."""

from collections.abc import Sequence
from typing import Any

import keras


def find_misfit(model: keras.Model, batch: Any) -> str | None:
    """What of its batches a model cannot take, in words; None where it can, or where only a call would tell."""
    parts = batch if isinstance(batch, tuple) else (batch,)
    if len(parts) == 1 and _needs_targets(model):
        return (
            "batches have no targets, by which the compiled loss is computed; must be (x, y), of an autoencoder (x, x)"
        )
    wanted = {tensor.name: tuple(tensor.shape) for tensor in getattr(model, "inputs", None) or ()}
    if isinstance(parts[0], dict):
        found = {name: parts[0].get(name) for name in wanted}
        if any(not hasattr(value, "shape") for value in found.values()):
            return None  # which of them is which, Keras says
        pairs = [(f"the input {name}", value, wanted[name]) for name, value in found.items()]
    else:
        flat = keras.tree.flatten(parts[0])
        if wanted and len(flat) != len(wanted):
            return f"batches have {len(flat)} inputs; the model takes {len(wanted)}: {', '.join(wanted)}"
        names = wanted if len(wanted) > 1 else [""]
        pairs = [
            (f"the input {n}".strip(), v, shape) for n, v, shape in zip(names, flat, wanted.values(), strict=False)
        ]
    return next((text for name, value, shape in pairs if (text := _compare(name, value, shape)) is not None), None)


def _needs_targets(model: keras.Model) -> bool:
    """Whether its step is Keras' own, with a loss of targets."""
    own = type(model).train_step is keras.Model.train_step and type(model).compute_loss is keras.Model.compute_loss
    return own and getattr(model, "_compile_loss", None) is not None


def _compare(name: str, value: Any, wanted: Sequence[int | None]) -> str | None:
    if getattr(value, "shape", None) is None or getattr(value.shape, "rank", None) is None:
        return None
    given = tuple(value.shape)
    if 1 in (given[-1:] + tuple(wanted[-1:])) and abs(len(given) - len(wanted)) == 1:
        return None  # a last axis of length 1 Keras adds or drops itself
    told = f"{name} has shape {given}; the model takes {tuple(wanted)}"
    if len(given) == len(wanted) - 1 and _agree(given, wanted[1:]):
        return f"{told}: these are single samples, must be batches: end the dataset by .batch(n)"
    return None if len(given) == len(wanted) and _agree(given, wanted) else told


def _agree(given: Sequence[int | None], wanted: Sequence[int | None]) -> bool:
    return all(None in (one, other) or one == other for one, other in zip(given, wanted, strict=True))
