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


def extend_last_values(losses: Float64Array) -> Float64Array:
    """Losses (H, R) in which a replica that has stopped, whose losses are nan from then on, keeps its last one.

    >>> extend_last_values(np.array([[np.nan, 3.0], [1.0, 4.0], [np.nan, 5.0]]))
    array([[nan,  3.],
           [ 1.,  4.],
           [ 1.,  5.]])
    """
    rows = np.where(np.isfinite(losses), np.arange(len(losses))[:, None], 0)
    return np.take_along_axis(losses, np.maximum.accumulate(rows, axis=0), axis=0)


def compute_loss_quantiles(losses: Float64Array) -> Float64Array:
    """Quantiles 0.16, 0.5, 0.84 over replicas, each with its last loss where it has stopped: (H, R) -> (3, H).

    Without those that have stopped they would move though no replica does: those that stop early differ from others.
    """
    rows = [row[np.isfinite(row)] for row in extend_last_values(losses)]
    levels = (LEVELS[0], 0.5, LEVELS[1])
    return np.array([np.quantile(r, levels) if len(r) else np.full(3, np.nan) for r in rows]).reshape(-1, 3).T


def select_rows(selected: BoolMask, most: int) -> Indices:
    """Rows of at most `most` selected replicas, spread evenly over all of them."""
    rows = np.flatnonzero(selected)
    return rows if len(rows) <= most else rows[np.linspace(0, len(rows) - 1, most).astype(np.intp)]
