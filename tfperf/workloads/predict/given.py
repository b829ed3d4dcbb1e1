"""Cards of what a Python program gives: models, functions and records that are written to files for other processes."""

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from tfperf.errors import CardError
from tfperf.results.files import make_folder, write_atomically
from tfperf.sources.references import name_function

CODE = "_code"  # after the name of a run directory: what its card names
FORMATS = {".h5": "hdf5", ".hdf5": "hdf5", ".parquet": "parquet", ".npy": "npy"}


def write_predict_card(
    model: Any, source: Any, output: Path, preprocess: Any, columns: Sequence[str], id: str | None, batch: Any,
    keys: Mapping[str, Any],
) -> Path:  # fmt: skip
    """The path of a card of what a program gives, beside the run directory, with all that only this program has.

    The same model and records give the same files, so that a run goes on in another process. Raises: CardError,
    UserError for what cannot be kept.
    """
    folder = output.resolve().with_name(f"{output.name}{CODE}")
    tree: dict[str, Any] = {
        "workload": "predict", "model": name_model(model, folder),
        "source": {**name_source(source, folder), **({"columns": list(columns)} if columns else {}),
                   **({} if id is None else {"id": id})},
    }  # fmt: skip
    if preprocess is not None:
        tree["preprocess"] = name_preprocess(preprocess, folder)
    if batch is not None:
        tree["queue"] = {"batch": dict(batch) if isinstance(batch, Mapping) else {"records": batch}}
    for key, value in keys.items():
        *above, last = key.split(".")
        place = tree
        for name in above:
            place = place.setdefault(name, {})
        place[last] = value
    make_folder(folder)
    with write_atomically(folder / "card.yaml") as temporary:
        temporary.write_text(yaml.safe_dump(tree), encoding="utf-8")
    return folder / "card.yaml"


def name_model(model: Any, folder: Path) -> dict[str, Any]:
    """A model as a card names it; one in memory is written to a file, whose name tells config and weights."""
    if isinstance(model, str | os.PathLike):
        text = os.fspath(model)
        is_file = text.endswith(".keras")
        return {"file": str(Path(text).resolve())} if is_file else {"build": _resolve_code(text)}
    if hasattr(model, "get_weights") and hasattr(model, "save"):
        digest = hashlib.sha256(json.dumps(model.get_config(), sort_keys=True, default=str).encode())
        for one in model.get_weights():
            digest.update(np.ascontiguousarray(one).tobytes())
        path = folder / f"model-{digest.hexdigest()[:16]}.keras"
        if not path.exists():
            make_folder(folder)
            with write_atomically(path) as temporary:
                kept = temporary.with_name(f"{temporary.name}.keras")  # a name that Keras takes
                model.save(kept)
                kept.replace(temporary)
        return {"file": str(path)}
    if not callable(model):
        raise CardError(f"model: got {type(model).__name__}; must be a keras.Model, a function that returns one, a "
                        ".keras file, or file.py:function")  # fmt: skip
    return {"build": str(name_function(model, folder, "model.build"))}


def _resolve_code(text: str) -> str:
    """`file.py:function` with the whole path of the file; anything else as it is."""
    file, _, function = text.rpartition(":")
    return f"{Path(file).resolve()}:{function}" if file.endswith(".py") else text


def name_source(source: Any, folder: Path) -> dict[str, Any]:
    """Records as a card names them; those in memory are written to a file."""
    if isinstance(source, str | os.PathLike):
        source = [Path(source)]
    if isinstance(source, list | tuple) and all(Path(one).suffix in FORMATS for one in source if isinstance(one, str)):
        source = [Path(one) if isinstance(one, str) else one for one in source]
    if isinstance(source, list | tuple) and source and all(isinstance(one, Path) for one in source):
        forms = {FORMATS.get(one.suffix.lower(), "lines") for one in source}
        if len(forms) > 1:
            raise CardError(f"source: got files of {', '.join(sorted(forms))}; must be of one format")
        return {forms.pop(): [str(Path.cwd() / one) for one in source]}
    if isinstance(source, list | tuple) and source and all(isinstance(one, str) for one in source):
        if any("\n" in one for one in source):
            raise CardError("source: texts with line breaks; must be without, or in a Parquet file")
        return {"lines": [str(_keep(folder, "records.txt", "".join(f"{one}\n" for one in source).encode()))]}
    if not hasattr(source, "__array__") or not len(getattr(source, "shape", ())):
        raise CardError(f"source: got {type(source).__name__}; must be globs of files, an array with a first axis of "
                        "records, or a list of texts")  # fmt: skip
    array = np.asarray(source)
    if array.dtype.kind in "OUS":
        return name_source([str(one) for one in array.ravel()], folder)
    path = folder / "records.npy"
    make_folder(folder)
    with write_atomically(path) as temporary, temporary.open("wb") as stream:
        np.save(stream, array, allow_pickle=False)
    return {"npy": [str(path)]}


def _keep(folder: Path, name: str, content: bytes) -> Path:
    make_folder(folder)
    with write_atomically(folder / name) as temporary:
        temporary.write_bytes(content)
    return folder / name


def name_preprocess(preprocess: Any, folder: Path) -> dict[str, Any]:
    """A preparation as a card names it."""
    if isinstance(preprocess, str | os.PathLike):
        text = os.fspath(preprocess)
        is_tokenizer = text.endswith(".json")
        return {"tokenizer": str(Path(text).resolve())} if is_tokenizer else {"build": _resolve_code(text)}
    if not callable(preprocess):
        raise CardError(f"preprocess: got {type(preprocess).__name__}; must be a function, a tokenizer.json, or "
                        "file.py:function")  # fmt: skip
    return {"build": str(name_function(_wrap(preprocess), folder, "preprocess.build"))}


def _wrap(function: Callable[..., Any]) -> Callable[[], Callable[..., Any]]:
    return lambda: function
