"""The record of a fit as one HDF5 file, results.h5, written atomically and read back bit by bit.

Layout, version 1. R replicas, X grid nodes, F flavours, N points, H history rows. Each dataset carries fletcher32
checksums and, where it has one, the attribute `unit`. Text is UTF-8 of fixed length, in attributes too (arrays of one):
so it has checksums, which HDF5 does not give to text of variable length.

    /                 attributes: kind ("tfperf results"), layout (int), title, q0 [GeV],
                      run and digest (whose results they are)
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
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from tfperf.results.files import atomic_hdf5
from tfperf.results.hdf5 import decoded, encoded, opened, put_array, put_identity, put_texts, refuse_others
from tfperf.results.record import EVOLUTION, DatasetResult, FitResult, History, Replicas
from tfperf.results.state import Identity

KIND = "tfperf results"
LAYOUT = 1


def write(path: Path, result: FitResult, identity: Identity | None = None) -> None:
    """Write `result` to `path`; what was there before stays until all bytes are on the disk.

    Raises: StorageError where the disk does not take it.
    """
    with atomic_hdf5(path) as file:
        file.attrs.update({"kind": encoded(KIND), "layout": LAYOUT, "title": encoded(result.title)})
        put_identity(file, identity)
        file.attrs["q0"] = float(result.q0)
        put_array(file, "x", result.x)
        put_array(file, "pdf", result.pdf)
        file["pdf"].attrs["flavours"] = encoded(*EVOLUTION)
        _put_record(file.create_group("replicas"), result.replicas)
        _put_record(file.create_group("history"), result.history)
        file.create_group("weights").attrs["names"] = encoded(*result.weights)
        for name, weights in result.weights.items():
            put_array(file["weights"], name, weights)
        file.create_group("datasets").attrs["names"] = encoded(*(d.name for d in result.datasets))
        for dataset in result.datasets:
            _put_record(file["datasets"].create_group(dataset.name), dataset)
        put_texts(file, "summary", (as_json(result.summary),))


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


def read(path: Path, identity: Identity | None = None) -> FitResult:
    """The record that `write` stored at `path`, every bit of its arrays; of the summary, what JSON can hold.

    Raises: RunDirectoryError where there is none, where it is damaged, or where it has another layout.
    """
    with opened(path, KIND, LAYOUT) as file:
        refuse_others(path, file, identity)
        weights, sets = file["weights"], file["datasets"]
        return FitResult(
            title=decoded(file.attrs["title"])[0], q0=float(file.attrs["q0"]), x=file["x"][()], pdf=file["pdf"][()],
            weights={n: weights[n][()] for n in decoded(weights.attrs["names"])},
            replicas=Replicas(**_get_record(file["replicas"], Replicas)),
            datasets=tuple(DatasetResult(**_get_record(sets[n], DatasetResult)) for n in decoded(sets.attrs["names"])),
            history=History(**_get_record(file["history"], History)),
            summary=json.loads(decoded(file["summary"][()])[0]),
        )  # fmt: skip


def _put_record(group: h5py.Group, record: Replicas | History | DatasetResult) -> None:
    """Arrays and columns of text become datasets, single texts and numbers attributes."""
    for f in fields(record):
        value = getattr(record, f.name)
        if isinstance(value, tuple):
            put_texts(group, f.name, value)
        elif isinstance(value, str):
            group.attrs[f.name] = encoded(value)
        elif np.ndim(value) > 0:
            put_array(group, f.name, value)
        else:
            group.attrs[f.name] = value


def _get_record(group: h5py.Group, record: type[Replicas | History | DatasetResult]) -> dict[str, Any]:
    return {f.name: _get_value(group, f.name) for f in fields(record)}


def _get_value(group: h5py.Group, name: str) -> Any:
    if name not in group:
        value = group.attrs[name]
        return decoded(value)[0] if isinstance(value, np.ndarray) else float(value)
    value = group[name][()]
    return decoded(value) if value.dtype.kind == "S" else value
