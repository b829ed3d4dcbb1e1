"""The record of a fit as one HDF5 file, results.h5, written atomically and read back bit by bit.

Layout, version 1. R replicas, X grid nodes, F flavours, N points, H history rows. Each dataset carries fletcher32
checksums and, where it has one, the attribute `unit`. Text is UTF-8 of fixed length, in attributes too (arrays of one):
so it has checksums, which HDF5 does not give to text of variable length.

    /                 attributes: kind ("tfperf results"), layout (int), title, q0 [GeV],
                      run and digest (whose results they are)
    x                 (X) grid nodes
    pdf               (R, F, X) x f(x, Q0); attribute `flavours` names the second axis
    replicas/         one dataset per field of `Replicas`, each (R) or (R, F); files of tfperf 0.1.0 have no
                      `integrability`, and other arc lengths
    weights/          one dataset per variable, (R, ...); slashes in a name make groups; attribute `names`: their order
    datasets/<set>/   one dataset per array field of `DatasetResult`, its numbers and texts as attributes; `training`
                      as 1 and 0; files of tfperf 0.1.0 have neither it nor `pseudodata`
    history/          one dataset per field of `History`, (H) or (H, R)
    summary           (1) report.json as text
Attribute `names` of datasets/ lists the sets in the order of the fit. All is held against R, X, F, H and N, and these
against limits (MOST in results/hdf5.py), before it is read.
"""

from dataclasses import fields
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from tfperf.results import hdf5
from tfperf.results.files import write_hdf5
from tfperf.results.json_text import to_json
from tfperf.results.state import Identity
from tfperf.workloads.pdf.results.record import (
    EVOLUTION,
    LOSSES,
    STATUSES,
    DatasetResult,
    FitResult,
    ReplicaHistory,
    Replicas,
)
from tfperf.workloads.pdf.results.veto_figures import INTEGRABLE

KIND = "tfperf results"
LAYOUT = 1
# fields of Replicas beside its texts and the lengths of its curves
INTEGERS = ("id", "seed", "attempt", "best_step", "stop_step")
FIGURES = ("chi2_training", "chi2_validation", "chi2_experimental", "positivity")
UNITS = {
    "best_step": "steps", "stop_step": "steps", "step": "steps",
    "chi2_training": "per point", "chi2_validation": "per point", "chi2_experimental": "per point",
    "training": "per point", "validation": "per point", "experimental": "per point",
    "x": "1", "pdf": "1", "positivity": "unit of the predictions", "arc_length": "1", "integrability": "1",
    "sigma": "unit of cv", "predictions": "unit of cv", "mean": "unit of cv", "pseudodata": "unit of cv",
}  # fmt: skip


def write(path: Path, result: FitResult, identity: Identity | None = None) -> None:
    """Write `result` to `path`; what was there before stays until all bytes are on the disk.

    Raises: StorageError where the disk does not take it.
    """
    with write_hdf5(path) as file:
        file.attrs.update({"kind": hdf5.encode_texts(KIND), "layout": LAYOUT, "title": hdf5.encode_texts(result.title)})
        hdf5.write_identity(file, identity)
        file.attrs["q0"] = float(result.q0)
        hdf5.write_array(file, "x", result.x, UNITS["x"])
        hdf5.write_array(file, "pdf", result.pdf, UNITS["pdf"])
        file["pdf"].attrs["flavours"] = hdf5.encode_texts(*EVOLUTION)
        _write_record(file.create_group("replicas"), result.replicas)
        _write_record(file.create_group("history"), result.history)
        file.create_group("weights").attrs["names"] = hdf5.encode_texts(*result.weights)
        for name, weights in result.weights.items():
            hdf5.write_array(file["weights"], name, weights)
        file.create_group("datasets").attrs["names"] = hdf5.encode_texts(*(d.name for d in result.datasets))
        for dataset in result.datasets:
            _write_record(file["datasets"].create_group(dataset.name), dataset)
        hdf5.write_texts(file, "summary", (to_json(result.summary),))


