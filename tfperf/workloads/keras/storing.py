"""The dataset of a card whose elements are to be stored, and what it was made by."""

from dataclasses import asdict
from typing import Any

import keras
import tensorflow as tf

from tfperf.errors import CardError
from tfperf.runcard.data_sources import DataSource
from tfperf.sources.code import CodeReference, call_function
from tfperf.sources.code_text import list_code_files
from tfperf.sources.given import ORIGIN
from tfperf.stores.preparing import StoreOrigin
from tfperf.workloads.keras.card import KerasCard


def open_pipeline(card: KerasCard) -> tuple[tf.data.Dataset, StoreOrigin]:
    """What the function under `data.build` returns; nothing of it is run. Raises: CardError for other data."""
    source = card.data
    if (why := _refuse(source)) is not None:
        raise CardError(why)
    assert source.build is not None
    keras.utils.set_random_seed(card.seed)
    reference = CodeReference.parse(source.build)
    found = call_function(reference, source.arguments, "data.build")
    if not isinstance(found, tf.data.Dataset):
        raise CardError(f"data.build: {reference}: returned {_describe(found)}; must be a tf.data.Dataset")
    data = None if reference.origin == ORIGIN else _keep_keys(source)
    files = [path.resolve() for path in list_code_files(reference).values()]
    return found, StoreOrigin(data, files, list(_list_texts(source)))


def _refuse(source: DataSource) -> str | None:
    if source.store is not None:
        return f"data.store: got {source.store}; must be left out, since it is a store that is to be made"
    if source.folder is not None:
        return "data.folder: images of a folder have no stages; write a function that makes a tf.data.Dataset of them"
    if source.build is None:
        return f"data.file: {source.file}: its arrays are in memory as they are; there is nothing to prepare"
    return None


def _describe(found: Any) -> str:
    if isinstance(found, keras.utils.PyDataset):
        return f"a PyDataset ({type(found).__name__}), whose batches have no stages that could be run apart"
    if isinstance(found, tuple | list | dict) or hasattr(found, "__array__"):
        return "arrays, which are in memory as they are: there is nothing to prepare"
    return f"an object of type {type(found).__name__}"


def _keep_keys(source: DataSource) -> dict[str, Any]:
    """Those that make the dataset, as values of JSON."""
    tree = asdict(source)
    arguments = {key: list(one) if isinstance(one, tuple) else one for key, one in tree["arguments"].items()}
    return {"build": tree["build"], "arguments": arguments}


def _list_texts(source: DataSource) -> list[str]:
    """Of the arguments, that may be paths."""
    values = [one if isinstance(one, tuple) else (one,) for one in source.arguments.values()]
    return [one for several in values for one in several if isinstance(one, str) and one]
