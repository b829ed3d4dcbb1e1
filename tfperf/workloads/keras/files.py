"""The model as a `.keras` file whose bytes are those of the model alone: no time of writing in it, no address."""

import json
import tempfile
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import keras

from tfperf.errors import StorageError
from tfperf.results.files import write_atomically, write_hdf5
from tfperf.train.snapshots import to_file_type

FINAL, BEST = "model.keras", "best.keras"  # of a run: after the last step; with the weights of the best epoch
WEIGHTS = "weights.h5"  # in their place, of a model that Keras cannot save
CONFIG, METADATA, SAVED, SHARED = "config.json", "metadata.json", "date_saved", "shared_object_id"


def write_model(model: keras.Model, path: Path) -> None:
    """Write a model; equal models are equal bytes. Raises: StorageError where the disk does not take it."""
    try:
        contents = _save(model, path.parent)
    except OSError as error:
        raise StorageError(f"{path}: could not be written: {error.strerror}; --resume writes it again") from None
    contents[METADATA] = _drop_date(contents[METADATA])
    contents[CONFIG] = _replace_addresses(contents[CONFIG])
    with write_atomically(path, sum(map(len, contents.values()))) as new, ZipFile(new, "w", ZIP_STORED) as target:
        for name, content in contents.items():
            target.writestr(ZipInfo(name), content)


def _save(model: keras.Model, folder: Path) -> dict[str, bytes]:
    """What Keras writes, by its names."""
    with tempfile.TemporaryDirectory(suffix=".tmp", dir=folder) as place:
        made = Path(place) / FINAL
        model.save(made)
        with ZipFile(made) as source:
            return {name: source.read(name) for name in sorted(source.namelist())}


def find_unsavable(model: keras.Model) -> str | None:
    """Why Keras cannot save a model, in words; None where it can."""
    try:
        keras.saving.serialize_keras_object(model)
    except Exception as error:  # of the user's own get_config
        return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    return None


def write_variables(model: keras.Model, path: Path) -> None:
    """Write all variables of a model to HDF5, by number and path. Raises: StorageError."""
    with write_hdf5(path) as file:
        for number, variable in enumerate(model.variables):
            file[f"{number:05d} {variable.path.replace('/', '.')}"] = to_file_type(variable.numpy())


def _drop_date(text: bytes) -> bytes:
    kept = {key: value for key, value in json.loads(text).items() if key != SAVED}
    return json.dumps(kept).encode()


def _replace_addresses(text: bytes) -> bytes:
    """Objects that a config names several times have addresses for numbers: those by first mention in their place."""
    numbers: dict[Any, int] = {}

    def replace_address(found: dict[str, Any]) -> dict[str, Any]:
        if found.get(SHARED) is not None:
            found[SHARED] = numbers.setdefault(found[SHARED], len(numbers) + 1)
        return found

    return json.dumps(json.loads(text, object_hook=replace_address)).encode()
