"""Columns of a sparse matrix put into groups by the rows that they use, so that each group is a nearly full matrix."""

from collections.abc import Iterator

import numpy as np

from tfperf.arrays import Float32Array, Indices, PackedBits

BINS, ASKED = 64, 24  # cuts of an order that are tried; rows whose users are tried as a half
SAMPLES, ITERATIONS = 2000, 12  # of the power iteration for the principal direction


def _count_rows(bits: PackedBits) -> Indices:
    """Number of rows in each pattern (..., rows / 8)."""
    counts: Indices = np.bitwise_count(bits).sum(axis=-1, dtype=np.intp)
    return counts


def group_columns(bits: PackedBits, launch: float, row: float) -> Indices:
    """The number of each column's group, by the rows that use it: bits (columns, rows / 8).

    A group costs `launch` entries and, for each row that one of its columns uses, an entry for each column and `row`
    more. Groups are halved, and halved again, while that saves.
    """
    patterns, inverse, counts = np.unique(bits, axis=0, return_inverse=True, return_counts=True)
    todo, done = [np.arange(len(patterns))], []
    while todo:
        mine = todo.pop()
        halves = _find_halves(patterns[mine], counts[mine], launch, row)
        if halves is None:
            done.append(mine)
        else:
            todo += [mine[half] for half in halves]
    label = np.empty(len(patterns), np.intp)
    for number, mine in enumerate(done):
        label[mine] = number
    numbers: Indices = label[inverse.reshape(-1)]
    return numbers


def _find_halves(patterns: PackedBits, counts: Indices, launch: float, row: float) -> tuple[Indices, ...] | None:
    """Two halves that together cost less than the whole, of several tried the cheapest; None where there are none."""
    if len(patterns) < 2:
        return None
    best = float(_count_rows(np.bitwise_or.reduce(patterns)) * (counts.sum() + row))
    masks = np.unpackbits(patterns, axis=1)
    found = None
    for order, begins in _make_orders(patterns, masks, counts):
        binned = np.bitwise_or.reduceat(patterns[order], begins, axis=0)
        low = _count_rows(np.bitwise_or.accumulate(binned))[:-1]
        high = _count_rows(np.bitwise_or.accumulate(binned[::-1]))[::-1][1:]
        below = np.cumsum(np.add.reduceat(counts[order], begins))
        cost = low * (below[:-1] + row) + high * (below[-1] - below[:-1] + row) + launch
        if cost.min() < best:
            best, cut = float(cost.min()), begins[1:][cost.argmin()]
            found = order[:cut], order[cut:]
    return found


def _make_orders(patterns: PackedBits, masks: PackedBits, counts: Indices) -> Iterator[tuple[Indices, Indices]]:
    """Orders of the patterns, and where they could be cut."""
    bins = np.unique(np.linspace(0, len(patterns), BINS, endpoint=False).astype(int))
    for key in (_count_rows(patterns), _compute_projections(masks, counts)):
        yield np.argsort(key, kind="stable"), bins
    users = masks.sum(axis=0, dtype=np.intp)  # of each row
    split = np.flatnonzero((users > 0) & (users < len(masks)))
    for row in split[np.unique(np.linspace(0, len(split), ASKED, endpoint=False).astype(int))] if len(split) else ():
        yield np.argsort(masks[:, row], kind="stable"), np.array([0, len(masks) - users[row]])


def _compute_projections(masks: PackedBits, counts: Indices) -> Float32Array:
    """Where each pattern lies along the direction in which the patterns differ most."""
    rng = np.random.default_rng(0)
    some = rng.choice(len(masks), min(len(masks), SAMPLES), replace=False)
    sample, weights = masks[some].astype(np.float32), counts[some].astype(np.float32)
    away = sample - weights @ sample / weights.sum()
    axis = rng.standard_normal(masks.shape[1], np.float32)
    for _ in range(ITERATIONS):
        axis = (weights * (away @ axis)) @ away
        axis = axis / np.maximum(np.linalg.norm(axis), np.float32(1e-30))
    along: Float32Array = masks.astype(np.float32) @ axis
    return along
