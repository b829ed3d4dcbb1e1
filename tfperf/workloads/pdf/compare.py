"""Two finished runs of `tfperf fit`: time of a step, chi2, replicas."""

from dataclasses import dataclass as plain_dataclass
from dataclasses import replace
from pathlib import Path

import numpy as np
from pydantic.dataclasses import dataclass

from tfperf.arrays import Float64Array
from tfperf.measure import confidence
from tfperf.measure.confidence import ConfidenceInterval, estimate_share_difference
from tfperf.report.compare import Change
from tfperf.report.compare_reports import (
    IGNORE_EXTRA,
    NOTE_OF_TIMES,
    FiniteNumber,
    StepQuartiles,
    compare_times,
    read_report,
)
from tfperf.results.contents import RESULTS
from tfperf.workloads.pdf.results import store
from tfperf.workloads.pdf.results.postfit import read_survivors
from tfperf.workloads.pdf.results.record import FitResult, Replicas

PER_REPLICA = {
    "chi2_training": "training chi2 per replica", "chi2_validation": "validation chi2 per replica",
    "chi2_experimental": "chi2 to the data per replica",
}  # fmt: skip
TOTALS = {"chi2_per_point": "chi2 of all points", "chi2_no_t0_per_point": "chi2 of all points, without t0"}


@dataclass(config=IGNORE_EXTRA, frozen=True)
class SetFigures:
    """Of one dataset."""

    chi2: FiniteNumber | None


@dataclass(config=IGNORE_EXTRA, frozen=True)
class FitReport:
    """What is compared of report.json."""

    ms_per_step: StepQuartiles
    chi2_per_dataset: dict[str, SetFigures]
    chi2_per_point: FiniteNumber | None = None
    chi2_no_t0_per_point: FiniteNumber | None = None


@plain_dataclass(frozen=True)
class Run:
    """A finished run."""

    report: FitReport
    result: FitResult


def compare_fits(before: Path, now: Path) -> tuple[list[Change], list[str]]:
    """What differs between two runs, and what to know about it. Raises: RunDirectoryError."""
    a, b = _read(before), _read(now)
    together = _has_same_replicas(a.result.replicas, b.result.replicas)
    changes = [
        *compare_times(a.report.ms_per_step, b.report.ms_per_step), *_compare_replicas(a, b, together),
        _compare_convergence(a, b), *_compare_chi2(a, b),
    ]  # fmt: skip
    how = "differences of the same replicas of both" if together else "Welch's t over replicas"
    return changes, [
        NOTE_OF_TIMES,
        f"chi2 per point; of each replica: {how}; of the mean PDF: one figure a run, so no interval",
    ]


def _read(folder: Path) -> Run:
    result = store.read(folder / RESULTS)
    return Run(read_report(folder, FitReport), replace(result, survivors=read_survivors(folder, result)))


def _has_same_replicas(a: Replicas, b: Replicas) -> bool:
    """Whether each replica saw the same noise in both."""
    return np.array_equal(a.id, b.id) and np.array_equal(a.seed, b.seed)


def _compare_replicas(a: Run, b: Run, same_replicas: bool) -> list[Change]:
    """chi2 of converged replicas, two by two where they belong together."""
    changes = []
    for name, words in PER_REPLICA.items():
        x, y = (_select_values(run.result, name) for run in (a, b))
        known = np.isfinite(x), np.isfinite(y)
        x, y = (x[known[0] & known[1]], y[known[0] & known[1]]) if same_replicas else (x[known[0]], y[known[1]])
        if len(x) and len(y):
            estimate = confidence.estimate_paired_difference if same_replicas else confidence.estimate_welch_difference
            changes.append(_make_change(words, float(x.mean()), float(y.mean()), estimate(x.tolist(), y.tolist())))
    return changes


def _select_values(result: FitResult, name: str) -> Float64Array:
    """(R), nan of those that did not converge, or that postfit has not chosen."""
    return np.where(result.selected, getattr(result.replicas, name), np.nan)


def _compare_convergence(a: Run, b: Run) -> Change:
    x, y = ((int(run.result.converged.sum()), len(run.result.replicas.id)) for run in (a, b))
    return _make_change("share of replicas converged", x[0] / x[1], y[0] / y[1], estimate_share_difference(x, y))


def _compare_chi2(a: Run, b: Run) -> list[Change]:
    """Of the mean PDF: all points, then each set that is in both."""
    figures = [(words, getattr(a.report, key), getattr(b.report, key)) for key, words in TOTALS.items()]
    sets_a, sets_b = a.report.chi2_per_dataset, b.report.chi2_per_dataset
    figures += [(f"chi2 of {name}", sets_a[name].chi2, sets_b[name].chi2) for name in sets_a if name in sets_b]
    return [
        _make_change(words, x, y, ConfidenceInterval(y - x))
        for words, x, y in figures
        if x is not None and y is not None
    ]


def _make_change(name: str, before: float, now: float, interval: ConfidenceInterval) -> Change:
    return Change(name, before, now, interval.value, interval.low, interval.high)
