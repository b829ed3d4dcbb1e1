"""Which sentence pairs are computed together: the batches of one epoch, divided among the devices.

What a step takes is decided by its slowest device, so devices whose batches are padded to unequal lengths wait.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from tfperf.arrays import Int64Array
from tfperf.errors import PackError

FILLING = -1  # a row without a pair
ADDED = 2  # columns of a target beside its pieces: START and END

Buckets = Literal["shared", "per_device", "none"]


@dataclass(frozen=True)
class BatchPlan:
    """One epoch: `steps` global batches for N devices of b pairs each."""

    rows: Int64Array  # (steps, N, b): numbers of pairs; FILLING where there is none
    lengths: Int64Array  # (steps, N, 2): columns of source and target; the target's hold START and END
    pieces: Int64Array  # (steps): source and target pieces, without START and END
    dropped: int  # pairs that are left for no whole step

    @property
    def padding_share(self) -> float:
        """Share (0 to 1) of positions, source and target, that hold no piece, START or END of a pair."""
        real = self.pieces.sum() + ADDED * np.count_nonzero(self.rows != FILLING)
        return float(1 - real / (self.rows.shape[2] * self.lengths.sum()))

    @property
    def straggler_waste(self) -> float:
        """Share (0 to 1) of the devices' time that is spent waiting, if time goes with columns."""
        columns = self.lengths.sum(axis=2)
        return float(1 - columns.sum() / (columns.shape[1] * columns.max(axis=1).sum()))

    @property
    def unequal_steps(self) -> int:
        """Steps in which the devices' lengths differ."""
        return int(np.any(self.lengths != self.lengths[:, :1], axis=(1, 2)).sum())


def count_steps(pairs: int, devices: int, batch: int, drop: bool = True) -> int:
    """Steps of a plan: only the number of pairs decides. Raises: PackError where they are too few for one.

    >>> count_steps(pairs=100, devices=2, batch=16), count_steps(pairs=100, devices=2, batch=16, drop=False)
    (3, 4)
    """
    whole, left = divmod(pairs, devices * batch)
    steps = whole if drop else whole + (left > 0)
    if not steps:
        room = f"{devices} devices need {devices * batch} pairs"
        raise PackError(f"data.batch: got {batch}; {room} a step, and there are {pairs}")
    return steps


