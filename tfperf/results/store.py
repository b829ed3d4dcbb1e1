"""The record of a fit as one HDF5 file, results.h5, written atomically and read back bit by bit.

Layout, version 1. R replicas, X grid nodes, F flavours, N points, H history rows. Each dataset carries fletcher32
checksums and, where it has one, the attribute `unit`. Text is UTF-8 of fixed length, in attributes too (arrays of one):
so it has checksums, which HDF5 does not give to text of variable length.

    /                 attributes: kind ("tfperf results"), layout (int), title, q0 [GeV]
    x                 (X) grid nodes
    pdf               (R, F, X) x f(x, Q0); attribute `flavours` names the second axis
    replicas/         one dataset per field of `Replicas`, each (R) or (R, F)
    weights/          one dataset per variable, (R, ...); slashes in a name make groups; attribute `names`: their order
    datasets/<set>/   one dataset per array field of `DatasetResult`, its numbers and texts as attributes
    history/          one dataset per field of `History`, (H) or (H, R)
    summary           (1) report.json as text
Attribute `names` of datasets/ lists the sets in the order of the fit.
"""

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from tfperf.errors import RunDirectoryError
from tfperf.results.files import atomic_hdf5
from tfperf.results.record import EVOLUTION, DatasetResult, FitResult, History, Replicas

KIND = "tfperf results"
LAYOUT = 1
UNITS: Mapping[str, str] = {
    "best_step": "steps", "stop_step": "steps", "step": "steps",
    "chi2_training": "per point", "chi2_validation": "per point", "chi2_experimental": "per point",
    "training": "per point", "validation": "per point", "experimental": "per point",
    "x": "1", "pdf": "1", "positivity": "unit of the predictions", "arc_length": "1",
    "sigma": "unit of cv", "predictions": "unit of cv", "mean": "unit of cv",
}  # fmt: skip


def write(path: Path, result: FitResult) -> None:
    """Write `result` to `path`; what was there before stays until all bytes are on the disk.

    Raises: StorageError where the disk does not take it.
    """
    with atomic_hdf5(path) as file:
        file.attrs.update({"kind": _encoded(KIND), "layout": LAYOUT, "title": _encoded(result.title)})
        file.attrs["q0"] = float(result.q0)
        _put_array(file, "x", result.x)
        _put_array(file, "pdf", result.pdf)
        file["pdf"].attrs["flavours"] = _encoded(*EVOLUTION)
        _put_record(file.create_group("replicas"), result.replicas)
        _put_record(file.create_group("history"), result.history)
        file.create_group("weights").attrs["names"] = _encoded(*result.weights)
        for name, weights in result.weights.items():
            _put_array(file["weights"], name, weights)
        file.create_group("datasets").attrs["names"] = _encoded(*(d.name for d in result.datasets))
        for dataset in result.datasets:
            _put_record(file["datasets"].create_group(dataset.name), dataset)
        _put_texts(file, "summary", (as_json(result.summary),))


def as_json(summary: Mapping[str, Any], indent: int | None = None) -> str:
    """The summary as JSON text; NumPy's numbers as plain ones, null for what is not finite: it was not measured."""
    return json.dumps(_plain(summary), ensure_ascii=False, indent=indent, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [_plain(v) for v in value]
    number = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(number, float) and not math.isfinite(number) else number


def read(path: Path) -> FitResult:
    """The record that `write` stored at `path`, every bit of its arrays; of the summary, what JSON can hold.

    Raises: RunDirectoryError where there is none, where it is damaged, or where it has another layout.
    """
    with _opened(path) as file:
        weights, sets = file["weights"], file["datasets"]
        return FitResult(
            title=_texts(file.attrs["title"])[0], q0=float(file.attrs["q0"]), x=file["x"][()], pdf=file["pdf"][()],
            weights={n: weights[n][()] for n in _texts(weights.attrs["names"])},
            replicas=Replicas(**_get_record(file["replicas"], Replicas)),
            datasets=tuple(DatasetResult(**_get_record(sets[n], DatasetResult)) for n in _texts(sets.attrs["names"])),
            history=History(**_get_record(file["history"], History)),
            summary=json.loads(_texts(file["summary"][()])[0]),
        )  # fmt: skip


@contextmanager
def _opened(path: Path) -> Iterator[h5py.File]:
    if not path.is_file():
        raise RunDirectoryError(f"{path}: no such file; a finished run has one")
    try:
        with h5py.File(path, "r") as file:
            kind, layout = file.attrs.get("kind"), file.attrs.get("layout")
            kind = _texts(kind)[0] if isinstance(kind, np.ndarray) else kind
            if kind != KIND or layout != LAYOUT:
                given = f"kind {kind!r}, layout {layout!r}"
                raise RunDirectoryError(f"{path}: got {given}; this version reads kind {KIND!r}, layout {LAYOUT}")
            yield file
    # HDF5 has no error class of its own: damage comes out as any of these
    except (OSError, KeyError, ValueError, TypeError, AttributeError, RuntimeError) as error:
        raise RunDirectoryError(f"{path}: damaged, it cannot be read as the results of a fit ({error})") from error


def _put_record(group: h5py.Group, record: Replicas | History | DatasetResult) -> None:
    """Arrays and columns of text become datasets, single texts and numbers attributes."""
    for f in fields(record):
        value = getattr(record, f.name)
        if isinstance(value, tuple):
            _put_texts(group, f.name, value)
        elif isinstance(value, str):
            group.attrs[f.name] = _encoded(value)
        elif np.ndim(value) > 0:
            _put_array(group, f.name, value)
        else:
            group.attrs[f.name] = value


def _get_record(group: h5py.Group, record: type[Replicas | History | DatasetResult]) -> dict[str, Any]:
    return {f.name: _get_value(group, f.name) for f in fields(record)}


def _get_value(group: h5py.Group, name: str) -> Any:
    if name not in group:
        value = group.attrs[name]
        return _texts(value)[0] if isinstance(value, np.ndarray) else float(value)
    value = group[name][()]
    return _texts(value) if value.dtype.kind == "S" else value


def _put_array(group: h5py.Group, name: str, array: NDArray[Any]) -> None:
    # HDF5 cannot chunk a scalar or an empty array, and compresses a small one to more bytes than it has
    filters: dict[str, Any] = {"fletcher32": True} if array.size else {}
    if array.nbytes > 4096:
        filters |= {"compression": "gzip", "shuffle": True}
    dataset = group.create_dataset(name, data=array, **filters)
    leaf = name.rsplit("/", 1)[-1]
    if leaf in UNITS and not group.name.startswith("/weights"):
        dataset.attrs["unit"] = UNITS[leaf]


def _put_texts(group: h5py.Group, name: str, texts: tuple[str, ...]) -> None:
    group.create_dataset(name, data=_encoded(*texts), **({"fletcher32": True} if texts else {}))


def _encoded(*texts: str) -> NDArray[np.bytes_]:
    """Texts as an array of fixed length: HDF5 keeps those of variable length in a heap without checksums."""
    encoded = [t.encode() for t in texts]
    length = max((len(t) for t in encoded), default=1) or 1
    return np.array(encoded, dtype=h5py.string_dtype("utf-8", length))


def _texts(array: NDArray[np.bytes_]) -> tuple[str, ...]:
    return tuple(t.decode() for t in array)
