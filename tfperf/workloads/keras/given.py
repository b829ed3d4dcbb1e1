"""A card of objects that a Python program has: models, functions, arrays, datasets, callbacks."""

import os
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any

from tfperf.errors import CardError
from tfperf.runcard.dump import to_tree
from tfperf.runcard.loader import validate_card
from tfperf.runcard.scalars import dump
from tfperf.runcard.tree import parse_tree
from tfperf.runcard.types import CODE_FILE
from tfperf.sources.code import CodeReference
from tfperf.sources.given import ORIGIN
from tfperf.stores.manifest import MANIFEST
from tfperf.workloads.keras.card import KerasCard
from tfperf.workloads.keras.kind import NAME
from tfperf.workloads.registry import WORKLOADS

# how a card names a function under a key; None: not, so that it is given as an object
Refer = Callable[[Callable[..., Any], str], CodeReference | None]
ORIGINS = ("build", "file", "folder", "store")  # one of which a mapping has that is keys of a card
SETTINGS = {
    "epochs": "train.epochs", "steps": "train.steps", "steps_per_epoch": "train.steps_per_epoch",
    "batch": "data.batch", "validation": "data.validation", "shuffle": "data.shuffle", "seed": "seed",
    "callbacks": "train.callbacks", "class_weight": "train.class_weight",
}  # fmt: skip


class GivenCard:
    """A card, and the objects that it names."""

    def __init__(self, model: Any, data: Any, keys: Mapping[str, Any], refer: Refer | None = None) -> None:
        """model: a keras.Model, a function that returns one, or `file.py:function` or a .keras file; data: arrays, a
        dataset, a function that returns one of these, `file.py:function` or a file; keys: of the card, by their full
        names, of which `data.validation` and `train.callbacks` may be objects, too.

        refer: how functions are named; None: they are given as objects. Raises: CardError.
        """
        self.objects: dict[str, Any] = {}
        self._refer = refer
        tree: dict[str, Any] = {"workload": NAME, "model": self._name("model", model), "data": self._name("data", data)}
        tree["train"] = {}
        for key, value in keys.items():
            if value is not None:
                _put(tree, key, self._convert(key, value))
        self.tree = tree

    @property
    def card(self) -> KerasCard:
        """The card. Raises: CardError with all its faults."""
        root, found = parse_tree(dump(self.tree), lambda line: (line, ""))
        assert root is not None
        card = validate_card(root, found, Path(), WORKLOADS)
        assert isinstance(card, KerasCard)
        return card

    def _convert(self, key: str, value: Any) -> Any:
        if key == "data.validation" and not isinstance(value, Real):
            return self._name(key, value)
        if key == "ensemble.data" and not isinstance(value, str):
            return self._name(key, value)
        if key == "train.callbacks":
            several = value if isinstance(value, list | tuple) else [value]
            return [self._name_callback(f"{key}.{i}", one) for i, one in enumerate(several)]
        return _to_plain(value)

    def _name_callback(self, key: str, value: Any) -> Any:
        return _to_plain(value) if isinstance(value, Mapping) else self._name(key, value)

    def _name(self, key: str, value: Any) -> dict[str, Any]:
        """The keys of a source, for what was given."""
        if isinstance(value, Mapping) and any(isinstance(value.get(origin), str | os.PathLike) for origin in ORIGINS):
            return dict(_to_plain(value))
        if isinstance(value, str | os.PathLike):
            text = os.fspath(value)
            is_code = isinstance(text, str) and (f"{CODE_FILE}:" in text or (not os.path.exists(text) and ":" in text))
            is_store = os.path.isfile(os.path.join(text, MANIFEST))
            kind = "build" if is_code else "store" if is_store else "folder" if os.path.isdir(text) else "file"
            return {kind: text}
        reference = self._refer(value, key) if self._refer is not None and hasattr(value, "__code__") else None
        if reference is not None:
            return {"build": reference.text}
        name = key.replace(".", "_")
        self.objects[name] = value
        return {"build": f"{ORIGIN}:{name}"}


def list_keys(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by their full keys of a card. Raises: CardError for one that there is not."""
    if unknown := [name for name in settings if name not in SETTINGS]:
        raise CardError(
            f"got {', '.join(unknown)}; allowed: {', '.join(SETTINGS)}, and keys={{...}} for any key of a card"
        )
    return {SETTINGS[name]: value for name, value in settings.items() if value is not None}


def to_yaml(card: KerasCard) -> str:
    """The card's text."""
    return dump(to_tree(card))


def _put(tree: dict[str, Any], key: str, value: Any) -> None:
    """Set a full key, with the mappings on the way. Raises: CardError where one of them is no mapping."""
    *outer, last = key.split(".")
    for name in outer:
        tree = tree.setdefault(name, {})
        if not isinstance(tree, dict):
            raise CardError(f"{key}: {name} is no mapping")
    tree[last] = value


def _to_plain(value: Any) -> Any:
    """Values of a card: tuples and rows of numbers as lists, keys as texts, NumPy's numbers as Python's."""
    if isinstance(value, Mapping):
        return {str(key): _to_plain(one) for key, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_to_plain(one) for one in value]
    return value.tolist() if hasattr(value, "tolist") and getattr(value, "ndim", 2) < 2 else value
