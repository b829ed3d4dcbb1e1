"""Two finished runs of `tfperf fit`: time of a step, chi2, replicas."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfperf.errors import RunDirectoryError
from tfperf.report.compare import TIMES, Change, Words
from tfperf.results import store
from tfperf.results.contents import REPORT, RESULTS
from tfperf.results.record import FitResult, Replicas
from tfperf.results.rundir import load_state
from tfperf.results.state import AnyOwn
from tfperf.study.intervals import Interval, paired, share, welch

PER_REPLICA = {
    "chi2_training": "training chi2 per replica", "chi2_validation": "validation chi2 per replica",
    "chi2_experimental": "chi2 to the data per replica",
}  # fmt: skip
ONE_RUN_EACH: Words = (f"{TIMES[0]}, one run each", f"{TIMES[1]}, one run each")
TOTALS = {"chi2_per_point": "chi2 of all points", "chi2_no_t0_per_point": "chi2 of all points, without t0"}


@dataclass(frozen=True)
class Run:
    """A finished run."""

    report: Mapping[str, Any]
    result: FitResult


def fits(before: Path, now: Path) -> tuple[list[Change], list[str]]:
    """What differs between two runs, and what to know about it. Raises: RunDirectoryError."""
    a, b = _read(before), _read(now)
    together = _same_replicas(a.result.replicas, b.result.replicas)
    changes = [*times(a.report, b.report), *_replicas(a, b, together), _converged(a, b), *_chi2(a, b)]
    how = "differences of the same replicas of both" if together else "Welch's t over replicas"
    return changes, [
        "ms per step: from quartile to quartile of the calls of one run each; runs differ more: sweep with repeats",
        f"chi2 per point; of each replica: {how}; of the mean PDF: one figure a run, so no interval",
    ]


def refuse_unfinished(folder: Path) -> None:
    """RunDirectoryError for a run that has not come to its end."""
    if load_state(folder, AnyOwn).pending is not None:
        raise RunDirectoryError(f"{folder}: the run is not finished; go on with it by --resume first")


def _read(folder: Path) -> Run:
    refuse_unfinished(folder)
    path = folder / REPORT
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
        _ = {**report["ms_per_step"]}, {**report["chi2_per_dataset"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunDirectoryError(f"{path}: damaged or not of a fit ({error})") from None
    return Run(report, store.read(folder / RESULTS))


def times(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[Change]:
    """From the quartiles of the calls, of which each run has its own: what the next run would have they do not tell."""
    x, y = a["ms_per_step"], b["ms_per_step"]
    if None in (x.get("median"), y.get("median")):
        return []
    by, low, high = y["median"] - x["median"], y["q1"] - x["q3"], y["q3"] - x["q1"]
    return [Change("ms per step", x["median"], y["median"], by, low, high, ONE_RUN_EACH)]


def _same_replicas(a: Replicas, b: Replicas) -> bool:
    """Whether each replica saw the same noise in both."""
    return np.array_equal(a.id, b.id) and np.array_equal(a.seed, b.seed)


def _replicas(a: Run, b: Run, together: bool) -> list[Change]:
    """chi2 of converged replicas, two by two where they belong together."""
    changes = []
    for name, words in PER_REPLICA.items():
        x, y = (_values(run.result, name) for run in (a, b))
        known = np.isfinite(x), np.isfinite(y)
        x, y = (x[known[0] & known[1]], y[known[0] & known[1]]) if together else (x[known[0]], y[known[1]])
        if len(x) and len(y):
            interval = (paired if together else welch)(x.tolist(), y.tolist())
            changes.append(_change(words, float(x.mean()), float(y.mean()), interval))
    return changes


def _values(result: FitResult, name: str) -> NDArray[np.float64]:
    """(R), nan of those that did not converge."""
    return np.where(result.converged, getattr(result.replicas, name), np.nan)


def _converged(a: Run, b: Run) -> Change:
    x, y = ((int(run.result.converged.sum()), len(run.result.replicas.id)) for run in (a, b))
    return _change("share of replicas converged", x[0] / x[1], y[0] / y[1], share(x, y))


def _chi2(a: Run, b: Run) -> list[Change]:
    """Of the mean PDF: all points, then each set that is in both."""
    figures = [(words, a.report.get(key), b.report.get(key)) for key, words in TOTALS.items()]
    sets_a, sets_b = a.report["chi2_per_dataset"], b.report["chi2_per_dataset"]
    figures += [(f"chi2 of {name}", sets_a[name]["chi2"], sets_b[name]["chi2"]) for name in sets_a if name in sets_b]
    return [_change(words, x, y, Interval(y - x)) for words, x, y in figures if x is not None and y is not None]


def _change(name: str, before: float, now: float, interval: Interval) -> Change:
    return Change(name, before, now, interval.value, interval.low, interval.high)
