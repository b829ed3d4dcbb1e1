"""What a profile says, as a record and as tables."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from tfperf.measure.ceilings import Measure
from tfperf.report.ablation import format_digits
from tfperf.report.profile_account import WORDS, describe_account, describe_verdict, list_account_rows
from tfperf.report.profile_devices import describe_use, describe_waits, list_device_tables
from tfperf.report.profile_work import (
    describe_ceilings,
    estimate_rates,
    format_rate,
    make_rate_record,
    make_work_record,
)
from tfperf.trace.account import Account
from tfperf.trace.attribution import Attribution, read_attribution
from tfperf.trace.costs import OperationCost
from tfperf.trace.device_use import make_use_record
from tfperf.trace.device_waits import make_waits_record
from tfperf.trace.diff import PERIOD, Difference
from tfperf.trace.findings import list_findings
from tfperf.trace.notes import list_repeats
from tfperf.trace.phases import PHASES
from tfperf.trace.work import WorkRate

Record = dict[str, Any]
ROUNDING = 1e-9  # ms that sums may be off
UNKNOWN = "nobody can tell, for one capture says nothing of chance (--repeat records several)"
OPERATION_COLUMNS = (  # keys of an operation in report.json, columns of operations.csv
    "name", "kind", "device", "phase", "layer", "inferred", "constant", "ms_per_step", "per_step",
    "flop_per_step", "bytes_per_step", "gflop_per_second", "gbyte_per_second", "share_of_ceiling", "bound_by",
)  # fmt: skip
COSTLIEST, MOST_LAYERS, MOST_CHANGES = 12, 12, 12  # rows of tables; the record has all


def read_profile(path: Path, measure: Measure | None = None) -> tuple[Attribution, Record]:
    """The last profile that a path names, and the record of it and of those recorded in one go with it.

    measure: the processor's ceilings, as `make_profile_record` has it. Raises: TraceError.
    """
    every = [read_attribution(one) for one in list_repeats(path)]
    return every[-1], merge_records([make_profile_record(found, measure) for found in every])


def make_profile_record(attribution: Attribution, measure: Measure | None = None) -> Record:
    """JSON of a profile, with what its capture noted.

    Times are means over steps in ms, shares are of the operations' time (0 to 1). Medians are `period_ms`: from step to
    step, with what lies between calls, and `step_ms`: from the first operation to the last. `overlap_ms`: how much of a
    step several phases run at once; `idle_ms`: no operation at all; `gap_ms`: between the steps of neighbouring calls,
    null for a single one; `mean_ms`: as period_ms, but all time shared out; `phases`: of the device on which each takes
    longest. measure: what measures the processor's ceilings; by default NumPy, where the cache has none.
    """
    notes, steps, constant = attribution.notes, attribution.steps, attribution.constant
    devices: dict[str, Any] = {}
    phases = []
    for device, busy in attribution.busy.items():
        every = attribution.any[device]
        devices[device] = {
            "phases": {phase: float(ms) for phase, ms in zip(PHASES, busy.mean(axis=0), strict=True)},
            "busy_ms": float(every.mean()), "idle_ms": float((steps - every).mean()),
            "overlap_ms": _drop_rounding(float((busy.sum(axis=1) - every).mean())),
            **vars(attribution.launches[device]),
        }  # fmt: skip
        phases += [
            {"device": device, "phase": phase, "ms_per_step": float(ms)}
            for phase, ms in zip(PHASES, busy.mean(axis=0), strict=True)
        ]
    longest = {phase: max(d["phases"][phase] for d in devices.values()) for phase in PHASES}
    rated = estimate_rates(attribution, measure)
    return {
        "period_ms": attribution.period_ms, "mean_ms": attribution.mean_ms, "step_ms": float(np.median(steps)),
        "quartiles_ms": np.percentile(steps, [25, 75]).tolist(), "steps": len(steps), "calls": attribution.calls,
        "marks": attribution.marks, "gap_ms": float(np.median(attribution.gaps)) if len(attribution.gaps) else None,
        "gaps_ms_per_step": _compute_gap_per_step(attribution),
        "call_ms": {"recorded": notes.recorded_ms, "unrecorded": notes.unrecorded_ms}, "program": notes.program,
        "phases": longest, "devices": devices, "phases_by_device": phases,
        "account": make_account_record(attribution.account),
        "unattributed_share": attribution.compute_share(unknown=True),
        "inferred_share": attribution.compute_share(unknown=False),
        "operations": _list_operations(attribution.costs, rated.rates),
        "work": make_work_record(attribution, rated),
        "layers": _sum_layers(attribution.costs), "constant": [cost.name for cost in constant],
        "constant_share": attribution.constant_ms / attribution.mean_ms if attribution.mean_ms else 0.0,
        "transfers": [{**vars(one), "gbyte_per_second": one.gbyte_per_second} for one in attribution.transfers],
        "device_use": [make_use_record(use) for use in attribution.device_use], "nvml": list(notes.utilisation),
        "device_waits": [make_waits_record(waits) for waits in attribution.device_waits],
        "memory_peaks": [asdict(peak) for peak in attribution.memory_peaks],
        "stages": [vars(stage) for stage in attribution.stages],
        "ledger": [vars(entry) for entry in attribution.ledger], "problems": list(attribution.problems),
        "findings": [asdict(finding) for finding in list_findings(attribution)],
    }  # fmt: skip


def _drop_rounding(ms: float) -> float:
    return ms if ms > ROUNDING else 0.0


def make_account_record(account: Account) -> Record:
    """JSON of an account."""
    keys = ("period_ms", "steps", "epochs", "expected_epochs", "samples", "overhead_ms", "overhead_left_ms")
    charges = [asdict(one) | {"per_epoch": one.per_epoch} for one in account.charges]
    return {"charges": charges, **{key: getattr(account, key) for key in keys}}


def _compute_gap_per_step(attribution: Attribution) -> float:
    """Time between calls, shared out over the steps of the call before."""
    counts = np.unique(attribution.call, return_counts=True)[1]
    return float(np.median(attribution.gaps / counts[:-1])) if len(attribution.gaps) else 0.0


def _list_operations(costs: Sequence[OperationCost], rates: Sequence[WorkRate]) -> list[Record]:
    """Rows of operations; names that several functions have are told apart by these."""
    functions: dict[tuple[str, str], set[str]] = {}
    for cost in costs:
        functions.setdefault((cost.device, cost.name), set()).add(cost.function)
    return [
        _make_operation_record(cost, len(functions[cost.device, cost.name]) > 1) | make_rate_record(rate)
        for cost, rate in zip(costs, rates, strict=True)
    ]


def _make_operation_record(cost: OperationCost, shared: bool) -> Record:
    return {
        "name": f"{cost.name} in {cost.function}" if shared and cost.function else cost.name,
        "kind": cost.kind, "device": cost.device, "phase": cost.phase, "layer": cost.layer,
        "inferred": cost.inferred, "constant": cost.constant, "ms_per_step": cost.ms,
        "per_step": cost.count,
    }  # fmt: skip


def _sum_layers(costs: Sequence[OperationCost]) -> list[Record]:
    """Operations' time by layer, phase and device, the costliest first."""
    sums: dict[tuple[str, str, str], float] = {}
    for cost in costs:
        key = cost.layer, cost.phase, cost.device
        sums[key] = sums.get(key, 0.0) + cost.ms
    rows = [
        {"layer": layer, "phase": phase, "device": device, "ms_per_step": ms}
        for (layer, phase, device), ms in sums.items()
    ]
    return sorted(rows, key=lambda row: -float(str(row["ms_per_step"])))


