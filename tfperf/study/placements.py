"""The rows of a sweep over placements: speeds with intervals, speed-ups, and which term explains the lost time."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import RenderableType

from tfperf.place.work import compute_bound_ms
from tfperf.report.placements import make_placements_table
from tfperf.report.placements_page import write_placements
from tfperf.report.sweep import describe_drift, describe_machines, make_sweep_table
from tfperf.results.placements import Answers, Estimate, PlacementRow
from tfperf.study.finished_trials import FinishedTrial, make_point_key
from tfperf.study.growth import estimate_forward_growth, read_bucketing
from tfperf.study.like_work import Records, average, compare_rows
from tfperf.study.sweep_folder import read_current_trials
from tfperf.workloads.cards import read_workload_name
from tfperf.workloads.registry import WORKLOADS

DEVICES, BATCH = "placement.devices", "data.batch"
SIZES = (DEVICES, BATCH, "data.scaling", "data.scaling_devices")
GFLOPS, BANDWIDTH = "gflops", "bandwidth_gb_s"


def make_placement_rows(found: Sequence[FinishedTrial], performance_keys: Collection[str] = ()) -> list[PlacementRow]:
    """A row for each point of a sweep over placements, by placement, devices and batch; empty for other sweeps.

    performance_keys: swept keys that leave what is computed as it is, beside those of `placement`.
    """
    if not any("work" in trial.record for trial in found):
        return []
    points: dict[str, list[FinishedTrial]] = {}
    for trial in found:
        points.setdefault(make_point_key(trial.values), []).append(trial)
    records: dict[str, Records] = {}
    for key, some in points.items():
        good = {trial.repeat: trial.record for trial in some if trial.ok}
        records[key] = good if _is_proved(some) else {}
    ceilings = _find_ceilings(records.values())
    every = {key: _make_row(some, records[key], ceilings, performance_keys) for key, some in points.items()}
    return sorted(compare_rows(_distinguish_batches(every), records), key=_make_sort_key)


def _distinguish_batches(every: Mapping[str, PlacementRow]) -> dict[str, PlacementRow]:
    """The rows; placements that were measured with several batches are called by them, too."""
    batches: dict[str, set[Any]] = {}
    for row in every.values():
        batches.setdefault(row.placement, set()).add(row.values.get(BATCH))
    return {
        key: replace(row, placement=f"{row.placement}, {BATCH} {row.values.get(BATCH)}")
        if len(batches[row.placement]) > 1
        else row
        for key, row in every.items()
    }


def write_report(folder: Path, report: Mapping[str, Any]) -> tuple[RenderableType, Path]:
    """The table of a finished sweep and where its results are; one of placements gets a page. Raises: StorageError.

    report: as `run_sweep` returns it.
    """
    kind = WORKLOADS.get_kind(read_workload_name(folder))
    if not (rows := make_placement_rows(read_current_trials(folder), kind.performance_keys)):
        return make_sweep_table(report), folder
    told = "; ".join([describe_drift(report["drift"]), *describe_machines(report["machines"])])
    answers = Answers(estimate_forward_growth(rows), read_bucketing(folder))
    return make_placements_table(rows, told, answers), write_placements(folder, report["title"], rows, told, answers)


def _make_sort_key(row: PlacementRow) -> tuple[str, str, str, int, int]:
    return row.scaling or "", row.setting, row.placement, row.devices or 0, row.batch or 0


def _is_proved(some: Sequence[FinishedTrial]) -> bool | None:
    """Whether the placement of a point is proved: by one trial, and disproved by none; None: no proof was made."""
    if any(trial.disproved for trial in some):
        return False
    return True if any("proof" in trial.record for trial in some if trial.ok) else None


def _find_ceilings(every: Iterable[Records]) -> dict[Any, float]:
    """The machine's best ceilings among those that the trials measured: what disturbs a measurement lowers it.

    Turns of a chain are as short as the shortest of such turns.
    """
    found = [record["bound"] for records in every for record in records.values() if "bound" in record]
    best: dict[Any, float] = {name: max((bound[name] for bound in found), default=0.0) for name in (GFLOPS, BANDWIDTH)}
    for bound in found:
        if bound["turn_ms"]:  # 0 where it was too short for the clock: others of the sort may not have been
            turn = tuple(bound["turn"])
            best[turn] = min(best.get(turn, bound["turn_ms"]), bound["turn_ms"])
    return best


def _rescale_bound(bound: Mapping[str, Any], ceilings: Mapping[Any, float]) -> dict[str, Any]:
    """A trial's bound with the best ceilings in place of its own."""
    if not bound:
        return {}
    best = {name: ceilings[name] for name in (GFLOPS, BANDWIDTH)}
    terms = {
        "computation_ms": bound["computation_ms"] * bound[GFLOPS] / best[GFLOPS],
        "update_ms": bound["update_ms"] * bound[BANDWIDTH] / best[BANDWIDTH],
        "sent_ms": bound["sent_ms"], "chain_ms": bound["chain_ms"],
    }  # fmt: skip
    turn = bound["turn_ms"]
    if turn:  # 0 where it was too short for the clock
        turn = best["turn_ms"] = ceilings[tuple(bound["turn"])]
        terms["chain_ms"] *= turn / bound["turn_ms"]
    return {**bound, **best, **terms, "bound_ms": compute_bound_ms(terms)}


