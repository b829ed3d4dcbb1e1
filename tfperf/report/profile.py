"""What a profile says, as a record and as tables."""

from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tfperf.trace.attribution import Attribution
from tfperf.trace.phases import PHASES

COSTLIEST = 12  # operations in the table; the record has all


def profile_record(found: Attribution) -> dict[str, Any]:
    """JSON of a profile; times are medians over steps in ms, shares are of the operations' time (0 to 1).

    `overlap_ms`: how much of a step several phases run at once; `idle_ms`: no operation at all; `gap_ms`: between the
    operations of neighbouring calls, null for a single one.
    """
    step = float(np.median(found.steps))
    devices: dict[str, dict[str, Any]] = {}
    for device, busy in found.busy.items():
        every = found.any[device]
        devices[device] = {
            "phases": {phase: float(ms) for phase, ms in zip(PHASES, np.median(busy, axis=0), strict=True)},
            "busy_ms": float(np.median(every)), "idle_ms": float(np.median(found.steps - every)),
            "overlap_ms": float(np.median(busy.sum(axis=1) - every)),
        }  # fmt: skip
    total = {phase: sum(d["phases"][phase] for d in devices.values()) for phase in PHASES}
    return {
        "step_ms": step, "quartiles_ms": np.percentile(found.steps, [25, 75]).tolist(), "steps": len(found.steps),
        "calls": found.calls, "gap_ms": float(np.median(found.gaps)) if len(found.gaps) else None,
        "phases": total, "devices": devices,
        "unattributed_share": found.share(unknown=True), "inferred_share": found.share(unknown=False),
        "operations": [
            {
                "name": c.name, "kind": c.kind, "device": c.device, "phase": c.phase, "inferred": c.inferred,
                "ms_per_step": c.ms, "per_step": c.count,
            }
            for c in found.costs
        ],
    }  # fmt: skip


def profile_tables(record: dict[str, Any]) -> RenderableType:
    """Phases by device and the costliest operations."""
    phases = Table(title="ms a step", title_justify="left")
    phases.add_column("phase")
    for device in record["devices"]:
        phases.add_column(device, justify="right")
    for name in PHASES:
        cells = [d["phases"][name] for d in record["devices"].values()]
        if any(cells):
            phases.add_row(name, *(_three(ms) for ms in cells))
    phases.add_section()
    for label, key in (("any of them", "busy_ms"), ("several at once", "overlap_ms"), ("none", "idle_ms")):
        phases.add_row(label, *(_three(d[key]) for d in record["devices"].values()))
    costs = Table(title="costliest operations", title_justify="left")
    for title in ("ms a step", "times", "phase", "kind", "operation"):
        costs.add_column(title, justify="right" if title in ("ms a step", "times") else "left", overflow="fold")
    for cost in record["operations"][:COSTLIEST]:
        phase = f"{cost['phase']} (inferred)" if cost["inferred"] else cost["phase"]
        ms, times = (_three(cost[key]) for key in ("ms_per_step", "per_step"))
        costs.add_row(ms, times, phase, cost["kind"], cost["name"])
    gap = "" if record["gap_ms"] is None else f", {_three(record['gap_ms'])} ms between calls"
    lines = [
        f"step: {_three(record['step_ms'])} ms, median of {record['steps']} in {record['calls']} calls{gap}",
        f"no phase is known for {record['unattributed_share']:.1%} of the operations' time, "
        f"inferred for {record['inferred_share']:.1%}",
    ]
    return Group(phases, costs, *(Text(line) for line in lines))


def _three(value: float) -> str:
    """With three significant digits."""
    return f"{value:#.3g}"
