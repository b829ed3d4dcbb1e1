"""The rows of a sweep over placements: speeds with intervals, speed-ups, and which term explains the lost time."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import RenderableType

from tfperf.report.placements import placements_table
from tfperf.report.placements_page import write_placements
from tfperf.report.sweep import sweep_table
from tfperf.results.placements import Estimate, PlacementRow, Scaling
from tfperf.study.intervals import Interval, mean
from tfperf.study.rows import Row, point_key, rows

DEVICES, BATCH = "placement.devices", "data.batch"
GFLOPS, BANDWIDTH = "gflops", "bandwidth_gb_s"
Records = Mapping[int, Mapping[str, Any]]  # by repeat


def placement_rows(found: Sequence[Row]) -> list[PlacementRow]:
    """A row for each point of a sweep over translations, by placement, devices and batch; empty for other sweeps."""
    if not any("words_per_second" in row.record for row in found):
        return []
    points: dict[str, list[Row]] = {}
    for row in found:
        points.setdefault(point_key(row.values), []).append(row)
    records = {key: {row.repeat: row.record for row in some if row.ok} for key, some in points.items()}
    ceilings = _ceilings(records.values())
    every = {key: _row(some, records[key], ceilings) for key, some in points.items()}
    alone = {_base(row): key for key, row in every.items() if row.devices == 1}
    best: dict[int | None, str] = {}  # of one device, by the length of the sentences; None: they differ
    for key in sorted(alone.values(), key=lambda key: _speed(every[key])):
        best[_length(records[key])] = key
    out = [_compared(row, key, every, records, alone, best.get(_length(records[key]))) for key, row in every.items()]
    return sorted(out, key=lambda row: (row.placement, row.devices or 0, row.batch or 0))


def written(folder: Path, report: Mapping[str, Any]) -> tuple[RenderableType, Path]:
    """The table of a finished sweep and where its results are; one of placements gets a page. Raises: StorageError.

    report: as `sweep` returns it.
    """
    found = placement_rows(rows(folder))
    if not found:
        return sweep_table(report), folder
    return placements_table(found), write_placements(folder, report["title"], found)


def _ceilings(every: Iterable[Records]) -> dict[str, float]:
    """The machine's best ceilings among those that the trials measured: what disturbs a measurement lowers it."""
    found = [record["bound"] for records in every for record in records.values() if "bound" in record]
    return {name: max((bound[name] for bound in found), default=0.0) for name in (GFLOPS, BANDWIDTH)}


def _against(bound: Mapping[str, Any], ceilings: Mapping[str, float]) -> dict[str, Any]:
    """A trial's bound with the best ceilings in place of its own."""
    if not bound:
        return {}
    computation = bound["computation_ms"] * bound[GFLOPS] / ceilings[GFLOPS]
    update = bound["update_ms"] * bound[BANDWIDTH] / ceilings[BANDWIDTH]
    whole = max(computation, bound["sent_ms"] or 0.0) + update  # what is sent can hide behind computation
    return {**bound, **ceilings, "computation_ms": computation, "update_ms": update, "bound_ms": whole}


def _row(some: Sequence[Row], records: Records, ceilings: Mapping[str, float]) -> PlacementRow:
    values = some[0].values
    row = PlacementRow(
        values, ", ".join(f"{_last(k)} {v}" if k != "placement.preset" else str(v) for k, v in _others(values)),
        len(records), tuple(dict.fromkeys(r.error for r in some if r.error)),
    )  # fmt: skip
    if not records:
        return row
    any_, first = next(iter(records.values())), _looked_into(records)
    bound = _against(first.get("bound", {}), ceilings)
    return replace(
        row, devices=any_["devices"], logical=any_["logical"], batch=any_["batch"], merge=any_["merge"],
        padding_share=any_["padding_share"], straggler_waste=any_["straggler_waste"], memory=any_["memory"],
        total_s=_mean(records, lambda r: r["total_s"]),
        words_per_second=_mean(records, lambda r: r["words_per_second"]),
        ms_per_step=_mean(records, lambda r: r["ms_per_step"]["median"]), kernels=first.get("kernels", {}),
        phases=first.get("phases", {}), bound=bound, places=first.get("proof", {}).get("places", {}),
        lost=_lost(first.get("phases"), bound),
    )  # fmt: skip


