"""Mean and spread over replicas."""

from dataclasses import dataclass

import numpy as np

from tfperf.arrays import BoolMask, Float64Array, Indices

LEVELS = (0.16, 0.84)


@dataclass(frozen=True)
class Band:
    """Statistics over the first axis of samples (R, ...): each (...)."""

    mean: Float64Array
    std: Float64Array  # with R - 1 in the denominator; 0 for one replica
    low: Float64Array  # quantile 0.16
    high: Float64Array  # quantile 0.84


def compute_band(samples: Float64Array) -> Band | None:
    """The band of samples (R, ...); None where there is no sample."""
    if len(samples) == 0:
        return None
    low, high = np.quantile(samples, LEVELS, axis=0)
    return Band(samples.mean(axis=0), samples.std(axis=0, ddof=min(1, len(samples) - 1)), low, high)


def compute_running_quantiles(losses: Float64Array) -> Float64Array:
    """Quantiles 0.16, 0.5, 0.84 over the replicas that still run: (H, R) with nan for stopped ones -> (3, H)."""
    rows = [row[np.isfinite(row)] for row in losses]
    levels = (LEVELS[0], 0.5, LEVELS[1])
    return np.array([np.quantile(r, levels) if len(r) else np.full(3, np.nan) for r in rows]).reshape(-1, 3).T


def select_rows(converged: BoolMask, most: int) -> Indices:
    """Rows of at most `most` converged replicas, spread evenly over all of them."""
    rows = np.flatnonzero(converged)
    return rows if len(rows) <= most else rows[np.linspace(0, len(rows) - 1, most).astype(np.intp)]
