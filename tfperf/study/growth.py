"""What all trials of a sweep tell of forward passes, and what a benchmark of bucketing beside them concludes."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from tfperf.errors import RunDirectoryError
from tfperf.measure.confidence import estimate_mean
from tfperf.results.placements import ALONE, AT_ONCE, IN_TURN, Estimate, ForwardGrowth, PlacementRow
from tfperf.results.reading import read_json

BUCKETS = "buckets.json"
FACTORS = ("growth", "sharing", "slowing", "host")


def estimate_forward_growth(rows: Iterable[PlacementRow]) -> list[ForwardGrowth]:
    """One for each number of devices and size of their batches, over all proved placements, which it does not go by."""
    found: dict[tuple[int, int, int], list[Mapping[str, Any]]] = {}
    for row in rows:
        if row.proved and row.forward.get("ms", {}).get(AT_ONCE):
            key = row.forward["devices"], row.forward["batch"], row.forward["columns"]
            found.setdefault(key, []).append(row.forward)
    return [_make_growth(key, some) for key, some in sorted(found.items())]


def _make_growth(key: tuple[int, int, int], trials: Sequence[Mapping[str, Any]]) -> ForwardGrowth:
    each = [_compute_factors(trial) for trial in trials]
    of = f"geometric mean over {len(trials)} trial" + ("s" if len(trials) > 1 else "")
    factors = {name: _estimate([one[name] for one in each], of) for name in FACTORS if name in each[0]}
    cores = [_compute_cores(trial) for trial in trials] if "sharing" in each[0] else []
    return ForwardGrowth(
        *key, len(trials), median(median(trial["ms"][ALONE]) for trial in trials), factors["growth"],
        sharing=factors.get("sharing"), slowing=factors.get("slowing"), host=factors.get("host"),
        cores=(median(a for a, _ in cores), median(b for _, b in cores)) if cores else None,
    )  # fmt: skip


def _compute_factors(trial: Mapping[str, Any]) -> dict[str, float]:
    """Logarithms of the growth of one trial and of its factors, of medians over rounds."""
    clock = {way: median(times) for way, times in trial["ms"].items()}
    out = {"growth": math.log(clock[AT_ONCE] / clock[ALONE])}
    spent = {way: median(times) for way, times in trial["processor_ms"].items()}
    if not spent or not all(spent.values()):
        return out
    alone, at_once = _compute_cores(trial)
    out["sharing"] = math.log(trial["devices"] * alone / at_once)
    out["slowing"] = math.log(spent[AT_ONCE] / spent[IN_TURN])
    out["host"] = math.log(spent[IN_TURN] / trial["devices"] / spent[ALONE])
    return out


def _compute_cores(trial: Mapping[str, Any]) -> tuple[float, float]:
    """At work on average: for one pass, for all at once."""
    alone, at_once = (median(trial["processor_ms"][way]) / median(trial["ms"][way]) for way in (ALONE, AT_ONCE))
    return alone, at_once


def _estimate(logarithms: Sequence[float], of: str) -> Estimate:
    found = estimate_mean(logarithms).exponentiate()
    return Estimate(found.value, found.low, found.high, of)


def read_bucketing(folder: Path) -> list[str] | None:
    """What the benchmark concludes whose results are in a folder as BUCKETS, in words; None: there are none."""
    path = folder / BUCKETS
    if not path.exists():
        return None
    try:
        record = read_json(path)
        if record["name"] != "buckets":
            raise ValueError(f"it is of benchmark {record['name']!r}")
        rows = [(str(row["buckets"]), int(row["seeds"]), str(row["conclusion"])) for row in record["rows"]]
    except (RunDirectoryError, KeyError, TypeError, ValueError) as error:
        return [f"{path.name} cannot be read: {error!s}."]
    return [f"{way}, {seeds} seeds: {conclusion}." for way, seeds, conclusion in rows if conclusion]
