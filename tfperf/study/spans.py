"""Phases of a step over several devices, out of a trace: per device, and over all of them together.

The study that asked the question gives spans: from the first start of a phase on any device to its last end. Beside
them stands how long some operation of the phase ran at all (`busy`), which waiting inside does not count to.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfperf.place.devices import Devices
from tfperf.trace.attribution import attribute_path
from tfperf.trace.intervals import union
from tfperf.trace.phases import PHASES
from tfperf.trace.timeline import Timeline

PASSES = ("forward", "backward")
TOGETHER: Mapping[str, tuple[str, ...]] = {
    "computation": PASSES, "merge": ("merge",), "update": ("update",), "transfer": ("transfer",), "input": ("input",)
}  # fmt: skip
NS_PER_MS = 1e6


def phases(logdir: Path, devices: Devices) -> dict[str, Any]:
    """Milliseconds a step, means over the recorded steps; shares of a step's mean length.

    devices: by device, of its forward and backward pass. together: over all devices, as a span and busy.
    imbalance: passes of the slowest device over those of the mean device; 1 where they are equal.
    """
    found = attribute_path(logdir)
    line, step_ms = found.timeline, float(found.steps.mean())
    lanes = {devices.short(name): _lanes(line, k, devices.logical) for k, name in enumerate(devices.each)}
    each = {
        device: {phase: _busy(line, _rows(line, [phase], mine)) for phase in PASSES} for device, mine in lanes.items()
    }  # fmt: skip
    passes = [sum(one.values()) for one in each.values()]
    # beside GPUs the host only launches what towers compute
    everywhere = [i for i, (owner, _) in enumerate(line.lanes) if devices.logical or "tower" not in owner]
    together = {}
    for name, members in TOGETHER.items():
        rows = _rows(line, members, everywhere)
        span, busy = _span(line, rows), _busy(line, rows)
        together[name] = {
            "span_ms": span, "busy_ms": busy, "span_share": span / step_ms, "busy_share": busy / step_ms
        }  # fmt: skip
    return {
        "step_ms": step_ms, "period_ms": found.period_ms, "steps": len(found.steps),
        "unattributed": found.share(unknown=True), "devices": each,
        "mean": {phase: float(np.mean([one[phase] for one in each.values()])) for phase in PASSES},
        "together": together, "imbalance": max(passes) / float(np.mean(passes)) if any(passes) else None,
    }  # fmt: skip


def _lanes(line: Timeline, device: int, logical: bool) -> list[int]:
    """Numbers of a device's lanes: the GPU's own, or those of a logical CPU's part of the graph."""
    name = f"CPU tower_{device}" if logical else f"GPU:{device}"
    return [i for i, (owner, _) in enumerate(line.lanes) if owner == name]


def _rows(line: Timeline, members: Iterable[str], lanes: Iterable[int]) -> NDArray[np.intp]:
    """Operations of phases on lanes."""
    numbers = [PHASES.index(name) for name in members]
    return np.flatnonzero(np.isin(line.phase, numbers) & np.isin(line.lane, list(lanes)))


def _busy(line: Timeline, rows: NDArray[np.intp]) -> float:
    """Milliseconds a step in which one of the operations runs."""
    return union(line.begin[rows], line.end[rows]).length / NS_PER_MS / len(line.steps.begin)


def _span(line: Timeline, rows: NDArray[np.intp]) -> float:
    """Milliseconds from the first start to the last end of the operations in a step, the mean over steps."""
    step = np.searchsorted(line.steps.begin, line.begin[rows], "right") - 1
    total = 0
    for number in np.unique(step[step >= 0]):
        mine = rows[step == number]
        total += int(line.end[mine].max() - line.begin[mine].min())
    return total / NS_PER_MS / len(line.steps.begin)
