"""Hadronic predictions as few dense products of luminosities: y = sum of M[n, k] p_i p_j over pairs k = (i, j), i <= j.

p is x f as one row of D = 8 X numbers. A table uses a pair only where the parton momenta suffice (x1 x2 s above the
square of the mass produced), about half of them; which ones differs from row to row. The pairs are split into groups
by the rows that use them, until a further product would cost more than the entries it saves. Every luminosity is made
once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from tfperf.operators.basis import Legs
from tfperf.operators.products import Rows

Array = NDArray[np.floating]
Bits = NDArray[np.uint8]
# what a product and each of its rows cost beside its entries, in entries: measured at 100 replicas on 2 cores
LAUNCH_ENTRIES, ROW_ENTRIES = 10000, 70
BINS, SAMPLES, ITERATIONS, ASKED = 64, 2000, 12, 24


@dataclass(frozen=True)
class Bilinear:
    """matrix (rows, pairs) times the luminosities p_i p_j of `pairs` (2, pairs), added to raw predictions `rows`.

    `nodes`: X, in the index f X + a of flavour f at node a. No pair is in two products.
    """

    pairs: NDArray[np.intp]
    matrix: Array
    rows: NDArray[np.intp]
    nodes: int

    def features(self, pdf: Array) -> Array:
        """Luminosities (..., pairs) of x f (..., 8, X)."""
        flat = pdf.reshape(*pdf.shape[:-2], -1)
        return flat[..., self.pairs[0]] * flat[..., self.pairs[1]]

    def jacobian(self, pdf: Array) -> Array:
        """Derivative (rows, D) at x f (8, X), in the precision of the matrix."""
        flat = pdf.reshape(-1).astype(self.matrix.dtype)
        count = self.pairs.shape[1]
        slope = np.zeros((len(self.matrix), flat.size), self.matrix.dtype)
        for leg, other in (self.pairs, self.pairs[::-1]):
            place = csr_array((np.ones(count, slope.dtype), (np.arange(count), leg)), (count, flat.size))
            slope += (self.matrix * flat[other]) @ place
        return slope

    def without(self, gone: set[int]) -> "Bilinear | None":
        """The product without some raw rows and what only they used; None when nothing is left of it."""
        keep = np.array([row not in gone for row in self.rows])
        used = (self.matrix[keep] != 0).any(axis=0)
        if not used.any():
            return None
        return replace(self, pairs=self.pairs[:, used], matrix=self.matrix[keep][:, used], rows=self.rows[keep])


def bilinear(rows: Sequence[Rows], nodes: int, begin: int, launch: float = LAUNCH_ENTRIES) -> list[Bilinear]:
    """The products of hadronic rows, which lie from `begin` on in the raw predictions; uses the rows up."""
    found = [channel for channel in _channels(rows, nodes) if channel[0].size]
    if not found:  # tables of zeros
        return []
    used = [_pattern(where, values, sum(len(r.points) for r in rows)) for _, where, values in found]
    bits = np.concatenate(used)
    group = np.empty(len(bits), np.intp)
    for number, columns in enumerate(clusters(bits, launch)):
        group[columns] = number
    members = np.split(group, np.cumsum([len(u) for u in used])[:-1])
    return [
        _product([(*channel, mine == number) for channel, mine in zip(found, members, strict=True)], nodes, begin)
        for number in range(group.max() + 1)
    ]


def padded(rows: Sequence[Rows], nodes: int, begin: int, flavours: int) -> list[Bilinear]:
    """The same predictions by one product of all rows and all pairs of all flavours and nodes."""
    width = flavours * nodes
    pairs = np.stack(np.triu_indices(width))
    place = np.zeros((width, width), np.intp)
    place[pairs[0], pairs[1]] = np.arange(pairs.shape[1])
    total = sum(len(r.points) for r in rows)
    matrix = np.zeros((total, pairs.shape[1]), np.result_type(*(r.dtype for r in rows)))
    for own, where, values in _channels(rows, nodes):
        matrix[where[:, None], place[own[0], own[1]]] = values
    return [Bilinear(pairs, matrix, begin + np.arange(total), nodes)]


def _channels(rows: Sequence[Rows], nodes: int) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp], Array]]:
    """By channel: the pairs that some row uses, which rows have the channel, and its entries (rows, pairs)."""
    ends = np.cumsum([0, *(len(r.points) for r in rows)])
    for legs in sorted({legs for r in rows for legs in r.columns}):
        touched = [(r, np.arange(a, b)) for r, a, b in zip(rows, ends, ends[1:], strict=False) if legs in r.columns]
        start = min(r.start for r, _ in touched)
        values = np.concatenate([r.take(legs, start, nodes) for r, _ in touched])
        yield (*_halved(values, legs, start, nodes, np.concatenate([where for _, where in touched])),)


def _halved(
    values: Array, legs: Legs, start: int, nodes: int, where: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.intp], Array]:
    size = nodes - start
    if legs[0] == legs[1]:  # p_i p_j and p_j p_i are one pair
        box = values.reshape(-1, size, size)
        box = np.triu(box) + np.tril(box, -1).transpose(0, 2, 1)
        values = box.reshape(len(values), -1)
    used = np.flatnonzero(values.any(axis=0))
    first, second = np.unravel_index(used, (size, size))
    pairs = np.stack([legs[0] * nodes + start + first, legs[1] * nodes + start + second])
    return pairs, where, values[:, used]


def _pattern(where: NDArray[np.intp], values: Array, total: int) -> Bits:
    """Which of all rows use each pair, as bits (pairs, rows / 8)."""
    mask = np.zeros((values.shape[1], total), bool)
    mask[:, where] = values.T != 0
    return np.packbits(mask, axis=1)


def _product(
    parts: Sequence[tuple[NDArray[np.intp], NDArray[np.intp], Array, NDArray[np.bool_]]], nodes: int, begin: int
) -> Bilinear:
    """One product of the marked pairs of some channels."""
    mine = [(pairs[:, marked], where, values[:, marked]) for pairs, where, values, marked in parts if marked.any()]
    rows = np.unique(np.concatenate([where[(values != 0).any(axis=1)] for _, where, values in mine]))
    dtype = np.result_type(*(values for _, _, values in mine))
    matrix = np.zeros((len(rows), sum(pairs.shape[1] for pairs, _, _ in mine)), dtype)
    column = 0
    for pairs, where, values in mine:
        inside = np.isin(where, rows)
        matrix[np.searchsorted(rows, where[inside]), column : column + pairs.shape[1]] = values[inside]
        column += pairs.shape[1]
    return Bilinear(np.concatenate([pairs for pairs, _, _ in mine], axis=1), matrix, begin + rows, nodes)


def _rows_of(bits: Bits) -> NDArray[np.intp]:
    """Number of rows in each pattern (..., rows / 8)."""
    counts: NDArray[np.intp] = np.bitwise_count(bits).sum(axis=-1, dtype=np.intp)
    return counts


def clusters(bits: Bits, launch: float) -> list[NDArray[np.intp]]:
    """Columns split by the rows that use them, (columns, rows / 8) as bits: halves of halves, while that saves.

    A cluster costs `launch` entries and, for each row that one of its columns uses, an entry for each column and
    ROW_ENTRIES more.
    """
    patterns, inverse, counts = np.unique(bits, axis=0, return_inverse=True, return_counts=True)
    inverse = inverse.reshape(-1)
    todo, done = [np.arange(len(patterns))], []
    while todo:
        mine = todo.pop()
        halves = _halves(patterns[mine], counts[mine], launch)
        if halves is None:
            done.append(mine)
        else:
            todo += [mine[half] for half in halves]
    label = np.empty(len(patterns), np.intp)
    for number, mine in enumerate(done):
        label[mine] = number
    by_label: NDArray[np.intp] = np.argsort(label[inverse], kind="stable")
    return np.split(by_label, np.cumsum(np.bincount(label[inverse]))[:-1])


def _halves(patterns: Bits, counts: NDArray[np.intp], launch: float) -> tuple[NDArray[np.intp], ...] | None:
    """Two halves that together cost less than the whole, of several tried the cheapest; None where there are none."""
    if len(patterns) < 2:
        return None
    best = float(_rows_of(np.bitwise_or.reduce(patterns)) * (counts.sum() + ROW_ENTRIES))
    masks = np.unpackbits(patterns, axis=1)
    found = None
    for order, begins in _candidates(patterns, masks, counts):
        binned = np.bitwise_or.reduceat(patterns[order], begins, axis=0)
        low = _rows_of(np.bitwise_or.accumulate(binned))[:-1]
        high = _rows_of(np.bitwise_or.accumulate(binned[::-1]))[::-1][1:]
        below = np.cumsum(np.add.reduceat(counts[order], begins))
        cost = low * (below[:-1] + ROW_ENTRIES) + high * (below[-1] - below[:-1] + ROW_ENTRIES) + launch
        if cost.min() < best:
            best, cut = float(cost.min()), begins[1:][cost.argmin()]
            found = order[:cut], order[cut:]
    return found


def _candidates(
    patterns: Bits, masks: NDArray[np.uint8], counts: NDArray[np.intp]
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Orders of the patterns, and where they could be cut."""
    bins = np.unique(np.linspace(0, len(patterns), BINS, endpoint=False).astype(int))
    for key in (_rows_of(patterns), _direction(masks, counts)):
        yield np.argsort(key, kind="stable"), bins
    users = masks.sum(axis=0, dtype=np.intp)  # of each row
    split = np.flatnonzero((users > 0) & (users < len(masks)))
    for row in split[np.unique(np.linspace(0, len(split), ASKED, endpoint=False).astype(int))] if len(split) else ():
        yield np.argsort(masks[:, row], kind="stable"), np.array([0, len(masks) - users[row]])


def _direction(masks: NDArray[np.uint8], counts: NDArray[np.intp]) -> NDArray[np.float32]:
    """Where each pattern lies along the direction in which the patterns differ most."""
    rng = np.random.default_rng(0)
    some = rng.choice(len(masks), min(len(masks), SAMPLES), replace=False)
    sample, weights = masks[some].astype(np.float32), counts[some].astype(np.float32)
    away = sample - weights @ sample / weights.sum()
    axis = rng.standard_normal(masks.shape[1], np.float32)
    for _ in range(ITERATIONS):
        axis = (weights * (away @ axis)) @ away
        axis = axis / np.maximum(np.linalg.norm(axis), np.float32(1e-30))
    along: NDArray[np.float32] = masks.astype(np.float32) @ axis
    return along
