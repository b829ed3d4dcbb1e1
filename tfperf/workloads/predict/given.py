"""Cards of what a Python program gives: models, functions and records that are written to files for other processes."""

import glob
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

MOST_LOOKED_AT = 1000  # texts, of which one may be a file's name by mistake
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
        limits = dict(batch) if isinstance(batch, Mapping) else {"records": batch}
        tree["queue"] = {"batch": {name: _make_plain(limit) for name, limit in limits.items()}}
    for key, value in keys.items():
        *above, last = key.split(".")
        place = tree
        for name in above:
            place = place.setdefault(name, {})
        place[last] = _make_plain(value)
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


def _make_plain(value: Any) -> Any:
    """A number of NumPy's as Python's, which YAML knows."""
    return value.item() if isinstance(value, np.generic) else value


def _resolve_code(text: str) -> str:
    """`file.py:function` with the whole path of the file; anything else as it is."""
    file, _, function = text.rpartition(":")
    return f"{Path(file).resolve()}:{function}" if file.endswith(".py") else text


def name_source(source: Any, folder: Path) -> dict[str, Any]:
    """Records as a card names them; those in memory are written to a file. Raises: CardError for anything else."""
    if isinstance(source, str | os.PathLike):
        source = [Path(source)]
    if isinstance(source, list | tuple) and source and all(isinstance(one, str | Path) for one in source):
        source = _find_paths(source)
        if isinstance(source[0], Path):
            forms = {FORMATS.get(one.suffix.lower(), "lines") for one in source}
            if len(forms) > 1:
                raise CardError(f"source: got files of {', '.join(sorted(forms))}; must be of one format")
            return {forms.pop(): [_make_pattern(Path.cwd() / one) for one in source]}
        return _keep_texts(source, folder)
    if not hasattr(source, "__array__") or not len(getattr(source, "shape", ())):
        raise CardError(f"source: got {type(source).__name__}; must be globs of files, an array with a first axis of "
                        "records, or a list of texts")  # fmt: skip
    array = np.asarray(source)
    if array.dtype.kind in "OUS":
        return _keep_texts([_decode_text(one, array.shape) for one in array.ravel()], folder)
    if array.dtype.kind not in "biuf":
        raise CardError(f"source: got an array of {array.dtype}; must be numbers or texts")
    path = folder / "records.npy"
    make_folder(folder)
    with write_atomically(path) as temporary, temporary.open("wb") as stream:
        np.save(stream, array, allow_pickle=False)
    return {"npy": [str(path)]}


def _find_paths(source: Sequence[str | Path]) -> list[Any]:
    """All as paths where the texts among them end as names of files do; texts where there are no paths.

    Raises: CardError where a text is the name of a file, and would be a record.
    """
    texts = [one for one in source if isinstance(one, str)]
    if all(Path(one).suffix.lower() in FORMATS for one in texts):
        return [Path(one) for one in source]
    for one in texts if len(texts) < len(source) else texts[:MOST_LOOKED_AT]:
        if _is_file(one) or len(texts) < len(source):
            raise CardError(f"source: got a list with {one[:80]!r}: names of files must be pathlib.Path where they do "
                            f"not end in {', '.join(FORMATS)}")  # fmt: skip
    return list(source)


def _keep_texts(texts: Sequence[str], folder: Path) -> dict[str, Any]:
    if any("\n" in one or one.endswith("\r") for one in texts):
        raise CardError("source: texts with line breaks; must be without, or in a Parquet file")
    return {"lines": [str(_keep(folder, "records.txt", "".join(f"{one}\n" for one in texts).encode()))]}


def _make_pattern(path: Path) -> str:
    """A glob of a path; where there is a file of just this name, it is meant, whatever signs it has."""
    return glob.escape(str(path)) if path.is_file() else str(path)


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # too long, or with a zero
        return False


def _decode_text(value: Any, shape: tuple[int, ...]) -> str:
    """Raises: CardError for anything but a text in UTF-8, in an array of one axis."""
    if len(shape) != 1:
        raise CardError(f"source: got texts of shape {shape}; must have one axis")
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise CardError(f"source: got the bytes {value[:40]!r}; must be UTF-8") from None
    if not isinstance(value, str):
        raise CardError(f"source: got an array of objects with {value!r:.60}; must be texts, or an array of numbers")
    return value


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
