"""Keras models of the user's own: made by a function, or read from a `.keras` file."""

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import keras

from tfperf.errors import CardError, UserError
from tfperf.runcard.data_sources import ModelSource
from tfperf.sources.code import CodeReference, call_function, list_own_objects


def make_model(source: ModelSource, key: str) -> keras.Model:
    """The model that a card names; `key`: the card's, for messages.

    Raises: UserError where there is none; UserCodeError for what the user's code raises.
    """
    refuse_other_backend()
    if source.build is not None:
        with use_precision(source.precision):
            return build_model(CodeReference.parse(source.build), source.arguments, f"{key}.build")
    assert source.file is not None
    objects = {} if source.custom_objects is None else list_own_objects(source.custom_objects, f"{key}.custom_objects")
    return load_model(source.file, f"{key}.file", objects)


def refuse_other_backend() -> None:
    """CardError where Keras computes with something else than TensorFlow."""
    if (backend := keras.config.backend()) != "tensorflow":
        raise CardError(f"Keras' backend is {backend}; must be tensorflow: set KERAS_BACKEND=tensorflow")


def build_model(reference: CodeReference, arguments: dict[str, Any], key: str) -> keras.Model:
    """The model that a function returns. Raises: UserError where it is none; UserCodeError for what it raises."""
    found = call_function(reference, arguments, key)
    if type(found).__module__.startswith("tf_keras"):
        raise UserError(f"{key}: {reference}: returned a model of tf_keras (Keras 2); must be one of Keras 3: `keras`")
    if not isinstance(found, keras.Model):
        raise UserError(f"{key}: {reference}: returned {type(found).__name__}; must return a keras.Model")
    return found


def load_model(path: Path, key: str, custom_objects: dict[str, Any] | None = None) -> keras.Model:
    """The model of a `.keras` file, in Keras' safe mode: no code of the file is run. Raises: UserError."""
    if not zipfile.is_zipfile(path):
        raise UserError(f"{key}: {path}: is damaged; must be a whole .keras file")
    try:
        found = keras.saving.load_model(path, custom_objects=custom_objects, safe_mode=True)
    except Exception as error:
        hint = "" if custom_objects else "; classes of your own are named by custom_objects: file.py"
        raise UserError(f"{key}: {path}: cannot be loaded: {' '.join(str(error).split())[:1000]}{hint}") from None
    if not isinstance(found, keras.Model):
        raise UserError(f"{key}: {path}: holds {type(found).__name__}; must be a keras.Model")
    return found


@contextmanager
def use_precision(precision: str | None) -> Iterator[None]:
    """Keras' dtype policy for layers that are made within."""
    before = keras.config.dtype_policy()
    try:
        if precision is not None:
            keras.config.set_dtype_policy(precision)
        yield
    finally:
        if precision is not None:  # one that the function has set itself stays
            keras.config.set_dtype_policy(before)
