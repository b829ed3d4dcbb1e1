"""Keras models of the user's own: made by a function, or read from a `.keras` file."""

from pathlib import Path
from typing import Any

import keras

from tfperf.errors import UserError
from tfperf.sources.code import CodeReference, call_function


def build_model(reference: CodeReference, arguments: dict[str, Any], key: str) -> keras.Model:
    """The model that a function returns. Raises: UserError where it is none; UserCodeError for what it raises."""
    found = call_function(reference, arguments, key)
    if not isinstance(found, keras.Model):
        raise UserError(f"{key}: {reference}: returned {type(found).__name__}; must return a keras.Model")
    return found


def load_model(path: Path, key: str) -> keras.Model:
    """The model of a `.keras` file, in Keras' safe mode: no code of the file is run. Raises: UserError."""
    try:
        found = keras.saving.load_model(path, safe_mode=True)
    except Exception as error:
        reason = " ".join(str(error).split())[:300]
        raise UserError(f"{key}: {path}: cannot be loaded: {reason}") from None
    if not isinstance(found, keras.Model):
        raise UserError(f"{key}: {path}: holds {type(found).__name__}; must be a keras.Model")
    return found
