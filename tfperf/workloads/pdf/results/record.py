"""The record of one finished fit. R replicas, X grid nodes, F flavours, N points, H history rows."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tfperf.arrays import BoolMask, Float64Array, Int64Array
from tfperf.results.tables import make_frame

EVOLUTION = ("sigma", "g", "v", "v3", "v8", "t3", "t8", "t15")
CONVERGED = ("stopped", "max_steps")
STATUSES = (*CONVERGED, "quarantined", "no_positivity")


@dataclass(frozen=True, kw_only=True)
class Replicas:
    """One row per replica; chi2 are per point, against the data that the replica saw unless said otherwise."""

    id: Int64Array  # (R) ascending
    seed: Int64Array  # (R) of the card: with id and attempt it gives every draw (data/keys.py)
    attempt: Int64Array  # (R) 0, or how often it was retried with new initial weights
    status: tuple[str, ...]  # (R) one of STATUSES
    best_step: Int64Array  # (R) step whose weights are kept; -1: none counted as best, the last ones are kept
    stop_step: Int64Array  # (R) steps taken
    chi2_training: Float64Array  # (R)
    chi2_validation: Float64Array  # (R) nan where no point validates
    chi2_experimental: Float64Array  # (R) against the central data, all points
    positivity: Float64Array  # (R) penalty sum(max(0, -prediction)), without multiplier
    arc_length: Float64Array  # (R, F)
    integrability: Float64Array | None = None  # (R, 5) of veto_figures.INTEGRABLE; None: of a version without it


@dataclass(frozen=True, kw_only=True)
class DatasetResult:
    """One dataset: what was measured and what the fit predicts."""

    name: str
    experiment: str
    label: str
    kin_columns: tuple[str, ...]
    kin: Float64Array  # (N, columns)
    cv: Float64Array  # (N)
    sigma: Float64Array  # (N) total experimental error, square root of the covariance's diagonal without t0
    predictions: Float64Array  # (R, N)
    mean: Float64Array  # (N) prediction of the mean PDF
    chi2: float  # per point, mean PDF against cv, this set's own block of the covariance of the fit
    chi2_no_t0: float  # the same with the experimental covariance
    pseudodata: Float64Array | None = None  # (R, N) that each replica was fitted to; None: of a version without them
    training: BoolMask | None = None  # (R, N) which of them trained, the others validated


@dataclass(frozen=True)
class ReplicaHistory:
    """Losses at the end of each compiled call, per point; nan once a replica has stopped."""

    step: Int64Array  # (H) steps taken at the end of each of H calls
    training: Float64Array  # (H, R)
    validation: Float64Array  # (H, R)
    experimental: Float64Array  # (H, R)
    positivity: Float64Array  # (H, R)


LOSSES = ("training", "validation", "experimental", "positivity")  # fields of History beside the step


@dataclass(frozen=True, kw_only=True, repr=False)
class FitResult:
    """Everything a run leaves behind; `summary` is report.json."""

    title: str
    q0: float  # GeV
    x: Float64Array  # (X)
    pdf: Float64Array  # (R, F, X): x f(x, Q0) of the flavours EVOLUTION
    weights: Mapping[str, Float64Array]  # name -> (R, ...)
    replicas: Replicas
    datasets: tuple[DatasetResult, ...]
    history: ReplicaHistory
    summary: Mapping[str, Any] = field(default_factory=dict)
    survivors: BoolMask | None = None  # (R) that postfit has chosen; None: it has not been applied

    def __repr__(self) -> str:
        count, chi2 = f"{self.converged.sum()} of {len(self.converged)}", self.summary.get("chi2_per_point")
        return f"FitResult(converged={count}, chi2_per_point={chi2})"

    def to_pandas(self) -> Any:
        """A pandas.DataFrame with a row for each replica. Raises: UserError where pandas is not installed."""
        columns = {name: values for name, values in vars(self.replicas).items() if np.ndim(values) == 1}
        return make_frame(columns)

    def save(self, file: Path | str) -> Path:
        """Write it as results.h5 of a run has it; returns the path. Raises: StorageError."""
        from tfperf.workloads.pdf.results.store import write

        write(Path(file), self)
        return Path(file)

    @property
    def converged(self) -> BoolMask:
        """Which replicas ended as they should: (R)."""
        return np.isin(self.replicas.status, CONVERGED)

    @property
    def selected(self) -> BoolMask:
        """Which replicas enter means and bands: (R), those that postfit has chosen, or those that converged."""
        return self.converged if self.survivors is None else self.survivors

    @property
    def selected_words(self) -> str:
        """How many these are, and why."""
        count = int(self.selected.sum())
        return f"{count} converged replicas" if self.survivors is None else f"{count} replicas chosen by postfit"
