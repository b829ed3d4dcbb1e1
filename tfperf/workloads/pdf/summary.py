"""report.json: what a run found, how long it took, on what."""

import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tfperf.measure.clock import compute_quartiles
from tfperf.measure.environment import list_versions, measure_peak_rss_bytes
from tfperf.workloads.pdf.card import Card
from tfperf.workloads.pdf.results.record import CONVERGED, FitResult
from tfperf.workloads.replica_chunks import ReplicaPart


def summarise(
    card: Card, result: FitResult, parts: Sequence[ReplicaPart], seconds: Mapping[str, float],
    seconds_per_step: Mapping[int, Sequence[float]], pack: Mapping[str, Any],
) -> dict[str, Any]:  # fmt: skip
    """All of report.json; the chi2 entries are those of the evaluated result.

    parts: what the last command trained, in chunks. seconds_per_step: of each call of this process, by the slots
    of the stacks that took steps; ms_per_step is that of most slots.
    """
    status = result.replicas.status
    failed = sum(s not in CONVERGED for s in status)
    out: dict[str, Any] = {"title": card.title, **result.summary}
    to_truth = out.pop("chi2_to_truth_per_point", None)
    if card.closure is not None:
        out["closure"] = {"level": card.closure.level, "law": card.closure.law, "chi2_to_truth_per_point": to_truth}
    return out | {
        "replicas": {
            "total": len(status), "converged": len(status) - failed, "failed": failed,
            "by_status": dict(Counter(status)),
        },
        "steps": int(result.replicas.stop_step.max()),
        "resumed_from_steps": [step for part in parts for step in part.resumed_from_steps],
        "seconds": dict(seconds),
        "ms_per_step": compute_quartiles(seconds_per_step[max(seconds_per_step)] if seconds_per_step else ()),
        "peak_rss_bytes": measure_peak_rss_bytes(),
        "engine": {
            **parts[-1].choices, "precision": card.engine.precision,
            "exactness": {_format_range(part): part.own.tolerance for part in parts if part.own.tolerance},
            "devices": parts[-1].machine.get("devices", []), "bound": parts[-1].own.bound,
            # of each chunk: steps, and the stack's size from there on
            "stacks": {_format_range(part): [list(stack) for stack in part.own.stacks] for part in parts},
            "ms_per_step_of_stacks": {
                str(size): compute_quartiles(seconds)["median"] for size, seconds in sorted(seconds_per_step.items())
            },
        },
        "versions": list_versions() | {"platform": platform.platform()},
        "pack": dict(pack),
    }  # fmt: skip


def _format_range(part: ReplicaPart) -> str:
    return f"{part.own.ids[0]}-{part.own.ids[-1]}"
