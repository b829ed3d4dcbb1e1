"""Cards of what a Python program gives, written for processes that have nothing of it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tfperf.errors import CardError
from tfperf.results.files import make_folder, write_atomically

CODE = "_code"  # after the name of a study's folder: what its card names


def write_given_card(build: Any, data: Any, output: Path, settings: Mapping[str, Any]) -> Path:
    """The path of a card beside a study's folder, with what it names that only this program has.

    settings: full keys of the card. Raises: CardError for objects that no fresh process can have.
    """
    from tfperf.sources.references import name_function
    from tfperf.workloads.keras.given import GivenCard, to_yaml

    folder = output.with_name(f"{output.name}{CODE}")
    more = {"train.epochs": 1_000_000, **settings} if "train.steps" not in settings else dict(settings)
    given = GivenCard(build, _keep_arrays(data, folder), more, lambda f, key: name_function(f, folder, key))
    if given.objects:
        what = ", ".join(sorted(given.objects))
        raise CardError(
            f"{what}: an object of this process, which a fresh one has not; give a function that returns it"
        )
    make_folder(folder)
    path = folder / "card.yaml"
    with write_atomically(path) as temporary:
        temporary.write_text(to_yaml(given.card), encoding="utf-8")
    return path


def _keep_arrays(data: Any, folder: Path) -> Any:
    """Arrays as a file of them; anything else as it is."""
    parts = data if isinstance(data, tuple) else (data,)
    if not 1 <= len(parts) <= 3 or not all(isinstance(part, np.ndarray) for part in parts):
        return data
    make_folder(folder)
    names = ("x", "y", "weights")[: len(parts)]
    with write_atomically(folder / "data.npz") as temporary, temporary.open("wb") as stream:
        np.savez(stream, **dict(zip(names, parts, strict=True)))
    keys = {"file": str((folder / "data.npz").resolve())}
    return {
        **keys,
        **({"weights": "weights"} if "weights" in names else {}),
        **({"targets": []} if len(names) == 1 else {}),
    }
