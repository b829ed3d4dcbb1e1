"""results.h5 read with h5py alone, and held against what the package reads."""

import json
from dataclasses import fields
from pathlib import Path

import h5py
import numpy as np

from tests.fuzz.hdf5 import edit
from tfperf.results.state import Identity
from tfperf.workloads.pdf.results import store
from tfperf.workloads.pdf.results.record import FitResult, ReplicaHistory, Replicas
from tfperf.workloads.translate import results as translation

IDENTITY = Identity("c" * 32, "a" * 64)


def texts(values):
    return tuple(one.decode() if isinstance(one, bytes) else str(one) for one in np.atleast_1d(values))


def compare(path, steps):
    """The results of a fit. Raises: UserError where they are refused."""
    path = Path(path)
    edit(path, steps)
    found = store.read(path, IDENTITY)
    with h5py.File(path) as file:
        assert found.title == texts(file.attrs["title"])[0] and found.q0 == float(file.attrs["q0"])
        assert texts(file.attrs["run"]) == (IDENTITY.run,) and texts(file.attrs["digest"]) == (IDENTITY.digest,)
        equal(found.x, file["x"])
        equal(found.pdf, file["pdf"])
        assert tuple(found.weights) == texts(file["weights"].attrs["names"])
        for name, values in found.weights.items():
            equal(values, file["weights"][name])
        record(found.replicas, file["replicas"])
        record(found.history, file["history"])
        assert tuple(d.name for d in found.datasets) == texts(file["datasets"].attrs["names"])
        for dataset in found.datasets:
            record(dataset, file["datasets"][dataset.name])
        assert json.dumps(found.summary) == json.dumps(json.loads(texts(file["summary"][()])[0]))
    consistent(found)


def record(found, group):
    for f in fields(found):
        value = getattr(found, f.name)
        if value is None:  # of a version without it
            assert f.name not in group
            continue
        stored = group[f.name] if f.name in group else group.attrs[f.name]
        if isinstance(value, tuple):
            assert value == texts(stored[()]), f.name
        elif isinstance(value, str):
            assert (value,) == texts(stored), f.name
        elif isinstance(stored, h5py.Dataset):
            equal(value, stored)
        else:
            assert np.array_equal(value, stored, equal_nan=True), f.name


def equal(found, stored):
    assert found.dtype == stored.dtype and found.shape == stored.shape, stored.name
    assert found.tobytes() == stored[()].tobytes(), stored.name


def consistent(found: FitResult):
    """Shapes fit together, whatever the file says."""
    r, f, x = found.pdf.shape
    assert f == 8 and found.x.shape == (x,) and np.all(np.diff(found.x) > 0)
    for one in fields(Replicas):
        assert len(getattr(found.replicas, one.name)) == r, one.name
    ids = found.replicas.id.tolist()
    assert ids == sorted(set(ids)) and all(i >= 1 for i in ids)
    assert all(len(values) == r for values in found.weights.values())
    for d in found.datasets:
        n = len(d.cv)
        assert d.predictions.shape == (r, n) and d.kin.shape[0] == len(d.sigma) == len(d.mean) == n
    for one in fields(ReplicaHistory):
        assert (
            getattr(found.history, one.name).shape[: 1 + (one.name != "step")]
            == (len(found.history.step), r)[: 1 + (one.name != "step")]
        )


def compare_translation(path, steps):
    """The results of a translation. Raises: UserError where they are refused."""
    path = Path(path)
    edit(path, steps)
    found = translation.read(path, IDENTITY)
    with h5py.File(path) as file:
        assert found.title == texts(file.attrs["title"])[0] and found.best_step == int(file.attrs["best_step"])
        assert tuple(found.weights) == texts(file["weights"].attrs["names"])
        for name, values in found.weights.items():
            equal(values, file["weights"][name])
        record(found.history, file["history"])
        assert json.dumps(found.summary) == json.dumps(json.loads(texts(file["summary"][()])[0]))
    assert len(found.history.validation_step) == len(found.history.validation_loss)
