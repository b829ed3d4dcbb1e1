"""Cards of what a Python program gives, written for processes that have nothing of it."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tfperf.arrays import AnyArray
from tfperf.errors import CardError
from tfperf.results.files import make_folder, write_atomically

if TYPE_CHECKING:
    from tfperf.workloads.keras.given import GivenCard

PARTS = ("x", "y", "weights")
CODE = "_code"  # after the name of a study's folder: what its card names


def name_given(build: Any, data: Any, output: Path, settings: Mapping[str, Any]) -> "GivenCard":
    """A card of a model and its data, with copies of functions and arrays beside a study's folder, and the objects that
    only this program has. settings: full keys of the card. Raises: CardError."""
    from tfperf.sources.references import name_function
    from tfperf.workloads.keras.given import GivenCard

    folder = output.with_name(f"{output.name}{CODE}")
    more = {"train.epochs": 1_000_000, **settings} if "train.steps" not in settings else dict(settings)
    return GivenCard(build, _keep_arrays(data, folder), more, lambda f, key: name_function(f, folder, key))


def write_given_card(build: Any, data: Any, output: Path, settings: Mapping[str, Any]) -> Path:
    """The path of a card beside a study's folder, with what it names that only this program has.

    settings: full keys of the card. Raises: CardError for objects that no fresh process can have.
    """
    given = name_given(build, data, output, settings)
    if given.objects:
        what = ", ".join(sorted(given.objects))
        raise CardError(
            f"{what}: an object of this process, which a fresh one has not; give a function that returns it"
        )
    return write_card(given, output)


def write_card(given: "GivenCard", output: Path) -> Path:
    """The path of a card without objects, written beside a study's folder."""
    from tfperf.workloads.keras.given import to_yaml

    folder = output.with_name(f"{output.name}{CODE}")
    make_folder(folder)
    path = folder / "card.yaml"
    with write_atomically(path) as temporary:
        temporary.write_text(to_yaml(given.card), encoding="utf-8")
    return path


def refuse_output(output: Any) -> None:
    """CardError for what is no folder, as targets, which Keras' own `fit` takes in that place."""
    if output is not None and not isinstance(output, str | os.PathLike):
        raise CardError(f"output: got {type(output).__name__}; must be a folder; targets belong to the data: (x, y)")


def _keep_arrays(data: Any, folder: Path) -> Any:
    """Arrays, tensors, and dicts of them as a file; anything else as it is."""
    parts = data if isinstance(data, tuple) else (data,)
    if not 1 <= len(parts) <= 3:
        return data
    arrays: dict[str, AnyArray] = {}
    names: list[list[str]] = []  # of each part
    for place, part in zip(PARTS, parts, strict=False):
        several = part if isinstance(part, Mapping) else {place: part}
        if not several or not all(_is_array(one) for one in several.values()) or {*several} & {*arrays}:
            return data
        arrays |= {str(name): np.asarray(one) for name, one in several.items()}
        names.append([*map(str, several)])
    if len(parts) == 3 and isinstance(parts[2], Mapping):
        return data
    if objects := [name for name, one in arrays.items() if one.dtype == object]:
        raise CardError(
            f"data: {', '.join(objects)}: an array of objects; must be of numbers, or of texts (astype(str))"
        )
    make_folder(folder)
    with write_atomically(folder / "data.npz") as temporary, temporary.open("wb") as stream:
        np.savez(stream, allow_pickle=False, **arrays)
    keys: dict[str, Any] = {"file": str((folder / "data.npz").resolve()), "inputs": names[0]}
    keys["targets"] = names[1] if len(names) > 1 else []
    return keys | ({"weights": PARTS[2]} if len(names) == 3 else {})


def _is_array(value: Any) -> bool:
    """Whether a value is an array or a tensor of any library."""
    return hasattr(value, "__array__") and len(getattr(value, "shape", ())) > 0
