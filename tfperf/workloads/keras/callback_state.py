"""What callbacks know, as arrays of a checkpoint: Keras' own by what they keep, others by get_state and set_state."""

import json
from pathlib import Path
from typing import Any

import keras
import numpy as np

from tfperf.arrays import AnyArray, ArraysByName
from tfperf.errors import TrainingError
from tfperf.train.snapshots import to_file_type

# what Keras' own keep from epoch to epoch; those that are not here and have no get_state keep a run from being resumed
ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "EarlyStopping": ("wait", "stopped_epoch", "best", "best_epoch", "best_weights"),
    "ReduceLROnPlateau": ("wait", "best", "cooldown_counter"),
    "ModelCheckpoint": (
        "best", "_batches_seen_since_last_saving", "_last_batch_seen", "_current_epoch", "epochs_since_last_save",
    ),
    "LearningRateScheduler": (),
    "TerminateOnNaN": (),
    "TensorBoard": ("_global_train_batch", "_global_test_batch", "_previous_epoch_iterations"),
    "SwapEMAWeights": ("_ema_weights_in_model",),
    "CSVLogger": ("keys",),
}  # fmt: skip
TEXT, LENGTH = "text", "length"


def can_keep_state(callback: keras.callbacks.Callback) -> bool:
    """Whether a callback goes on where it was in a resumed run."""
    own = hasattr(callback, "get_state") and hasattr(callback, "set_state")
    return own or _find_attributes(callback) is not None


def get_state(callback: keras.callbacks.Callback) -> ArraysByName:
    """What it knows. Raises: TrainingError for a state that is not plain values and arrays."""
    if hasattr(callback, "get_state"):
        state = callback.get_state()
    else:
        names = _find_attributes(callback) or ()
        state = {name: getattr(callback, name) for name in names if hasattr(callback, name)}
    if (
        isinstance(callback, keras.callbacks.CSVLogger)
        and callback.csv_file is not None
        and not callback.csv_file.closed
    ):
        callback.csv_file.flush()
        state[LENGTH] = Path(callback.filename).stat().st_size
    try:
        return _encode_state(state)
    except TypeError as error:
        name = type(callback).__name__
        raise TrainingError(
            f"callback {name}: its state holds {error}; must be numbers, texts, lists, dicts, arrays"
        ) from None


def prepare_resume(callback: keras.callbacks.Callback, arrays: ArraysByName) -> None:
    """Before it is told that the training begins: a log goes on where the checkpoint was."""
    state = _decode_state(arrays)
    if isinstance(callback, keras.callbacks.CSVLogger) and LENGTH in state:
        path = Path(callback.filename)
        if path.exists() and path.stat().st_size >= state[LENGTH]:
            with path.open("r+b") as file:
                file.truncate(state[LENGTH])
        callback.append = True


def set_state(callback: keras.callbacks.Callback, arrays: ArraysByName) -> None:
    """Make it know what it knew."""
    state = _decode_state(arrays)
    if hasattr(callback, "set_state"):
        callback.set_state(state)
        return
    for name in _find_attributes(callback) or ():
        if name in state:
            setattr(callback, name, state[name])


def _find_attributes(callback: keras.callbacks.Callback) -> tuple[str, ...] | None:
    """Of Keras' own callbacks alone: a class derived from one may keep more."""
    return ATTRIBUTES.get(type(callback).__name__) if type(callback).__module__.startswith("keras.") else None


def _encode_state(state: Any) -> ArraysByName:
    """One array with the state as JSON, in which arrays have their places."""
    arrays: dict[str, AnyArray] = {}

    def encode(value: Any) -> Any:
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, dict):
            return {"dict": [[encode(key), encode(one)] for key, one in value.items()]}
        if isinstance(value, list | tuple):
            return {type(value).__name__: [encode(one) for one in value]}
        if not hasattr(value, "__array__"):
            raise TypeError(type(value).__name__)
        array = to_file_type(value)
        arrays[f"{len(arrays):05d}"] = array
        return {"array": f"{len(arrays) - 1:05d}"}

    text = json.dumps(encode(state))
    return {TEXT: np.frombuffer(text.encode(), np.uint8).copy(), **arrays}


def _decode_state(arrays: ArraysByName) -> Any:
    def decode(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        ((kind, inner),) = value.items()
        if kind == "array":
            return arrays[inner]
        if kind == "dict":
            return {decode(key): decode(one) for key, one in inner}
        return {"list": list, "tuple": tuple}[kind](decode(one) for one in inner)

    return decode(json.loads(arrays[TEXT].tobytes()))
