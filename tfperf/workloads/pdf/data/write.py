"""Writes data packs (layout: tfperf/workloads/pdf/data/pack.py): complete and valid, or not at all."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import h5py
import numpy as np

from tfperf.arrays import AnyArray, ArraysByName, Float64Array
from tfperf.errors import PackError
from tfperf.results.files import write_hdf5
from tfperf.workloads.pdf.data.fields import suggest_nearest
from tfperf.workloads.pdf.data.pack import LAYOUT, list_sets, open_pack
from tfperf.workloads.pdf.data.validate import FLAVOURS, check, validate

Attribute = str | int | float | Sequence[str] | Sequence[int] | Float64Array


@dataclass(frozen=True)
class StoredSet:
    """One dataset (`name`) or positivity set (`positivity/name`) as it is stored: its arrays by field name.

    Attributes are its operation, experiment and what else is worth keeping; `columns` names the columns of `kin`.
    """

    name: str
    arrays: ArraysByName
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    columns: Sequence[str] = ()


def write_pack(path: Path, x: Float64Array, attributes: Mapping[str, Attribute], sets: Iterable[StoredSet]) -> None:
    """Write a pack atomically; what `path` held before stays when this fails.

    `attributes` has at least Q0 (GeV) and provenance; flavours and layout are added. `sets` may be a generator: one
    is held at a time, beside the compressed file. x: (X) nodes.

    Raises: PackError with all faults when the result would be no valid pack; StorageError when it cannot be stored.
    """
    with write_hdf5(path) as file:
        file.attrs.update({"flavours": FLAVOURS, **attributes, "layout": LAYOUT})
        _store(file, "x", np.asarray(x))
        for one in sets:
            _write_set(file, one)
        refuse_faults(file, path)


def write_t0(source: Path, target: Path, t0: Mapping[str, Float64Array], provenance: str) -> None:
    """Copy a pack to `target` (which may be `source`) with new t0 predictions for the named datasets.

    t0: predictions (N) by dataset, in the unit of cv; `provenance`, where they come from, becomes the datasets'
    attribute `t0_provenance`.

    Raises: PackError for unknown datasets and for predictions that no fit could use; StorageError as `write_pack`.
    """
    validate(source)
    with open_pack(source) as old, write_hdf5(target) as new:
        _refuse_unknown(t0, list_sets(old), source)
        new.attrs.update(old.attrs)
        for name in old:
            old.copy(name, new)
        for name, predictions in t0.items():
            new[name].pop("t0", None)
            _store(new[name], "t0", np.asarray(predictions, np.float64))
            new[name].attrs["t0_provenance"] = provenance
        refuse_faults(new, target)


def _refuse_unknown(wanted: Iterable[str], names: Sequence[str], path: Path) -> None:
    unknown = [n for n in wanted if n not in names]
    if unknown:
        there = ", ".join(names)
        raise PackError(*(f"{path}: {n}: no such dataset{suggest_nearest(n, names)}; it has {there}" for n in unknown))


def _write_set(file: h5py.File, one: StoredSet) -> None:
    stored = file.create_group(one.name)
    stored.attrs.update(one.attributes)
    for name, values in one.arrays.items():
        _store(stored, name, values)
    if one.columns:
        stored["kin"].attrs["columns"] = list(one.columns)


def _store(parent: h5py.Group, name: str, values: AnyArray) -> None:
    """One array with checksums that catch flipped bits; those of several axes compressed."""
    if not values.size:
        parent[name] = values
        return
    packed = {"compression": "gzip", "compression_opts": 9, "shuffle": True} if values.ndim > 1 else {}
    parent.create_dataset(name, data=values, chunks=True, fletcher32=True, **packed)


def refuse_faults(file: h5py.File, path: Path) -> None:
    """PackError with all faults of a pack that is being written."""
    file.flush()
    if faults := check(file, path):
        raise PackError(*faults)