def plan_batches(
    source: Int64Array,
    target: Int64Array,
    *,
    devices: int,
    batch: int,
    buckets: Buckets,
    width: int,
    order_seed: int | None,
    drop: bool,
) -> BatchPlan:
    """The batches of one epoch over pairs of so many pieces, `source` (n) and `target` (n).

    A bucket holds the pairs whose longer side has the same length, rounded up to `width`, to which they are padded;
    what is left of it joins the next longer one. `buckets` is "shared": the pairs of a global batch are of one bucket;
    "per_device": those of each device, drawn by itself; "none": pairs as they come, padded to the device's longest.
    `order_seed` draws the order of pairs and of batches; None: the corpus' own, a batch stands where it was full.
    `drop` leaves out the last pairs of that order, which would not fill a step; else FILLING completes it.
    Raises: PackError where there are too few pairs for a step.

    >>> source, target = np.array([3, 9, 4, 10]), np.array([4, 8, 3, 9])
    >>> plan = plan_batches(
    ...     source, target, devices=1, batch=2, buckets="shared", width=4, order_seed=None, drop=True
    ... )
    >>> plan.rows.tolist(), plan.lengths.tolist()
    ([[[0, 2]], [[1, 3]]], [[[4, 6]], [[12, 14]]])
    """
    steps = count_steps(len(source), devices, batch, drop)
    rng = None if order_seed is None else np.random.default_rng(order_seed)
    order = (np.arange(len(source)) if rng is None else rng.permutation(len(source)))[: steps * devices * batch]
    if buckets == "none":
        rows = _pad_rows(order, steps * devices * batch).reshape(steps, devices, batch)
        lengths = _compute_longest_columns(rows, source, target)
    else:
        together = devices if buckets == "shared" else 1  # devices whose pairs are of one bucket
        limits = -(-np.maximum(source, target)[order] // width) * width
        full, upper = _fill_batches(order, limits, batch * together, rng)
        count = steps * devices // together
        rows = _pad_rows(full, count).reshape(steps, devices, batch)
        lengths = _compute_limit_columns(upper, count).repeat(together, axis=0).reshape(steps, devices, 2)
    pieces = _count_pieces(rows, source + target).sum(axis=(1, 2))
    return BatchPlan(rows, lengths, pieces, dropped=len(source) - int(np.count_nonzero(rows != FILLING)))


def split_plan(whole: BatchPlan, source: Int64Array, target: Int64Array, devices: int, batch: int) -> BatchPlan:
    """The same global batches for so many devices of so many pairs, which take them in order; the rest is left out.

    All devices have the columns of the longest one of `whole`, whatever their number. source, target (n): pieces.
    """
    steps = len(whole.rows)
    rows = whole.rows.reshape(steps, -1)[:, : devices * batch].reshape(steps, devices, batch)
    lengths = whole.lengths.max(axis=1, keepdims=True).repeat(devices, axis=1)
    pieces = _count_pieces(rows, source + target).sum(axis=(1, 2))
    return BatchPlan(rows, lengths, pieces, dropped=len(source) - int(np.count_nonzero(rows != FILLING)))


def _pad_rows(rows: Int64Array, count: int) -> Int64Array:
    """The first `count` rows, with more of FILLING where there are fewer."""
    missing = np.full((max(0, count - len(rows)), *rows.shape[1:]), FILLING)
    return np.concatenate([rows[:count], missing])


def _fill_batches(
    order: Int64Array, limits: Int64Array, size: int, rng: np.random.Generator | None
) -> tuple[Int64Array, Int64Array]:
    """Batches (G, size) of pairs of one bucket and their limits (G); an incomplete one is the last.

    `order` (n) holds the pairs as they come, `limits` (n) their buckets. The batches stand where their last pair came,
    or as `rng` draws.
    """
    batches, rest = [np.empty((0, size), np.int64)], np.empty(0, np.int64)  # of places in `order`
    for limit in np.unique(limits):
        places = np.flatnonzero(limits == limit)
        own = len(places) // size * size
        rest = np.concatenate([rest, places[own:]])
        batches += [places[:own].reshape(-1, size), rest[: len(rest) // size * size].reshape(-1, size)]
        rest = rest[len(rest) // size * size :]
    full = np.concatenate(batches)
    full = full[np.argsort(full.max(axis=1), kind="stable") if rng is None else rng.permutation(len(full))]
    rows, upper = order[full], limits[full].max(axis=1)
    if not len(rest):
        return rows, upper
    return np.concatenate([rows, _pad_rows(order[rest], size)[None]]), np.append(upper, limits[rest].max())


def _compute_limit_columns(upper: Int64Array, count: int) -> Int64Array:
    """Columns (count, 2) of the first batches of these limits; batches beyond them are like the last."""
    limits = np.pad(upper[:count], (0, max(0, count - len(upper))), "edge")
    return np.stack([limits, limits + ADDED], axis=1)


def _compute_longest_columns(rows: Int64Array, source: Int64Array, target: Int64Array) -> Int64Array:
    """Columns (steps, N, 2) that hold the longest pair of each device; a source has one at least."""
    longest = [_count_pieces(rows, side).max(axis=2) for side in (source, target)]
    return np.stack([np.maximum(longest[0], 1), longest[1] + ADDED], axis=2)


def _count_pieces(rows: Int64Array, lengths: Int64Array) -> Int64Array:
    """The length of each row's pair; 0 for FILLING."""
    return np.where(rows == FILLING, 0, lengths[rows])
