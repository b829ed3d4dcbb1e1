"""A problem in the shape of the peer's fitting data: the dictionaries that its data layer would hand to its trainer.

Runs in the peer's environment. The only fake of the peer's objects is `DenseTable`, whose entries come from memory and
not from a grid file; the dictionaries have the keys of validphys.n3fit_data.fitting_data_dict and fitting_pos_dict.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.linalg import block_diag
from validphys.coredata import FKTableData
from validphys.n3fit_data_utils import FittableDataSet

from benchmarks.peer.problem import R_MAX, TRAINING_SHARE, Float64Array, Problem, invert_covariance

BASES = ("exp", "diag")
Q0 = 1.65  # GeV
Entry = dict[str, Any]


class DenseTable(FKTableData):
    """A table that is dense already: (N, F, X) or (N, C, X, X)."""

    def get_np_fktable(self) -> NDArray[Any]:
        """The entries."""
        return np.asarray(self.metadata["dense"])


@dataclass(frozen=True)
class CorrelatedData:
    """Data that are correlated with each other: an experiment, or all of them. N points, R_MAX replicas."""

    name: str
    datasets: list[FittableDataSet]
    data0: Float64Array  # (N)
    cov: Float64Array  # (N, N)
    data: Float64Array  # (R_MAX, N)
    trmask: NDArray[np.bool_]  # (R_MAX, N)
    rotation: Float64Array | None = None  # (N, N) to the basis in which cov is diagonal

    def invert(self, mask: NDArray[np.bool_] | None = None) -> Float64Array:
        """Inverse covariance of the points of a mask."""
        if self.rotation is None:
            return invert_covariance(self.cov, mask)
        inverse = np.diag(1 / np.diag(self.cov))
        return inverse if mask is None else inverse[mask][:, mask]


def make_table(entries: NDArray[Any], hadronic: bool, x: Float64Array, basis: list[int]) -> DenseTable:
    """One table as the peer knows it: entries (N, F, X) or (N, C, X, X), FK-basis or channel indices, ascending."""
    return DenseTable(
        hadronic=hadronic,
        Q0=Q0,
        ndata=len(entries),
        xgrid=x,
        sigma=pd.DataFrame(columns=basis),
        data_index=None,
        metadata={"dense": entries},
    )


def make_experiments(problem: Problem, replicas: int, basis: str) -> list[list[Entry]]:
    """For each replica the dictionaries of its groups; `exp` groups by experiment, `diag` is the peer's default."""
    groups = _make_experiment_groups(problem)
    groups = groups if basis == "exp" else [_make_diagonal_group(groups)]
    inverses = [group.invert() for group in groups]
    return [[_make_entry(g, inverse, r) for g, inverse in zip(groups, inverses, strict=True)] for r in range(replicas)]


def make_penalties(problem: Problem, integrability: bool) -> list[Entry]:
    """The dictionaries of the positivity or of the integrability sets."""
    chosen = [p for p in problem["meta"]["penalties"] if p["integrability"] == integrability]
    return [
        {
            "name": p["name"],
            "datasets": [_make_dataset(problem, p)],
            "trmask": np.ones(p["ndata"], bool),
            "expdata": np.zeros((1, p["ndata"])),
            "ndata": p["ndata"],
            "ndata_vl": 0,
            "positivity": True,
            "integrability": integrability,
            "count_chi2": False,
            "lambda": p["lambda"],
        }
        for p in chosen
    ]


def _make_dataset(problem: Problem, entry: Entry) -> FittableDataSet:
    table = make_table(problem[f"fk/{entry['name']}"], entry["kind"] == "DY", problem["xgrid"], entry["basis"])
    return FittableDataSet(entry["name"], [table])


def _make_experiment_groups(problem: Problem) -> list[CorrelatedData]:
    return [
        CorrelatedData(
            e["name"],
            [_make_dataset(problem, d) for d in e["datasets"]],
            *(problem[f"exp/{e['name']}/{key}"] for key in ("data0", "cov", "data", "trmask")),
        )
        for e in problem["meta"]["experiments"]
    ]


def _make_diagonal_group(groups: list[CorrelatedData]) -> CorrelatedData:
    """All experiments in the eigenbasis of their correlation matrix, masks drawn there."""
    cov = block_diag(*(g.cov for g in groups))
    s = np.sqrt(np.diag(cov))
    values, vectors = np.linalg.eigh(cov / s[:, None] / s[None])
    rotation = vectors.T / s[None]
    rng = np.random.default_rng(1)
    masks = np.zeros((R_MAX, len(values)), bool)
    for mask in masks:
        mask[: int(TRAINING_SHARE * len(values))] = True
        rng.shuffle(mask)
    data0 = rotation @ np.concatenate([g.data0 for g in groups])
    data = np.concatenate([g.data for g in groups], axis=-1) @ rotation.T
    return CorrelatedData("ALL", [d for g in groups for d in g.datasets], data0, np.diag(values), data, masks, rotation)


def _make_entry(group: CorrelatedData, inverse: Float64Array, replica: int) -> Entry:
    training = group.trmask[replica]
    validation = ~training
    data = group.data[replica]
    return {
        "datasets": group.datasets,
        "name": group.name,
        "expdata_true": group.data0.reshape(1, -1),
        "invcovmat_true": inverse,
        "covmat": group.cov,
        "trmask": training,
        "invcovmat": group.invert(training),
        "ndata": int(training.sum()),
        "expdata": data[training].reshape(1, -1),
        "vlmask": validation,
        "invcovmat_vl": group.invert(validation),
        "ndata_vl": int(validation.sum()),
        "expdata_vl": data[validation].reshape(1, -1),
        "positivity": False,
        "count_chi2": True,
        "folds": {"training": [], "validation": [], "experimental": []},
        "data_transformation": group.rotation,
    }
