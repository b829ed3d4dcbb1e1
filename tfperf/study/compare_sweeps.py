"""Two finished sweeps: the time of a step at each point that is in both."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tfperf.errors import RunDirectoryError
from tfperf.measure.confidence import welch
from tfperf.report.compare import TIMES, Change
from tfperf.study.rows import Row, point_key
from tfperf.study.sweep_folder import REPORT, measured, stored
from tfperf.study.sweep_plan import in_words


def sweeps(before: Path, now: Path) -> tuple[list[Change], list[str]]:
    """Ratios of times, and what to know about them. Raises: RunDirectoryError, also where no point is in both."""
    a, b = _finished(before), _finished(now)
    common = [key for key in a if key in b]
    if not common:
        raise RunDirectoryError(f"{now}: has no point of {before}; sweeps are compared point by point")
    unlike = [key for key in common if _work(a[key]) != _work(b[key])]
    measured = [key for key in common if _times(a[key]) and _times(b[key]) and key not in unlike]
    notes = [
        "ms per step: geometric means over the repeats; interval of the ratio by Welch's t on logarithms",
        f"of {len(measured)} intervals about one in 20 misses the truth by chance",
        *(f"not the same batches in both: {in_words(a[key][0].values)}" for key in unlike),
        *(
            f"not measured in both, or not proved: {in_words(a[key][0].values)}"
            for key in common
            if key not in measured and key not in unlike
        ),
        *(f"only in {before}: {in_words(a[key][0].values)}" for key in a if key not in b),
        *(f"only in {now}: {in_words(b[key][0].values)}" for key in b if key not in a),
    ]
    return [_change(a[key], b[key]) for key in measured], notes


def _finished(folder: Path) -> dict[str, list[Row]]:
    """The rows of each point."""
    expected, found = stored(folder)["trials"], measured(folder)
    if len(found) < expected or not (folder / REPORT).is_file():
        done = f"{len(found)} of {expected} trials are done"
        raise RunDirectoryError(f"{folder}: the sweep is not finished, {done}; its command goes on with it")
    points: dict[str, list[Row]] = {}
    for row in sorted(found, key=lambda row: row.repeat):
        points.setdefault(point_key(row.values), []).append(row)
    return points


def _times(found: Sequence[Row]) -> list[float]:
    """Of the good trials; none where a proof of the placement failed."""
    return [] if any(row.disproved for row in found) else [row.ms for row in found if row.ms is not None]


def _work(found: Sequence[Row]) -> set[str]:
    """What the steps of a point computed, where its trials tell."""
    return {row.record["work"]["batches"] for row in found if isinstance(row.record.get("work"), dict)}


def _change(before: Sequence[Row], now: Sequence[Row]) -> Change:
    x, y = (np.log(_times(found)).tolist() for found in (before, now))
    ratio = welch(x, y).exponential()
    name, first, second = in_words(before[0].values), float(np.exp(np.mean(x))), float(np.exp(np.mean(y)))
    return Change(name, first, second, ratio.value, ratio.low, ratio.high, TIMES, "ratio")
