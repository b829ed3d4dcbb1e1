"""What a training of replicas leaves, and the file that holds it: results.h5 of a run, and a saved ensemble.

Layout, version 1. R replicas, E epochs. Checksums and texts are as in results/hdf5.py.

    /                 attributes: kind ("tfperf ensemble"), layout (int), title, run and digest of a run's
    replicas/         id, seed, attempt, best_epoch, stop_epoch (R) and status
    weights/          one dataset per variable, (R, ...), by number and name; attribute `names`: their order
    history/          one dataset per loss and metric (E, R); nan once a replica had stopped; attribute `names`
    model             (B) the bytes of a .keras file of one replica; none where Keras cannot save the model
    summary           (1) report.json as text
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from tfperf.arrays import ArraysByName, Float64Array, Int64Array
from tfperf.results import hdf5
from tfperf.results.files import write_hdf5
from tfperf.results.json_text import to_json
from tfperf.results.state import Identity

KIND, LAYOUT = "tfperf ensemble", 1
STOPPED, ALL_EPOCHS, QUARANTINED = "stopped", "all_epochs", "quarantined"
STATUSES = (STOPPED, ALL_EPOCHS, QUARANTINED)
INTEGERS = ("id", "seed", "attempt", "best_epoch", "stop_epoch")


@dataclass(frozen=True)
class ReplicaTable:
    """One row for each replica, by ascending ids."""

    id: Int64Array
    seed: Int64Array  # of its model, dropout and order
    attempt: Int64Array
    best_epoch: Int64Array  # counted from 1; 0: none
    stop_epoch: Int64Array  # epochs that it was trained for
    status: tuple[str, ...]

    @property
    def is_usable(self) -> Any:
        """Those that did not break (R)."""
        return np.array([one != QUARANTINED for one in self.status])


@dataclass(frozen=True)
class EnsembleOutcome:
    """R replicas at their end."""

    title: str
    replicas: ReplicaTable
    weights: ArraysByName  # (R, ...) each, the best ones
    history: Mapping[str, Float64Array]  # (E, R) each
    model: bytes  # a .keras file; empty: it cannot be saved
    summary: Mapping[str, Any]

    def find_best(self, name: str) -> Float64Array:
        """The lowest finite value of a loss of each replica (R); infinite where it has none."""
        values = self.history[name]
        best: Float64Array = np.where(np.isfinite(values), values, np.inf).min(axis=0, initial=np.inf)
        return best


def is_ensemble(path: Path) -> bool:
    """Whether a file is one of these, as far as its first attribute says."""
    try:
        with h5py.File(path) as file:
            return bool(hdf5.decode_texts(np.atleast_1d(file.attrs["kind"])) == (KIND,))
    except (OSError, KeyError, ValueError, TypeError, AttributeError):
        return False


def merge(one: EnsembleOutcome, other: EnsembleOutcome) -> EnsembleOutcome:
    """Both together, by ascending ids; of a replica that is in both the second."""
    kept = np.flatnonzero(~np.isin(one.replicas.id, other.replicas.id))
    ids = np.concatenate([one.replicas.id[kept], other.replicas.id])
    order = np.argsort(ids, kind="stable")

    def join(a: Any, b: Any) -> Any:
        return np.concatenate([a[kept], b])[order]

    table = {name: join(getattr(one.replicas, name), getattr(other.replicas, name)) for name in INTEGERS}
    status = join(np.array(one.replicas.status), np.array(other.replicas.status)).tolist()
    history = {
        name: np.concatenate([a[:, kept], b], axis=1)[:, order]
        for name in other.history
        for a, b in [_pad(one.history[name], other.history[name])]
    }
    return EnsembleOutcome(
        other.title, ReplicaTable(**table, status=tuple(status)),
        {name: join(one.weights[name], other.weights[name]) for name in other.weights}, history,
        other.model, other.summary,
    )  # fmt: skip


def _pad(*histories: Float64Array) -> list[Float64Array]:
    """Histories with as many epochs as the longest has."""
    most = max(map(len, histories))
    return [np.concatenate([one, np.full((most - len(one), one.shape[1]), np.nan)]) for one in histories]


def write(path: Path, outcome: EnsembleOutcome, identity: Identity | None = None) -> None:
    """Write it; what was there before stays until all bytes are on the disk. Raises: StorageError."""
    with write_hdf5(path) as file:
        texts = {"kind": KIND, "title": outcome.title}
        file.attrs.update({name: hdf5.encode_texts(text) for name, text in texts.items()} | {"layout": LAYOUT})
        hdf5.write_identity(file, identity)
        group = file.create_group("replicas")
        for name in INTEGERS:
            hdf5.write_array(group, name, getattr(outcome.replicas, name))
        hdf5.write_texts(group, "status", outcome.replicas.status)
        for part, arrays in (("weights", outcome.weights), ("history", outcome.history)):
            file.create_group(part).attrs["names"] = hdf5.encode_texts(*arrays)
            for name, values in arrays.items():
                hdf5.write_array(file[part], name, values)
        hdf5.write_array(file, "model", np.frombuffer(outcome.model, np.uint8))
        hdf5.write_texts(file, "summary", (to_json(outcome.summary),))


def read(path: Path, identity: Identity | None = None) -> EnsembleOutcome:
    """What `write` stored. Raises: RunDirectoryError where there is none, or it is damaged or something else."""
    with hdf5.open_checked(path, KIND, LAYOUT) as file:
        hdf5.refuse_others(path, file, identity)
        integers = {name: file.read_array(f"replicas/{name}", "integer", "R") for name in INTEGERS}
        status = file.read_texts("replicas/status", "R")
        if not {*status} <= {*STATUSES} or np.any(np.diff(integers["id"]) <= 0):
            raise ValueError(f"replicas: ids must ascend, status be of {', '.join(STATUSES)}")
        return EnsembleOutcome(
            title=file.read_text("", "title"), replicas=ReplicaTable(**integers, status=status),
            weights={n: file.read_array(f"weights/{n}", "number", "R", more=True) for n in file.read_names("weights")},
            history={n: file.read_array(f"history/{n}", "float", "H", "R") for n in file.read_names("history")},
            model=file.read_array("model", "integer", "V").tobytes(), summary=file.read_summary(),
        )  # fmt: skip
