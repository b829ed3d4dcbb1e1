"""Mean and spread over replicas."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
LEVELS = (0.16, 0.84)


@dataclass(frozen=True)
class Band:
    """Statistics over the first axis of samples (R, ...): each (...)."""

    mean: Array
    std: Array  # with R - 1 in the denominator; 0 for one replica
    low: Array  # quantile 0.16
    high: Array  # quantile 0.84


def compute_band(samples: Array) -> Band | None:
    """The band of samples (R, ...); None where there is no sample."""
    if len(samples) == 0:
        return None
    low, high = np.quantile(samples, LEVELS, axis=0)
    return Band(samples.mean(axis=0), samples.std(axis=0, ddof=min(1, len(samples) - 1)), low, high)


def compute_running_quantiles(losses: Array) -> Array:
    """Quantiles 0.16, 0.5, 0.84 over the replicas that still run: (H, R) with nan for stopped ones -> (3, H)."""
    rows = [row[np.isfinite(row)] for row in losses]
    levels = (LEVELS[0], 0.5, LEVELS[1])
    return np.array([np.quantile(r, levels) if len(r) else np.full(3, np.nan) for r in rows]).reshape(-1, 3).T


def select_rows(converged: NDArray[np.bool_], most: int) -> NDArray[np.intp]:
    """Rows of at most `most` converged replicas, spread evenly over all of them."""
    rows = np.flatnonzero(converged)
    return rows if len(rows) <= most else rows[np.linspace(0, len(rows) - 1, most).astype(np.intp)]
