"""The model as a `.keras` file whose bytes are those of the model alone: no time of writing in it, no address."""

import json
import tempfile
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import keras

from tfperf.results.files import write_atomically

FINAL, BEST = "model.keras", "best.keras"  # of a run: after the last step; with the weights of the best epoch
CONFIG, METADATA, SAVED, SHARED = "config.json", "metadata.json", "date_saved", "shared_object_id"


def write_model(model: keras.Model, path: Path) -> None:
    """Write a model; equal models are equal bytes. Raises: StorageError where the disk does not take it."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / FINAL
        model.save(made)
        with ZipFile(made) as source:
            contents = {name: source.read(name) for name in sorted(source.namelist())}
    contents[METADATA] = _drop_date(contents[METADATA])
    contents[CONFIG] = _replace_addresses(contents[CONFIG])
    with write_atomically(path, sum(map(len, contents.values()))) as new, ZipFile(new, "w", ZIP_STORED) as target:
        for name, content in contents.items():
            target.writestr(ZipInfo(name), content)


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
