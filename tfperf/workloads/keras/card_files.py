"""The files that a card names, those with code among them; none of it is run here."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tfperf.results.reading import hash_file
from tfperf.runcard.data_sources import ValidationSource
from tfperf.runcard.faults import Fault
from tfperf.sources.code import CodeReference
from tfperf.sources.code_text import describe_missing, list_code_files
from tfperf.stores.manifest import MANIFEST
from tfperf.workloads.keras.card import KerasCard, MaskSource


def hash_files(card: KerasCard) -> dict[str, str]:
    """sha256 of the card's files by key, those that its functions' files import among them."""
    return {key: hash_file(path) for key, path in _list_files(card)}


def check_functions(card: KerasCard) -> list[Fault]:
    """Functions that the files they are said to be in do not have."""
    found = [(f"{key}.build", CodeReference.parse(one.build)) for key, one in _list_sources(card).items() if one.build]
    return [Fault(key, str(one), why) for key, one in found if (why := describe_missing(one)) is not None]


def _list_sources(card: KerasCard) -> dict[str, Any]:
    """All that may name a function, by key."""
    found: dict[str, Any] = {"model": card.model, "data": card.data}
    if isinstance(card.data.validation, ValidationSource):
        found["data.validation"] = card.data.validation
    if isinstance(card.ensemble.data, MaskSource):
        found["ensemble.data"] = card.ensemble.data
    return found | {f"train.callbacks.{i}": callback for i, callback in enumerate(card.train.callbacks)}


def _list_files(card: KerasCard) -> Iterator[tuple[str, Path]]:
    for name, source in _list_sources(card).items():
        if (path := getattr(source, "file", None)) is not None:
            yield f"{name}.file", path
        if (store := getattr(source, "store", None)) is not None and (Path(store) / MANIFEST).is_file():
            yield f"{name}.store", Path(store) / MANIFEST
        code = {"build": source.build, "custom_objects": getattr(source, "custom_objects", None)}
        for key, origin in code.items():
            if origin is not None:
                reference = CodeReference.parse(origin) if key == "build" else CodeReference(str(origin), "")
                for place, file in list_code_files(reference).items():
                    yield f"{name}.{key}{place and f' imports {place}'}", file