def read(path: Path, identity: Identity | None = None) -> FitResult:
    """The record that `write` stored at `path`, every bit of its arrays; of the summary, what JSON can hold.

    Raises: RunDirectoryError where there is none, where it is damaged, or where it has another layout.
    """
    with hdf5.open_checked(path, KIND, LAYOUT) as file:
        hdf5.refuse_others(path, file, identity)
        x, replicas = file.read_array("x", "float", "X"), _read_replicas(file)
        if not (np.all(np.diff(x) > 0) and np.all((x > 0) & (x <= 1))):
            raise ValueError("x: must increase and lie in (0, 1]")
        names = file.read_names("datasets")
        if set(names) != file.list_members("datasets"):
            raise ValueError("datasets: other groups than its names")
        return FitResult(
            title=file.read_text("", "title"), q0=file.read_number("", "q0"), x=x,
            pdf=file.read_array("pdf", "float", "R", len(EVOLUTION), "X"),
            weights={n: file.read_array(f"weights/{n}", "float", "R", more=True) for n in file.read_names("weights")},
            replicas=replicas, datasets=tuple(_read_dataset(file, n) for n in names), history=_read_history(file),
            summary=file.read_summary(),
        )  # fmt: skip


def _read_replicas(file: hdf5.CheckedFile) -> Replicas:
    integers = {n: file.read_array(f"replicas/{n}", "integer", "R") for n in INTEGERS}
    figures = {n: file.read_array(f"replicas/{n}", "float", "R") for n in FIGURES}
    status = file.read_texts("replicas/status", "R")
    lengths = file.read_array("replicas/arc_length", "float", "R", len(EVOLUTION))
    ids = integers["id"].astype(np.int64)
    if len(ids) and (ids[0] < 1 or ids[-1] > hdf5.MOST["R"] or np.any(np.diff(ids) <= 0)):
        raise ValueError(f"replicas/id: must ascend, from 1 to {hdf5.MOST['R']}")
    if not set(status) <= set(STATUSES):
        raise ValueError(f"replicas/status: must be of {', '.join(STATUSES)}")
    integrability = None
    if "integrability" in file.list_members("replicas"):
        integrability = file.read_array("replicas/integrability", "float", "R", len(INTEGRABLE))
    return Replicas(**integers, **figures, status=status, arc_length=lengths, integrability=integrability)


def _read_dataset(file: hdf5.CheckedFile, name: str) -> DatasetResult:
    group = f"datasets/{name}"
    file.sizes.pop("N", None)
    file.sizes.pop("D", None)
    cv, sigma, mean = (file.read_array(f"{group}/{n}", "float", "N") for n in ("cv", "sigma", "mean"))
    kin = file.read_array(f"{group}/kin", "float", "N", "D")
    columns = file.read_texts(f"{group}/kin_columns", "C")
    file.sizes.pop("C")
    if file.read_text(group, "name") != name or (columns and len(columns) != kin.shape[1]):
        raise ValueError(f"{group}: another name, or columns of kin than its texts say")
    return DatasetResult(
        name=name, experiment=file.read_text(group, "experiment"), label=file.read_text(group, "label"), kin=kin, cv=cv,
        sigma=sigma, mean=mean, predictions=file.read_array(f"{group}/predictions", "float", "R", "N"),
        chi2=file.read_number(group, "chi2"), chi2_no_t0=file.read_number(group, "chi2_no_t0"), kin_columns=columns,
        **_read_replica_data(file, group),
    )  # fmt: skip


def _read_replica_data(file: hdf5.CheckedFile, group: str) -> dict[str, Any]:
    """Pseudo-data and masks; nothing of a file that has neither."""
    if not {"pseudodata", "training"} & file.list_members(group):
        return {}
    training = file.read_array(f"{group}/training", "integer", "R", "N")
    if np.any((training != 0) & (training != 1)):
        raise ValueError(f"{group}/training: must be 0 or 1")
    return {"pseudodata": file.read_array(f"{group}/pseudodata", "float", "R", "N"), "training": training.astype(bool)}


def _read_history(file: hdf5.CheckedFile) -> ReplicaHistory:
    step = file.read_array("history/step", "integer", "H")
    return ReplicaHistory(step=step, **{n: file.read_array(f"history/{n}", "float", "H", "R") for n in LOSSES})


def _write_record(group: h5py.Group, record: Replicas | ReplicaHistory | DatasetResult) -> None:
    """Arrays and columns of text become datasets, single texts and numbers attributes."""
    for f in fields(record):
        value = getattr(record, f.name)
        if value is None:
            continue
        if isinstance(value, tuple):
            hdf5.write_texts(group, f.name, value)
        elif isinstance(value, str):
            group.attrs[f.name] = hdf5.encode_texts(value)
        elif np.ndim(value) > 0:
            array = value.astype(np.uint8) if value.dtype == bool else value
            hdf5.write_array(group, f.name, array, UNITS.get(f.name))
        else:
            group.attrs[f.name] = value