def _make_row(
    some: Sequence[FinishedTrial], records: Records, ceilings: Mapping[str, float], performance_keys: Collection[str]
) -> PlacementRow:
    values = some[0].values
    name = ", ".join(_format_value(k, v) for k, v in values.items() if k not in SIZES)
    row = PlacementRow(
        values, name or "as the card says", sum(row.ok for row in some),
        tuple(dict.fromkeys(r.error for r in some if r.error)), _is_proved(some),
        ", ".join(_format_value(k, v) for k, v in values.items() if k not in performance_keys and _is_setting(k)),
    )  # fmt: skip
    if not records:
        return row
    any_, first = next(iter(records.values())), _find_traced(records)
    work, bound, proof = any_["work"], _rescale_bound(first.get("bound", {}), ceilings), first.get("proof", {})
    kinds = sorted({"logical" if record["logical"] else "physical" for record in records.values()})
    diverged = _has_diverged(records)
    unlike = [row.setting, *kinds, *(["diverged"] if diverged else [])]
    group, contest = _name_like_work(" ".join(unlike), work, any_["devices"])
    return replace(
        row, devices=any_["devices"], logical="logical" in kinds, batch=work["batch"], pairs=work["pairs"],
        scaling=work["scaling"], group=group, contest=contest, columns=work["columns"],
        words=work["words"] / work["steps"], padding_share=work["padding_share"],
        straggler_waste=work["straggler_waste"], merge=any_["merge"], memory=any_["memory"],
        left_out=sum(record["left_out"] for record in records.values()), diverged=diverged,
        words_per_second=average(records, "words per second", lambda r: r["words_per_second"]),
        pairs_per_second=average(records, "examples per second", lambda r: r["pairs_per_second"]),
        ms_per_step=average(records, "median ms per step", lambda r: r["ms_per_step"]["median"]),
        processor_ms=_average_processor(records), forward=first.get("forward", {}), kernels=first.get("kernels", {}),
        phases=first.get("phases", {}), bound=bound, places=proof.get("places", {}), copies=proof.get("copies", {}),
    )  # fmt: skip


def _average_processor(records: Records) -> Estimate | None:
    """Of trials that are one process, whose processor time is above zero."""
    times = {r: record for r, record in records.items() if record.get("processor_ms_per_step", 0.0) > 0}
    return average(times, "processor ms per step", lambda r: r["processor_ms_per_step"]) if times else None


def _name_like_work(setting: str, work: Mapping[str, Any], devices: int) -> tuple[str, str]:
    """Names of a row's group and contest: what the timed steps computed decides, not what the card calls it."""
    if work["scaling"] == "strong":
        name = f"strong {work['batches']} {setting}"
        return name, name
    if work["scaling"] == "weak":
        name = f"weak {work['lengths']} {setting}"
        return name, f"{name} {devices} {work['batches']}"
    name = f"drawn {work['batches']} {devices} {setting}"
    return name, name


def _is_setting(key: str) -> bool:
    """Whether another value of a swept key means that something else is computed."""
    return key not in SIZES and not key.startswith("placement.")


def _format_value(key: str, value: Any) -> str:
    """A swept value in words; that of a preset says what it is."""
    return str(value) if key == "placement.preset" else f"{key.rpartition('.')[2]} {value}"


def _has_diverged(records: Records) -> bool:
    """Whether the first or the last loss of a trial is no number; null where a file keeps it."""
    losses = [loss for record in records.values() for loss in record.get("losses", {}).values()]
    return not all(loss is not None and math.isfinite(loss) for loss in losses)


def _find_traced(records: Records) -> Mapping[str, Any]:
    """The record of the repeat with proof and trace."""
    return next((record for record in records.values() if "phases" in record), {})
