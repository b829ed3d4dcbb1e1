"""Two finished ensembles side by side, replica by replica where they belong together."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass as plain_dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from pydantic.dataclasses import dataclass

from tfperf.arrays import Float64Array, Indices
from tfperf.errors import CardError, RunDirectoryError
from tfperf.measure.confidence import (
    ConfidenceInterval,
    estimate_pseudomedian,
    estimate_share_difference,
    estimate_welch_difference,
)
from tfperf.report.compare import Change
from tfperf.report.compare_reports import IGNORE_EXTRA, NOTE_OF_TIMES, StepQuartiles, compare_times, read_report
from tfperf.results.contents import CARD, RESULTS
from tfperf.results.reading import read_text
from tfperf.results.rundir import load_state
from tfperf.runcard.tree import parse_plain
from tfperf.workloads.keras.replicas import outcome as outcomes
from tfperf.workloads.keras.replicas.outcome import EnsembleOutcome
from tfperf.workloads.replica_chunks import ReplicaChunk

FIGURES = {  # of report.json's calibration: of numbers, of classes
    "rms_error": "error of the mean (rms)", "rms_spread": "spread of the replicas (rms)",
    "accuracy_of_mean": "accuracy of the mean", "calibration_error": "expected calibration error",
}  # fmt: skip
PAIRED = (
    "change at the best epoch: the middle of the differences of the same replicas (number and seed) of both, with "
    "Wilcoxon's limits, for which six are needed"
)
OTHER_DATA = (
    "warning: the data are others: figures of one run cannot be held against those of the other; no replica is paired, "
    "and there are no intervals"
)
ARRAYS = "the arrays of data"  # in run.json, what `TrainingData.hash_arrays` calls them
UNPAIRED = "no replica has the same number and seed in both: at the best epoch means over replicas, by Welch's t"


@dataclass(config=IGNORE_EXTRA, frozen=True)
class _EnsembleReport:
    monitored: str
    calibration: dict[str, Any]
    ms_per_step: StepQuartiles


@plain_dataclass(frozen=True)
class _EnsembleRun:
    """A finished ensemble of R replicas."""

    report: _EnsembleReport
    outcome: EnsembleOutcome
    data: Mapping[str, Any]  # what tells it from others
    parts: list[int]  # replicas that were trained together, of each part

    def read_best(self, name: str) -> Float64Array:
        """A loss or metric of each replica after its best epoch (R); nan of those that broke, or have none."""
        table, values = self.outcome.replicas, self.outcome.history[name]
        epochs = np.clip(table.best_epoch, 1, len(values)) - 1
        good = table.is_usable & (table.best_epoch > 0) & (table.best_epoch <= len(values))
        found: Float64Array = np.where(good, values[epochs, np.arange(len(epochs))], np.nan)
        return found


def refuse_mixture(before: Path, now: Path) -> bool:
    """Whether both runs are of ensembles. Raises: RunDirectoryError where one alone is, or has no whole results."""
    for folder in (before, now):
        try:
            h5py.File(folder / RESULTS).close()
        except FileNotFoundError:
            raise RunDirectoryError(f"{folder}: the run is not finished; go on with it by --resume first") from None
        except OSError:
            raise RunDirectoryError(f"{folder / RESULTS}: damaged, or no HDF5 file") from None
    both = [outcomes.is_ensemble(folder / RESULTS) for folder in (before, now)]
    if both[0] != both[1]:
        one, other = (before, now) if both[0] else (now, before)
        raise RunDirectoryError(
            f"{other}: is of a model alone, {one} is of an ensemble; two of the same kind can be compared: a fit with "
            "`--replicas 1` is an ensemble of one"
        )
    return both[0]


def compare_ensembles(before: Path, now: Path) -> tuple[list[Change], list[str]]:
    """Losses and metrics after each replica's best epoch, errors of the means, times of a step.

    Raises: RunDirectoryError for runs that are not finished or damaged.
    """
    a, b = (_read_run(folder) for folder in (before, now))
    notes = [f"best epochs are by {a.report.monitored} before, by {b.report.monitored} now"]
    notes = notes if a.report.monitored != b.report.monitored else []
    if a.data != b.data:
        return [*_set_side_by_side(a, b), *_compare_means(a.report, b.report)], [OTHER_DATA, *notes]
    pairs = _find_pairs(a.outcome, b.outcome)
    notes = [PAIRED if len(pairs[0]) else UNPAIRED, *notes]
    changes = [*_compare_figures(a, b, pairs), *_compare_broken(a, b), *_compare_means(a.report, b.report)]
    if len(pairs[0]):
        notes.append(f"{len(pairs[0])} replicas are in both")
    if len(a.parts) > 1 or len(b.parts) > 1 or a.parts != b.parts:
        sizes = (" and ".join(map(str, one.parts)) for one in (a, b))
        told = "ms per step: not compared, {} replicas were trained at a time before, {} now"
        return changes, [*notes, told.format(*sizes)]
    return [*changes, *compare_times(a.report.ms_per_step, b.report.ms_per_step)], [NOTE_OF_TIMES, *notes]


def _read_run(folder: Path) -> _EnsembleRun:
    """A finished run. Raises: RunDirectoryError."""
    report, outcome = read_report(folder, _EnsembleReport), outcomes.read(folder / RESULTS)
    state = load_state(folder, ReplicaChunk)
    return _EnsembleRun(
        report, outcome, _select_data(folder, state.inputs), [len(part.own.ids) for part in state.parts]
    )


def _select_data(folder: Path, inputs: Mapping[str, str]) -> Mapping[str, Any]:
    """What tells data apart: the digest of arrays, else the function that makes a stream, and its files."""
    if ARRAYS in inputs:
        return {ARRAYS: inputs[ARRAYS]}
    files = {key: value for key, value in inputs.items() if key.startswith("data.")}
    try:
        source = parse_plain(read_text(folder / CARD))["data"]
        return {**files, "function": source.get("build", "").rpartition(":")[2], "arguments": source.get("arguments")}
    except (OSError, ValueError, AttributeError, KeyError, TypeError, CardError):
        return files  # a damaged card is told by what compares cards


def _set_side_by_side(a: _EnsembleRun, b: _EnsembleRun) -> Iterator[Change]:
    """Means over the replicas of each, where nothing tells how much of a change is chance."""
    for name in [name for name in a.outcome.history if name in b.outcome.history]:
        x, y = (values[np.isfinite(values)] for values in (a.read_best(name), b.read_best(name)))
        if len(x) and len(y):
            words = f"{name} at the best epoch, mean of {len(x)} and {len(y)} replicas"
            yield _make_change(words, x.mean(), y.mean(), ConfidenceInterval(float(y.mean() - x.mean())))


def _find_pairs(a: EnsembleOutcome, b: EnsembleOutcome) -> tuple[Indices, Indices]:
    """Rows of replicas that have number and seed alike, by ascending numbers."""
    _, rows, others = np.intersect1d(a.replicas.id, b.replicas.id, return_indices=True)
    same = a.replicas.seed[rows] == b.replicas.seed[others]
    return rows[same], others[same]


def _compare_figures(a: _EnsembleRun, b: _EnsembleRun, pairs: tuple[Indices, Indices]) -> Iterator[Change]:
    """What the best epoch is chosen by first."""
    names = [name for name in a.outcome.history if name in b.outcome.history]
    for name in sorted(names, key=lambda one: one != a.report.monitored):
        x, y = a.read_best(name), b.read_best(name)
        if len(pairs[0]):
            x, y = x[pairs[0]], y[pairs[1]]
            both = np.isfinite(x) & np.isfinite(y)
            x, y = x[both], y[both]
            if len(x):
                middle = estimate_pseudomedian((y - x).tolist())
                yield _make_change(
                    f"{name} at the best epoch, median of {len(x)} replicas", np.median(x), np.median(y), middle
                )
            continue
        x, y = x[np.isfinite(x)], y[np.isfinite(y)]
        if len(x) and len(y):
            apart = estimate_welch_difference(x.tolist(), y.tolist())
            yield _make_change(
                f"{name} at the best epoch, mean of {len(x)} and {len(y)} replicas", x.mean(), y.mean(), apart
            )


def _compare_broken(a: _EnsembleRun, b: _EnsembleRun) -> Iterator[Change]:
    """The share of replicas that broke, where one did."""
    counts = [(int((~run.outcome.replicas.is_usable).sum()), len(run.outcome.replicas.id)) for run in (a, b)]
    if any(broken for broken, _ in counts):
        before, now = counts
        interval = estimate_share_difference(before, now)
        yield _make_change("share of replicas that broke", before[0] / before[1], now[0] / now[1], interval)


def _compare_means(a: _EnsembleReport, b: _EnsembleReport) -> Iterator[Change]:
    """Of the mean over replicas: one figure a run, so no interval."""
    for key, words in FIGURES.items():
        x, y = a.calibration.get(key), b.calibration.get(key)
        if isinstance(x, float) and isinstance(y, float):
            yield _make_change(words, x, y, ConfidenceInterval(y - x))


def _make_change(name: str, before: Any, now: Any, interval: ConfidenceInterval) -> Change:
    return Change(name, float(before), float(now), interval.value, interval.low, interval.high)
