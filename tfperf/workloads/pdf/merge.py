"""Replicas trained at different times as one result."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from tfperf.arrays import AnyArray, BoolMask, Float64Array
from tfperf.workloads.pdf.results.record import LOSSES, FitResult, ReplicaHistory, Replicas

MergeRows = Callable[[AnyArray, AnyArray], AnyArray]


@dataclass(frozen=True)
class ReplicaArrays:
    """What a result says of each replica: one row of each array."""

    pdf: Float64Array  # (R, F, X)
    predictions: Float64Array  # (R, N), points in the order of the fit
    weights: Mapping[str, Float64Array]  # (R, ...)
    replicas: Replicas
    history: ReplicaHistory
    pseudodata: Float64Array | None = None  # (R, N)
    training: BoolMask | None = None  # (R, N)


def select_arrays(result: FitResult) -> ReplicaArrays:
    """The arrays of a recorded run."""
    predictions = np.hstack([d.predictions for d in result.datasets])
    pseudodata = [d.pseudodata for d in result.datasets if d.pseudodata is not None]
    training = [d.training for d in result.datasets if d.training is not None]
    has_all = len(pseudodata) == len(training) == len(result.datasets) > 0
    return ReplicaArrays(
        result.pdf, predictions, result.weights, result.replicas, result.history,
        np.hstack(pseudodata) if has_all else None, np.hstack(training) if has_all else None,
    )  # fmt: skip


def merge(old: ReplicaArrays, new: ReplicaArrays) -> ReplicaArrays:
    """Both by ascending id; a replica that is in both is taken from the new ones. Pseudo-data where both have them."""
    keep = ~np.isin(old.replicas.id, new.replicas.id)
    order = np.argsort(np.concatenate([old.replicas.id[keep], new.replicas.id]))

    def merge_rows(a: AnyArray, b: AnyArray) -> AnyArray:
        merged: AnyArray = np.concatenate([a[keep], b])[order]
        return merged

    def merge_known(a: AnyArray | None, b: AnyArray | None) -> AnyArray | None:
        return None if a is None or b is None else merge_rows(a, b)

    return ReplicaArrays(
        merge_rows(old.pdf, new.pdf), merge_rows(old.predictions, new.predictions),
        {name: merge_rows(old.weights[name], new.weights[name]) for name in new.weights},
        _merge_replicas(old.replicas, new.replicas, merge_rows), _merge_history(old.history, new.history, merge_rows),
        merge_known(old.pseudodata, new.pseudodata), merge_known(old.training, new.training),
    )  # fmt: skip


def _merge_replicas(old: Replicas, new: Replicas, merge_rows: MergeRows) -> Replicas:
    columns: dict[str, Any] = {}
    for field in fields(Replicas):
        before, now = (getattr(one, field.name) for one in (old, new))
        if before is None or now is None:
            columns[field.name] = None
            continue
        merged = merge_rows(np.asarray(before), np.asarray(now))
        columns[field.name] = tuple(merged.tolist()) if field.name == "status" else merged
    return Replicas(**columns)


def _merge_history(old: ReplicaHistory, new: ReplicaHistory, merge_rows: MergeRows) -> ReplicaHistory:
    """Rows at the steps of either; nan where a replica has none."""
    steps = np.union1d(old.step, new.step)

    def spread(history: ReplicaHistory, name: str) -> Float64Array:
        values = getattr(history, name)
        out = np.full((values.shape[1], len(steps)), np.nan)
        out[:, np.searchsorted(steps, history.step)] = values.T
        return out

    # in rows of steps, as the record has it
    merged = {name: np.ascontiguousarray(merge_rows(spread(old, name), spread(new, name)).T) for name in LOSSES}
    return ReplicaHistory(steps, **merged)