def _others(values: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """What makes the placement, apart from the number of devices and the batch."""
    return [(key, value) for key, value in values.items() if key not in (DEVICES, BATCH)]


def _last(key: str) -> str:
    return key.rpartition(".")[2]


def _looked_into(records: Records) -> Mapping[str, Any]:
    """The record of the repeat with proof and trace; empty where that one failed."""
    return next((record for record in records.values() if "phases" in record), {})


def _estimate(interval: Interval) -> Estimate:
    return Estimate(interval.value, interval.low, interval.high)


def _mean(records: Records, figure: Callable[[Mapping[str, Any]], float]) -> Estimate:
    return _estimate(mean([float(figure(record)) for record in records.values()]))


def _speed(row: PlacementRow) -> float:
    return row.words_per_second.value if row.words_per_second is not None else 0.0


def _length(records: Records) -> int | None:
    """Pieces of the sentences where all have as many: rows with other sentences are not set beside each other."""
    return next(iter(records.values()), {}).get("fixed_length")


def _base(row: PlacementRow) -> tuple[str, int | None]:
    return row.placement, row.batch


def _compared(
    row: PlacementRow, key: str, every: Mapping[str, PlacementRow], records: Mapping[str, Records],
    alone: Mapping[tuple[str, int | None], str], best: str | None,
) -> PlacementRow:  # fmt: skip
    """The row beside one device with the same placement, and beside the best one device with the same sentences."""
    if row.devices is None or row.batch is None:
        return row
    base, scaling = _one_device(row, key, alone)
    return replace(
        row, scaling=scaling,
        speedup=_ratio(records[key], records[base]) if base is not None else None,
        against_best=_ratio(records[key], records[best]) if best is not None else None,
        growth=_growth(row, every[base]) if base is not None else None,
    )  # fmt: skip


def _one_device(
    row: PlacementRow, key: str, alone: Mapping[tuple[str, int | None], str]
) -> tuple[str | None, Scaling | None]:  # fmt: skip
    """The point with one device that a row is set beside, with the same batch on a device or else in all."""
    if row.devices == 1:
        return key, "alone"
    if _base(row) in alone:
        return alone[_base(row)], "weak"
    assert row.batch is not None and row.devices is not None
    strong = alone.get((row.placement, row.batch * row.devices))
    return strong, None if strong is None else "strong"


def _ratio(now: Records, base: Records) -> Estimate | None:
    """Words per second over those of the base, from repeats side by side: the mean of the logarithm's differences."""
    both = sorted(set(now) & set(base))
    if not both:
        return None
    return _estimate(
        mean([float(np.log(now[r]["words_per_second"] / base[r]["words_per_second"])) for r in both]).exponential()
    )


def _growth(row: PlacementRow, base: PlacementRow) -> float | None:
    if not row.phases or not base.phases or not base.phases["mean"]["forward"]:
        return None
    return float(row.phases["mean"]["forward"] / base.phases["mean"]["forward"])


def _lost(phases: Mapping[str, Any] | None, bound: Mapping[str, Any]) -> dict[str, float]:
    """What a step takes above its bound, by term, the largest first: busy times, and `waiting` without any of them.

    computation: passes beyond the arithmetic's bound; update: beyond its bound; merge and transfer: all of it.
    """
    if not phases or not bound:
        return {}
    busy = {name: part["busy_ms"] for name, part in phases["together"].items()}
    waiting = max(phases["step_ms"] - sum(busy.values()), 0.0)
    terms = {
        "computation": busy["computation"] - bound["computation_ms"], "merge": busy["merge"],
        "update": busy["update"] - bound["update_ms"], "transfer": busy["transfer"], "input": busy["input"],
        "waiting": waiting,
    }  # fmt: skip
    return dict(sorted(((k, max(v, 0.0)) for k, v in terms.items()), key=lambda item: -item[1]))
