"""The samples that a card names: arrays in memory, or a stream of batches."""

from collections.abc import Iterable, Mapping
from functools import partial
from inspect import isgeneratorfunction
from typing import Any

import keras
import tensorflow as tf

from tfperf.errors import CardError, UserError
from tfperf.runcard.data_sources import SampleSource
from tfperf.sources.code import CodeReference, call_function, find_function
from tfperf.sources.data_loaders import DataLoaderStream, is_data_loader
from tfperf.sources.py_datasets import DrawOrder, PyDatasetStream
from tfperf.sources.python_streams import GeneratorStream
from tfperf.sources.samples import Samples, make_samples, read_samples
from tfperf.sources.stored import open_stored
from tfperf.sources.streams import BatchStream, DatasetStream
from tfperf.sources.tables import read_table

Data = Samples | BatchStream
TABLES = (".csv", ".parquet")


def read_source(source: SampleSource, key: str, draw_order: DrawOrder) -> Data:
    """What a function or a file of a card gives; `key`: the card's, for messages; draw_order: of a PyDataset's batches.

    Raises: UserError for what cannot be trained on; UserCodeError for what the user's code raises.
    """
    if source.store is not None:
        stored = open_stored(source, key)
        refuse_single_samples(stored.dataset, f"{key}.store: {source.store}")
        return DatasetStream(stored.dataset, stored.pipeline)
    if source.file is None:
        assert source.build is not None
        reference = CodeReference.parse(source.build)
        make = partial(call_function, reference, source.arguments, f"{key}.build")
        # a generator function makes a generator for each pass; of others what they return has to do so
        is_maker = isgeneratorfunction(find_function(reference, f"{key}.build"))
        return open_data(make if is_maker else make(), f"{key}.build: {reference}", draw_order)
    if source.file.suffix.lower() in TABLES:
        as_dict = source.columns == "dict"
        return read_table(source.file, source.inputs, source.targets, source.weights, as_dict)
    if source.columns != "array":
        raise CardError(f"{key}.columns: got {source.columns}; must be left out for arrays")
    return read_samples(source.file, source.inputs or ("x",), source.targets, source.weights)


def open_data(found: Any, what: str, draw_order: DrawOrder) -> Data:
    """Samples or stream of what a user gave; what: who gave it, for messages. Raises: UserError for anything else."""
    if isinstance(found, tf.data.Dataset):
        refuse_single_samples(found, what)
        return DatasetStream(found)
    if isinstance(found, keras.utils.PyDataset):
        return PyDatasetStream(found, draw_order)
    if is_data_loader(found):
        return DataLoaderStream(found, what)
    if isinstance(found, tuple) and any(map(_is_dataset, found)):
        if all(map(_is_dataset, found)):
            raise UserError(f"{what}: returned several datasets; must return one; name another under data.validation")
        raise UserError(
            f"{what}: a dataset beside something else; must be alone: its elements are (x, y), y is left out"
        )
    if _is_iterable(found):
        return GeneratorStream(found, what)
    return make_samples(found, what)


def _is_dataset(value: Any) -> bool:
    return isinstance(value, tf.data.Dataset | keras.utils.PyDataset) or is_data_loader(value)


def _is_iterable(value: Any) -> bool:
    """Whether it is an iterator, an iterable or a function, and neither an array nor a nest of arrays."""
    is_array = isinstance(value, tuple | list | Mapping | str | bytes) or hasattr(value, "__array__")
    return not is_array and (
        isinstance(value, Iterable) or (callable(value) and not isinstance(value, keras.layers.Layer))
    )


def refuse_single_samples(dataset: tf.data.Dataset, what: str) -> None:
    """UserError where the elements of a dataset are no batches."""
    specs = [spec for spec in tf.nest.flatten(dataset.element_spec) if hasattr(spec, "shape")]
    if any(spec.shape.rank == 0 for spec in specs):
        raise UserError(f"{what}: its elements are single samples; must be batches: end it by .batch(n)")
    count = len(dataset.element_spec) if isinstance(dataset.element_spec, tuple) else 1
    if not 1 <= count <= 3:
        raise UserError(f"{what}: its elements are {count} things; must be x, (x, y) or (x, y, sample weights)")
