"""Operations with what they cost a step, and how sure that is."""

from dataclasses import dataclass

import numpy as np

from tfperf.arrays import BoolMask, Float64Array, Indices
from tfperf.trace.intervals import merge_intervals
from tfperf.trace.operations import Operations
from tfperf.trace.phases import PHASES, Phase, PhaseRules
from tfperf.trace.planes import Events
from tfperf.trace.steps import Steps

NS_PER_MS = 1e6


@dataclass(frozen=True, kw_only=True)
class OperationCost:
    """An operation: its events' time in ms a step, how many there are a step, and what it belongs to.

    noise: standard error of `ms`, from what differs between calls.
    """

    name: str
    kind: str
    device: str
    phase: Phase
    inferred: bool
    ms: float
    count: float
    layer: str = ""
    inside: float = 0.0  # what of `ms` lies in steps, not between calls
    constant: bool = False  # it depends on constants alone
    instruction: bool = False  # of a program compiled by XLA
    noise: float = 0.0


def find_costs(
    events: Events, operations: Operations, phase_index: Indices, mask: BoolMask, device: str,
    steps: Steps, rules: PhaseRules,
) -> list[OperationCost]:  # fmt: skip
    """Costs of the events in the mask, whose phases have the numbers `phase_index`."""
    keys, where, counts = np.unique(
        operations.index[mask] * len(PHASES) + phase_index[mask], return_inverse=True, return_counts=True
    )
    lengths, calls = (events.end - events.begin)[mask] / NS_PER_MS, len(steps.spans[0])
    call = np.searchsorted(steps.spans[0], events.begin[mask], "right") - 1
    by_call = np.bincount(where * calls + np.maximum(call, 0), lengths, len(keys) * calls).reshape(len(keys), calls)
    covered = merge_intervals(steps.begin, steps.end).contains(events.begin[mask])
    inside = np.bincount(where, lengths * covered, len(keys))
    noise = estimate_standard_error(by_call / np.bincount(np.unique(steps.call, return_inverse=True)[1]))
    out = []
    columns = (keys, counts, by_call.sum(axis=1), inside, noise)
    for key, count, ms, inside_ms, error in zip(*(c.tolist() for c in columns), strict=True):
        operation, phase = operations.every[key // len(PHASES)], PHASES[key % len(PHASES)]
        scope = max(operation.scopes, key=lambda s: operation.scopes[s], default="")
        out.append(OperationCost(
            name=operation.name, kind=operation.kind, device=device, phase=phase,
            inferred=operation.inferred and phase != "other", ms=ms / len(steps),
            count=count / len(steps), layer=rules.find_layer(scope), inside=inside_ms / len(steps),
            constant=bool(paths := operation.scopes) and not operation.inferred and all(map(rules.is_constant, paths)),
            instruction=operation.instruction, noise=error,
        ))  # fmt: skip
    return out


def average_by_call(values: Float64Array, call: Indices) -> Float64Array:
    """Means over the steps of each call, of values (steps, ...); of a single call the steps themselves."""
    if call[0] == call[-1]:
        return values
    _, first, counts = np.unique(call, return_index=True, return_counts=True)
    sums = np.add.reduceat(values, first, axis=0)
    out: Float64Array = sums / counts.reshape(-1, *[1] * (values.ndim - 1))
    return out


def estimate_standard_error(samples: Float64Array) -> Float64Array:
    """Standard error of the medians of samples (..., n); of their means it is a fifth less. Infinite for one sample."""
    count = samples.shape[-1]
    if count < 2:
        return np.full(samples.shape[:-1], np.inf)
    out: Float64Array = 1.2533 * samples.std(axis=-1, ddof=1) / np.sqrt(count)
    return out
