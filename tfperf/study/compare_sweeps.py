"""Two finished sweeps: the time of a step at each point that is in both."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tfperf.errors import RunDirectoryError
from tfperf.measure.confidence import estimate_welch_difference
from tfperf.report.compare import TIMES, Change
from tfperf.study.finished_trials import FinishedTrial, make_point_key
from tfperf.study.sweep_folder import REPORT, read_current_trials, read_sweep
from tfperf.study.sweep_plan import format_values


def compare_sweeps(before: Path, now: Path) -> tuple[list[Change], list[str]]:
    """Ratios of times, and what to know about them. Raises: RunDirectoryError, also where no point is in both."""
    a, b = _read_points(before), _read_points(now)
    common = [key for key in a if key in b]
    if not common:
        raise RunDirectoryError(f"{now}: has no point of {before}; sweeps are compared point by point")
    unlike = [key for key in common if _list_batches(a[key]) != _list_batches(b[key])]
    measured = [key for key in common if _list_times(a[key]) and _list_times(b[key]) and key not in unlike]
    notes = [
        "ms per step: geometric means over the repeats; interval of the ratio by Welch's t on logarithms",
        f"of {len(measured)} intervals about one in 20 misses the truth by chance",
        *(f"not the same batches in both: {format_values(a[key][0].values)}" for key in unlike),
        *(
            f"not measured in both, or not proved: {format_values(a[key][0].values)}"
            for key in common
            if key not in measured and key not in unlike
        ),
        *(f"only in {before}: {format_values(a[key][0].values)}" for key in a if key not in b),
        *(f"only in {now}: {format_values(b[key][0].values)}" for key in b if key not in a),
    ]
    return [_make_change(a[key], b[key]) for key in measured], notes


def _read_points(folder: Path) -> dict[str, list[FinishedTrial]]:
    """The trials of each point."""
    expected, found = read_sweep(folder)["trials"], read_current_trials(folder)
    if len(found) < expected or not (folder / REPORT).is_file():
        done = f"{len(found)} of {expected} trials are done"
        raise RunDirectoryError(f"{folder}: the sweep is not finished, {done}; its command goes on with it")
    points: dict[str, list[FinishedTrial]] = {}
    for trial in sorted(found, key=lambda trial: trial.repeat):
        points.setdefault(make_point_key(trial.values), []).append(trial)
    return points


def _list_times(found: Sequence[FinishedTrial]) -> list[float]:
    """Of the good trials; none where a proof of the placement failed."""
    return [] if any(trial.disproved for trial in found) else [trial.ms for trial in found if trial.ms is not None]


def _list_batches(found: Sequence[FinishedTrial]) -> set[str]:
    """What the steps of a point computed, where its trials tell."""
    return {trial.record["work"]["batches"] for trial in found if isinstance(trial.record.get("work"), dict)}


def _make_change(before: Sequence[FinishedTrial], now: Sequence[FinishedTrial]) -> Change:
    x, y = (np.log(_list_times(found)).tolist() for found in (before, now))
    ratio = estimate_welch_difference(x, y).exponentiate()
    name, first, second = format_values(before[0].values), float(np.exp(np.mean(x))), float(np.exp(np.mean(y)))
    return Change(name, first, second, ratio.value, ratio.low, ratio.high, TIMES, "ratio")
