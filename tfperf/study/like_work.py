"""Rows of a sweep over placements set beside each other, where they did like work."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tfperf.measure.confidence import (
    MOST_VALUES,
    ConfidenceInterval,
    estimate_geometric_mean,
    estimate_mean,
    estimate_repeats,
)
from tfperf.results.placements import Estimate, PlacementRow
from tfperf.study.contests import compare_with_best

Records = Mapping[int, Mapping[str, Any]]  # by repeat
WIDE = 0.1  # of an interval of a speed-up, as a share of it; for wider ones the repeats that are needed are said
RATE = "pairs_per_second"


def average(records: Records, what: str, figure: Callable[[Mapping[str, Any]], float]) -> Estimate:
    """The geometric mean of a positive figure over the repeats."""
    values = [float(figure(record)) for record in records.values()]
    return _to_estimate(estimate_geometric_mean(values), f"{what}, geometric mean over {_format_repeats(len(values))}")


def compare_rows(rows: Mapping[str, PlacementRow], records: Mapping[str, Records]) -> list[PlacementRow]:
    """The rows with what sets them beside others of their group and contest; `records` by the same keys."""
    timed = {key: row for key, row in rows.items() if row.pairs_per_second is not None}
    alone = {(row.group, row.placement): key for key, row in timed.items() if row.devices == 1}
    best: dict[str, str] = {}
    for key in sorted(timed, key=lambda key: _get_rate(timed[key])):
        if timed[key].devices == 1:
            best[timed[key].group] = key
    weighed = _compare_contests(timed, records)
    out = []
    for key, row in rows.items():
        if key not in timed:
            out.append(row)
            continue
        base = alone.get((row.group, row.placement))
        row = weighed[key]
        if row.group in best:
            beside = _estimate_ratio(records[key], records[best[row.group]], "the best one device")
            row = replace(row, against_best=beside)
        out.append(row if base is None else _add_speedup(row, rows[base], records[key], records[base]))
    return out


def _compare_contests(timed: Mapping[str, PlacementRow], records: Mapping[str, Records]) -> dict[str, PlacementRow]:
    """The rows with the fastest of their contest, or one that is faster than they are, beside them."""
    contests: dict[str, list[str]] = {}
    for key, row in timed.items():
        contests.setdefault(row.contest, []).append(key)
    out = dict(timed)
    for keys in contests.values():
        rates = [{repeat: float(record[RATE]) for repeat, record in records[key].items()} for key in keys]
        for key, found in zip(keys, compare_with_best(rates), strict=True):
            if found is not None:
                rival = timed[keys[found.beside]]
                of = f"{_describe_ratio(rival.name, found.repeats)}, limits widened for all of {len(keys)} rows"
                out[key] = replace(out[key], against_fastest=_to_estimate(found.ratio, of), beside=rival.name)
    return out


def _add_speedup(row: PlacementRow, base: PlacementRow, now: Records, before: Records) -> PlacementRow:
    """The row beside one device with the same placement."""
    speedup = _estimate_ratio(now, before, "one device with this placement")
    if speedup is None or row.devices is None:
        return row
    low, high = (None if limit is None else limit / row.devices for limit in (speedup.low, speedup.high))
    share = Estimate(speedup.value / row.devices, low, high, f"{speedup.of}, over the devices")
    wide = speedup.low is None or speedup.high is None or speedup.high - speedup.low > WIDE * speedup.value
    needed = None
    if wide and row.devices > 1 and speedup.low is not None:
        needed = estimate_repeats(_compute_log_ratios(now, before), WIDE) or MOST_VALUES
    return replace(row, speedup=speedup, efficiency=share, repeats_needed=needed, growth=_compute_growth(row, base))


def _compute_log_ratios(now: Records, base: Records) -> list[float]:
    """Of the ratios in repeats that both have."""
    return [float(np.log(now[r][RATE] / base[r][RATE])) for r in sorted(set(now) & set(base))]


def _estimate_ratio(now: Records, base: Records, name: str) -> Estimate | None:
    """Examples per second over those of the base, from repeats side by side."""
    logarithms = _compute_log_ratios(now, base)
    if not logarithms:
        return None
    return _to_estimate(estimate_mean(logarithms).exponentiate(), _describe_ratio(name, len(logarithms)))


def _describe_ratio(name: str, count: int) -> str:
    return f"examples per second over those of {name}, geometric mean over {_format_repeats(count)} side by side"


def _compute_growth(row: PlacementRow, base: PlacementRow) -> float | None:
    if not row.phases or not base.phases or not base.phases["mean"]["forward"]:
        return None
    return float(row.phases["mean"]["forward"] / base.phases["mean"]["forward"])


def _get_rate(row: PlacementRow) -> float:
    return 0.0 if row.pairs_per_second is None else row.pairs_per_second.value


def _to_estimate(interval: ConfidenceInterval, of: str) -> Estimate:
    return Estimate(interval.value, interval.low, interval.high, of)


def _format_repeats(count: int) -> str:
    return f"{count} repeat" + ("s" if count != 1 else "")