def merge_records(records: Sequence[Record]) -> Record:
    """One record of captures of the same program: the last, with medians over them, and what each of them took."""
    medians = {key: float(np.median([record[key] for record in records])) for key in ("period_ms", "step_ms")}
    return records[-1] | medians | {"captures": len(records), "series": list(map(_list_parts, records))}


def _list_parts(record: Record) -> dict[str, dict[str, float]]:
    """ms a step of all that a capture is made of, by kind and name."""
    account = record["account"]
    per_epoch = sum(one["ms"] for one in account["charges"] if one["per_epoch"])
    out: dict[str, dict[str, float]] = {
        # calls that stalled, and the chance of an epoch's end in what is recorded, are in neither
        "step": {PERIOD: record["period_ms"] + per_epoch, "from first to last operation": record["step_ms"]},
        "gap": {"between calls": record["gaps_ms_per_step"]}, "cause": {},
    }  # fmt: skip
    for one in account["charges"]:
        name = " ".join(filter(None, (WORDS[one["cause"]], one["name"])))
        out["cause"][name] = out["cause"].get(name, 0.0) + one["ms"]
    rows = ("phase", "phases_by_device", "phase"), ("layer", "layers", "layer"), ("operation", "operations", "name")
    for kind, table, key in rows:
        out[kind] = {}
        for row in record[table]:
            name = " ".join(filter(None, (row["device"], row["phase"] if kind == "layer" else "", row[key])))
            out[kind][name] = out[kind].get(name, 0.0) + row["ms_per_step"]
    return out


def make_profile_tables(record: Mapping[str, Any]) -> RenderableType:
    """The verdict, then all tables of a profile that fit a screen."""
    more = *_make_device_tables(record), _make_cost_table(record), _make_layer_table(record)
    tables = [_make_account_table(record), _make_phase_table(record), *(table for table in more if table is not None)]
    verdict = (Text(line) for line in describe_verdict(record))
    return Group(*verdict, Text(), *tables, *(Text(line) for line in describe_profile(record)))


