"""Hadronic predictions as few dense products of luminosities: y = sum of M[n, k] p_i p_j over pairs k = (i, j), i <= j.

p is x f as one row of D = 8 X numbers. A table uses a pair only where the parton momenta suffice (x1 x2 s above the
square of the mass produced), about half of them; which ones differs from row to row. The pairs are split into groups
by the rows that use them, until a further product would cost more than the entries it saves. Every luminosity is made
once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from tfperf.arrays import BoolMask, FloatArray, Indices, PackedBits
from tfperf.workloads.pdf.card import FITTED
from tfperf.workloads.pdf.operators.basis import Legs
from tfperf.workloads.pdf.operators.clusters import group_columns
from tfperf.workloads.pdf.operators.products import TableRows

# what a product costs beside its entries, in entries: measured at 100 replicas on 2 cores; and each of its rows, by the
# bytes that are gathered and added up for it
LAUNCH_COST, ROW_COST = 10000, 70


@dataclass(frozen=True)
class BilinearProduct:
    """matrix (rows, pairs) times the luminosities p_i p_j of `pairs` (2, pairs), added to raw predictions `rows`.

    `nodes`: X, in the index f X + a of flavour f at node a. No pair is in two products.
    """

    pairs: Indices
    matrix: FloatArray
    rows: Indices
    nodes: int

    def compute_features(self, pdf: FloatArray) -> FloatArray:
        """Luminosities (..., pairs) of x f (..., 8, X)."""
        flat = pdf.reshape(*pdf.shape[:-2], -1)
        return flat[..., self.pairs[0]] * flat[..., self.pairs[1]]

    def compute_jacobian(self, pdf: FloatArray) -> FloatArray:
        """Derivative (rows, D) at x f (8, X), in the precision of the matrix."""
        from scipy.sparse import csr_array  # takes a quarter of a second to load, and few fits need it

        flat = pdf.reshape(-1).astype(self.matrix.dtype)
        count = self.pairs.shape[1]
        slope = np.zeros((len(self.matrix), flat.size), self.matrix.dtype)
        for leg, other in (self.pairs, self.pairs[::-1]):
            place = csr_array((np.ones(count, slope.dtype), (np.arange(count), leg)), (count, flat.size))
            slope += (self.matrix * flat[other]) @ place
        return slope

    def drop_rows(self, gone: set[int]) -> "BilinearProduct | None":
        """The product without some raw rows and what only they used; None when nothing is left of it."""
        keep = np.array([row not in gone for row in self.rows])
        used = (self.matrix[keep] != 0).any(axis=0)
        if not used.any():
            return None
        return replace(self, pairs=self.pairs[:, used], matrix=self.matrix[keep][:, used], rows=self.rows[keep])


@dataclass(frozen=True)
class _Channel:
    """One channel: the pairs (2, n) that some row uses, which of all rows have it (m), their entries (m, n)."""

    pairs: Indices
    rows: Indices
    values: FloatArray

    def select_pairs(self, marked: BoolMask) -> "_Channel":
        """The same with the marked pairs alone."""
        return _Channel(self.pairs[:, marked], self.rows, self.values[:, marked])

    def encode_rows(self, total: int) -> PackedBits:
        """Which of all rows use each pair, as bits (pairs, rows / 8)."""
        mask = np.zeros((self.pairs.shape[1], total), bool)
        mask[:, self.rows] = self.values.T != 0
        return np.packbits(mask, axis=1)


def build_bilinear(rows: list[TableRows], nodes: int, begin: int, launch: float = LAUNCH_COST) -> list[BilinearProduct]:
    """The products of hadronic rows, which lie from `begin` on in the raw predictions; uses the rows up."""
    channels = [channel for channel in _make_channels(rows, nodes) if channel.pairs.size]
    if not channels:  # tables of zeros
        return []
    total = sum(len(r.points) for r in rows)
    group = group_columns(np.concatenate([channel.encode_rows(total) for channel in channels]), launch, ROW_COST)
    members = np.split(group, np.cumsum([channel.pairs.shape[1] for channel in channels])[:-1])
    return [
        _make_product([c.select_pairs(mine == number) for c, mine in zip(channels, members, strict=True)], nodes, begin)
        for number in range(group.max() + 1)
    ]


def join_bilinear(products: Sequence[BilinearProduct], padded: bool = False) -> list[BilinearProduct]:
    """The same predictions by one product over all pairs that any of them uses; `padded`: over all there are."""
    if not products:
        return []
    nodes, rows = products[0].nodes, np.unique(np.concatenate([p.rows for p in products]))
    width = len(FITTED) * nodes
    flat = [p.pairs[0] * width + p.pairs[1] for p in products]
    used = np.ravel_multi_index(np.triu_indices(width), (width, width)) if padded else np.sort(np.concatenate(flat))
    matrix = np.zeros((len(rows), len(used)), np.result_type(*(p.matrix for p in products)))
    for p, mine in zip(products, flat, strict=True):
        matrix[np.ix_(np.searchsorted(rows, p.rows), np.searchsorted(used, mine))] = p.matrix
    return [BilinearProduct(np.stack(np.divmod(used, width)), matrix, rows, nodes)]


def _make_channels(rows: Sequence[TableRows], nodes: int) -> Iterator[_Channel]:
    ends = np.cumsum([0, *(len(r.points) for r in rows)])
    for legs in sorted({legs for r in rows for legs in r.columns}):
        touched = [(r, np.arange(*span)) for r, span in zip(rows, pairwise(ends), strict=True) if legs in r.columns]
        start = min(r.start for r, _ in touched)
        values = np.concatenate([r.pop_entries(legs, start, nodes) for r, _ in touched])
        yield _make_channel(values, legs, start, nodes, np.concatenate([where for _, where in touched]))


def _make_channel(values: FloatArray, legs: Legs, start: int, nodes: int, rows: Indices) -> _Channel:
    """Of entries (rows, columns) from node `start` on, those that are used; of p_i p_j and p_j p_i one."""
    size = nodes - start
    if legs[0] == legs[1]:
        box = values.reshape(-1, size, size)
        box = np.triu(box) + np.tril(box, -1).transpose(0, 2, 1)
        values = box.reshape(len(values), -1)
    used = np.flatnonzero(values.any(axis=0))
    first, second = np.unravel_index(used, (size, size))
    pairs = np.stack([legs[0] * nodes + start + first, legs[1] * nodes + start + second])
    return _Channel(pairs, rows, values[:, used])


def _make_product(channels: Sequence[_Channel], nodes: int, begin: int) -> BilinearProduct:
    """One product of some pairs of some channels."""
    mine = [channel for channel in channels if channel.pairs.size]
    rows = np.unique(np.concatenate([c.rows[(c.values != 0).any(axis=1)] for c in mine]))
    pairs = np.concatenate([c.pairs for c in mine], axis=1)
    matrix = np.zeros((len(rows), pairs.shape[1]), np.result_type(*(c.values for c in mine)))
    ends = np.cumsum([0, *(c.pairs.shape[1] for c in mine)])
    for channel, (first, last) in zip(mine, pairwise(ends), strict=True):
        inside = np.isin(channel.rows, rows)
        matrix[np.searchsorted(rows, channel.rows[inside]), first:last] = channel.values[inside]
    return BilinearProduct(pairs, matrix, begin + rows, nodes)
