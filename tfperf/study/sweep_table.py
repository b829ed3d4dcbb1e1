"""The trials of a sweep as one HDF5 table, results.h5, written atomically.

Layout, version 2. T trials in the order of the card's points, repeat by repeat; S samples at most.

    /             attributes: kind ("tfperf sweep"), layout (int), title
    values/<key>  (T) the swept value: numbers where all of them are numbers, else text as JSON
    repeat        (T) from 1
    position      (T) from 1: which of all trials ended first, second, ...
    ok            (T) whether it was measured; error (T): why not, as text
    seconds       (T) from the trial's start to its end
    ms_per_step   (T, 3) median and quartiles [ms]; attribute `columns` names them; nan where not measured
    samples       (T, S) [ms], nan behind the last
    record        (T) all that the trial told, as JSON
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from tfperf.arrays import AnyArray, BytesArray, Float64Array
from tfperf.results.files import write_hdf5
from tfperf.results.json_text import to_json
from tfperf.study.finished_trials import FinishedTrial

KIND, LAYOUT = "tfperf sweep", 2
COLUMNS = ("median", "q1", "q3")


def write_table(path: Path, title: str, found: Sequence[FinishedTrial], positions: Sequence[int]) -> None:
    """Write the trials. Raises: StorageError where the disk does not take it."""
    with write_hdf5(path) as file:
        file.attrs.update({"kind": KIND, "layout": LAYOUT, "title": title})
        _write_array(file, "repeat", np.array([trial.repeat for trial in found], np.int64))
        _write_array(file, "position", np.array(positions, np.int64))
        _write_array(file, "ok", np.array([trial.ok for trial in found], bool))
        _write_array(file, "error", _encode_texts([trial.error for trial in found]))
        _write_array(file, "seconds", np.array([trial.seconds for trial in found]), "s")
        _write_array(file, "ms_per_step", np.array([_get_quartiles(trial) for trial in found]).reshape(-1, 3), "ms")
        file["ms_per_step"].attrs["columns"] = _encode_texts(COLUMNS)
        _write_array(file, "samples", _stack_samples(found), "ms")
        _write_array(file, "record", _encode_texts([to_json(trial.record) for trial in found]))
        for key in found[0].values if found else ():
            _write_array(file, f"values/{key}", _make_column([trial.values[key] for trial in found]))


def _write_array(file: h5py.File, name: str, array: AnyArray, unit: str = "") -> None:
    dataset = file.create_dataset(name, data=array, **({"fletcher32": True} if array.size else {}))
    if unit:
        dataset.attrs["unit"] = unit


def _get_quartiles(trial: FinishedTrial) -> list[float]:
    times = trial.record.get("ms_per_step", {})
    return [np.nan if times.get(name) is None else float(times[name]) for name in COLUMNS]


def _stack_samples(found: Sequence[FinishedTrial]) -> Float64Array:
    samples = [trial.record.get("samples_ms") or [] for trial in found]
    table = np.full((len(found), max(map(len, samples), default=0)), np.nan)
    for line, values in zip(table, samples, strict=True):
        line[: len(values)] = values
    return table


def _make_column(values: Sequence[Any]) -> AnyArray:
    kinds = {type(value) for value in values}
    if kinds in ({bool}, {int}):
        return np.array(values)
    if kinds <= {int, float}:
        return np.array(values, np.float64)
    return _encode_texts([value if kinds == {str} else json.dumps(value) for value in values])


def _encode_texts(texts: Sequence[str]) -> BytesArray:
    """Of fixed length: HDF5 keeps those of variable length in a heap without checksums."""
    encoded = [text.encode() for text in texts]
    length = max(map(len, encoded), default=1) or 1
    return np.array(encoded, dtype=h5py.string_dtype("utf-8", length))
