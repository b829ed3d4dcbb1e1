"""A store that a card names in place of data: its function is called, the stored stages are not run."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

from tfperf.errors import CardError, UserError
from tfperf.runcard.data_sources import SampleSource
from tfperf.sources.code import CodeReference, call_function
from tfperf.stores.applying import apply_store
from tfperf.stores.opening import ElementStore, open_elements


@dataclass(frozen=True)
class StoredData:
    """Batches with stored elements in their pipeline, and the pipeline as the user's function made it."""

    dataset: tf.data.Dataset
    pipeline: tf.data.Dataset


def open_stored(source: SampleSource, key: str) -> StoredData:
    """The data of a card that names a store. Raises: UserError where the store is none of its function's, or that has
    changed; UserCodeError for what the function raises."""
    assert source.store is not None
    store = open_elements(Path(source.store))
    origin = _find_origin(store, source, key)
    found = call_function(CodeReference.parse(origin["build"]), origin["arguments"], f"{key}.build")
    if not isinstance(found, tf.data.Dataset):
        raise UserError(
            f"{key}.build: returned a {type(found).__name__}; a store has a place in a tf.data.Dataset alone"
        )
    return StoredData(apply_store(store, found), found)


def _find_origin(store: ElementStore, source: SampleSource, key: str) -> Any:
    """Function and arguments: those beside the store, whose stages are compared with it, or its own."""
    if source.build is not None:
        return {"build": source.build, "arguments": source.arguments}
    if store.manifest.data is None:
        raise CardError(
            f"{key}.store: {store.folder} was made of a dataset of a program, so no card can build the rest; name its "
            "function under build, or read the store by tfperf.open_store in a function of your own"
        )
    return json.loads(json.dumps(store.manifest.data))