def describe_profile(record: Mapping[str, Any]) -> list[str]:
    """What a profile says in words."""
    gap = "" if record["gap_ms"] is None else f", {format_digits(record['gap_ms'])} ms between calls"
    out = [
        f"as recorded, a step takes {format_digits(record['step_ms'])} ms, median of {record['steps']} "
        f"in {record['calls']} calls{gap}; "
        f"{format_digits(record['period_ms'])} ms from step to step, {format_digits(record['mean_ms'])} on average",
        f"no phase is known for {record['unattributed_share']:.1%} of the operations' time, "
        f"inferred for {record['inferred_share']:.1%}",
    ]
    out += describe_account(record)
    out += [] if record["marks"].startswith("marks") else [f"steps are {record['marks']}"]
    for device, one in record["devices"].items():
        out.append(
            f"{device}: {format_digits(one['per_step'])} operations a step, {one['short']:.0%} of them below 10 us, "
            f"median {format_digits(one['median_us'])} us"
        )
    for one in record["transfers"]:
        speed = f"{format_digits(one['mbyte'])} MB a step, {format_digits(one['gbyte_per_second'])} GB/s"
        out.append(f"{one['device']} {one['direction']}: {speed}")
    out += [*describe_use(record), *describe_waits(record), *describe_ceilings(record)]
    for one in record["ledger"][:10]:
        out.append(f"{one['kind']} of {one['function']}: {format_digits(one['seconds'])} s; {one['cause']}")
    return out + [f"warning: {problem}" for problem in record["problems"]]


def _make_phase_table(record: Mapping[str, Any]) -> Table:
    table = _make_table("ms a step", ("phase", *map(escape, record["devices"])))
    for name in PHASES:
        cells = [d["phases"][name] for d in record["devices"].values()]
        if any(cells):
            table.add_row(name, *(format_digits(ms) for ms in cells))
    table.add_section()
    for label, key in (("any of them", "busy_ms"), ("several at once", "overlap_ms"), ("none", "idle_ms")):
        table.add_row(label, *(format_digits(d[key]) for d in record["devices"].values()))
    return table


def _make_account_table(record: Mapping[str, Any]) -> Table:
    table = _make_table("where the time from step to step goes", ("ms a step", "share", "times"), ("cause", "of"))
    for cause, name, ms, share, times in list_account_rows(record):
        table.add_row(ms, share, times, cause, Text(name))
    return table


def _make_device_tables(record: Mapping[str, Any]) -> Iterator[Table]:
    for title, numbers, texts, rows in list_device_tables(record):
        table = _make_table(title, numbers, texts)
        for row in rows:
            table.add_row(*map(Text, row))
        yield table


def _make_cost_table(record: Mapping[str, Any]) -> Table:
    rated = any(cost["share_of_ceiling"] is not None for cost in record["operations"][:COSTLIEST])
    more = ("of ceiling", "bound by") if rated else ()
    table = _make_table("costliest operations", ("ms a step", "times", *more), ("phase", "kind", "operation"))
    for cost in record["operations"][:COSTLIEST]:
        notes = [word for word in ("inferred", "constant") if cost[word]]
        phase = f"{cost['phase']} ({', '.join(notes)})" if notes else cost["phase"]
        rates = format_rate(cost) if rated else ()
        numbers = format_digits(cost["ms_per_step"]), format_digits(cost["per_step"]), *rates
        table.add_row(*numbers, phase, Text(cost["kind"]), Text(cost["name"]))
    return table


def _make_layer_table(record: Mapping[str, Any]) -> Table | None:
    rows = [row for row in record["layers"] if row["layer"]][:MOST_LAYERS]
    if not rows:
        return None
    table = _make_table("costliest layers", ("ms a step",), ("phase", "layer"))
    for row in rows:
        table.add_row(format_digits(row["ms_per_step"]), row["phase"], Text(row["layer"]))
    return table


def make_difference_table(difference: Difference) -> RenderableType:
    """What changed most, and the verdict."""
    table = _make_table("ms a step", ("before", "now", "change", "chance"), ("", "what", "of"))
    for one in (difference.step, *difference.changes[:MOST_CHANGES]):
        before, now, chance = map(format_digits, (one.before, one.now, one.noise))
        verdict = one.verdict if one.verdict in ("slower", "faster") else ""
        table.add_row(before, now, f"{one.difference_ms:+.3g}", f"± {chance}", verdict, one.kind, Text(one.name))
    step = difference.step
    share = f"{step.difference_ms / step.before:+.1%}" if step.before else "from nothing"
    said = {"slower": "slower", "faster": "faster", "same": "no change", "unknown": UNKNOWN}[step.verdict]
    line = f"{said}: {share} {PERIOD}; beyond chance counts, and for the exit code more than {difference.limit:.0%}"
    left_out = [Text(f"left out, far from the others: {one}") for one in step.left_out]
    return Group(table, *left_out, Text(line))


def _make_table(title: str, numbers: Sequence[str], texts: Sequence[str] = ()) -> Table:
    """A table whose columns `numbers` are right-justified, but for the first where it has no texts."""
    table = Table(title=title, title_justify="left")
    for i, name in enumerate(numbers):
        table.add_column(name, justify="right" if texts or i else "left")
    for name in texts:
        table.add_column(name, overflow="fold")
    return table
