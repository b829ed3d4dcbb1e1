"""Whether batches are what a model takes, as far as the model says it before it is called."""

from collections.abc import Sequence
from typing import Any

import keras


def find_misfit(model: keras.Model, batch: Any, step: str) -> str | None:
    """What of its batches a model cannot take, in words; None where it can, or where only a call would tell.

    step: train_step or test_step.
    """
    if not _is_own(model, step):
        return None  # what a step of the user's does with a batch is known when it is traced
    parts = batch if isinstance(batch, tuple) else (batch,)
    if len(parts) == 1 and _needs_targets(model):
        return (
            "batches have no targets, by which the compiled loss is computed; must be (x, y), of an autoencoder (x, x)"
        )
    wanted = _list_inputs(model)
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
    return _is_own(model, "compute_loss") and getattr(model, "_compile_loss", None) is not None


def _is_own(model: keras.Model, name: str) -> bool:
    """Whether a method is Keras' own."""
    return getattr(getattr(model, name), "__func__", None) is getattr(keras.Model, name)


def _list_inputs(model: keras.Model) -> dict[str, tuple[int | None, ...]]:
    """Shapes by name, or by the keys of a dict, of any number of samples; none of subclassed models."""
    inner = getattr(model, "_functional", None) if isinstance(model, keras.Sequential) else model
    if not isinstance(inner, keras.src.models.functional.Functional):
        return {}
    named = inner._inputs_struct
    if not isinstance(named, dict):
        named = {tensor.name: tensor for tensor in inner.inputs}
    if not all(hasattr(tensor, "shape") for tensor in named.values()):
        return {}
    return {
        name: (None, *named[name].shape[1:]) for name in (sorted(named) if named is inner._inputs_struct else named)
    }


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
