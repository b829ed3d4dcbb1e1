"""How much memory is in use at most while each phase of a step allocates, where a profile has allocations.

TensorFlow records those of its own allocators: of GPUs, and of a processor where TF_CPU_ALLOCATOR_USE_BFC=true.
"""

from dataclasses import dataclass

import numpy as np

from tfperf.arrays import Indices
from tfperf.trace.operations import Operations
from tfperf.trace.phases import PHASES, Phase, PhaseRules
from tfperf.trace.planes import Events
from tfperf.trace.steps import Steps

ALLOCATION = "MemoryAllocation"  # an event's name


@dataclass(frozen=True, kw_only=True)
class MemoryPeak:
    """The most that an allocator has in use when an operation of a phase asks it for memory: MB, that operation."""

    allocator: str
    phase: Phase
    mbyte: float
    operation: str


def find_memory_peaks(
    events: Events, operations: Operations, phase_index: Indices, steps: Steps, rules: PhaseRules
) -> tuple[MemoryPeak, ...]:  # fmt: skip
    """By allocator and phase, in steps; phase_index (n): of operations. Empty where a profile has no allocations."""
    rows, values = events.stats.get("bytes_allocated", (np.zeros(0, np.int64), ()))
    sizes = np.array(values, np.float64)
    step = np.searchsorted(steps.begin, events.begin[rows], "right") - 1
    inside = (step >= 0) & (events.begin[rows] < steps.end[np.maximum(step, 0)])
    asks = np.array([name == ALLOCATION for name in events.names] or [False])[events.name[rows]]
    names, allocators = (_get_texts(events, key) for key in ("tf_op", "allocator_name"))
    phases = _find_phases(operations, phase_index)
    peaks: dict[tuple[str, Phase], tuple[float, str]] = {}
    for at in np.flatnonzero(inside & asks).tolist():
        row = int(rows[at])
        name = names.get(row, "")
        phase = phases[name] if name in phases else rules.find_phase(name, "")
        key = allocators.get(row, ""), phase
        peaks[key] = max(peaks.get(key, (0.0, "")), (float(sizes[at]), name), key=lambda peak: peak[0])
    return tuple(
        MemoryPeak(allocator=allocator, phase=phase, mbyte=size / 1e6, operation=name)
        for (allocator, phase), (size, name) in sorted(peaks.items(), key=lambda p: (p[0][0], PHASES.index(p[0][1])))
    )


def _find_phases(operations: Operations, phase_index: Indices) -> dict[str, Phase]:
    """The phase of each operation by its name without its type."""
    used, first = np.unique(operations.index, return_index=True)
    return {
        operations.every[one].name.partition(":")[0]: PHASES[phase_index[row]]
        for one, row in zip(used.tolist(), first.tolist(), strict=True)
        if one >= 0
    }


def _get_texts(events: Events, key: str) -> dict[int, str]:
    rows, values = events.stats.get(key, (np.zeros(0, np.int64), ()))
    return dict(zip(rows.tolist(), map(str, values), strict=True))
