"""Deep-inelastic predictions as few dense products, each over the columns and rows that belong together.

X grid nodes below x = 1, R replicas. A product costs its entries and a fixed price for its launch; rows are grouped by
first node so that the sum is small.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from tfperf.arrays import FloatArray, Indices
from tfperf.workloads.pdf.card import FITTED
from tfperf.workloads.pdf.data.pack import Table
from tfperf.workloads.pdf.operators.basis import Legs, add_equal_flavours

# entries that could be multiplied in the time a product takes beside its arithmetic: measured from 1 to 100 replicas
LAUNCH_COST = 16_000


@dataclass(frozen=True)
class Product:
    """Columns p[f, start:] of `flavours`, side by side, times matrix^T (columns, rows): the raw predictions `rows`."""

    flavours: tuple[int, ...]
    start: int
    matrix: FloatArray
    rows: slice

    def compute_features(self, pdf: FloatArray) -> FloatArray:
        """Features (..., columns) of x f (..., 8, X)."""
        return pdf[..., list(self.flavours), self.start :].reshape(*pdf.shape[:-2], -1)


@dataclass(frozen=True)
class Owner:
    """Which table some rows belong to: a dataset's, or with dataset = -1 - i the i-th positivity set's."""

    dataset: int
    table: int


@dataclass(frozen=True)
class TableRows:
    """Rows of one table that stay together: a part of a deep-inelastic table, or a whole hadronic one."""

    owner: Owner
    points: Indices  # its rows, in this order
    start: int  # first node that any of them uses
    columns: dict[Legs, FloatArray]  # (points, X - start) or (points, X - start, X - start)
    dtype: np.dtype[np.floating]
    hadronic: bool

    def pop_entries(self, legs: Legs, start: int, nodes: int) -> FloatArray:
        """Entries of a channel from an earlier first node on, (points, columns); they are held here no longer."""
        size, axes = nodes - start, len(legs)
        out = np.zeros((len(self.points), *[size] * axes), self.dtype)
        if legs in self.columns:
            out[(slice(None), *[slice(self.start - start, None)] * axes)] = self.columns.pop(legs)
        return out.reshape(len(out), -1)


def find_first_nodes(columns: dict[Legs, FloatArray]) -> Indices:
    """First grid node that each row uses on either leg; the last one for rows that are zero.

    >>> sigma, gluon = np.array([[0.0, 0.0, 1.0], [0.0, 2.0, 0.0]]), np.array([[0.0, 0.0, 3.0], [0.0, 0.0, 0.0]])
    >>> find_first_nodes({(0,): sigma, (1,): gluon})
    array([2, 1])
    """
    one = next(iter(columns.values()))
    used = np.zeros((len(one), one.shape[1]), bool)
    for values in columns.values():
        used |= (values != 0) if values.ndim == 2 else (values != 0).any(axis=2) | (values != 0).any(axis=1)
    firsts: Indices = np.where(used.any(axis=1), used.argmax(axis=1), used.shape[1] - 1)
    return firsts


def read_columns(table: Table, nodes: int) -> dict[Legs, FloatArray]:
    """Folded columns on the first `nodes` grid nodes; those beyond have x = 1, where x f = 0."""
    return {k: v[:, :nodes] if v.ndim == 2 else v[:, :nodes, :nodes] for k, v in add_equal_flavours(table).items()}


def find_boundaries(starts: Sequence[int], estimate_cost: Callable[[int, int, int], float]) -> list[int]:
    """Cut the ascending `starts` into runs of least total cost(first node, begin, end); returns their begins.

    >>> find_boundaries([0, 1, 30], lambda start, begin, end: (end - begin) * (50 - start) + 20)
    [0, 2]
    """
    best, back = [0.0], [0]
    for end in range(1, len(starts) + 1):
        options = [best[b] + estimate_cost(starts[b], b, end) for b in range(end)]
        back.append(int(np.argmin(options)))
        best.append(options[back[-1]])
    cuts, end = [], len(starts)
    while end:
        end = back[end]
        cuts.append(end)
    return cuts[::-1]


def _estimate_cost(rows: Sequence[TableRows], start: int, nodes: int) -> float:
    """Cost of the product of some rows from one first node on, in entries: its own and a launch."""
    flavours = {legs for r in rows for legs in r.columns}
    return float(sum(len(r.points) for r in rows) * len(flavours) * (nodes - start) + LAUNCH_COST)


def split_rows(owner: Owner, columns: dict[Legs, FloatArray], whole: bool) -> list[TableRows]:
    """Rows of a table by first node, unless they have to stay together."""
    firsts = find_first_nodes(columns)
    if whole:
        firsts[:] = firsts.min()
    return [_make_rows(owner, np.flatnonzero(firsts == first), int(first), columns) for first in np.unique(firsts)]


def _make_rows(owner: Owner, points: Indices, start: int, columns: dict[Legs, FloatArray]) -> TableRows:
    used = {legs: v[points, start:] if len(legs) == 1 else v[points, start:, start:] for legs, v in columns.items()}
    return TableRows(owner, points, start, used, next(iter(used.values())).dtype, len(next(iter(used))) == 2)


def group(rows: Sequence[TableRows], nodes: int) -> list[list[TableRows]]:
    """Deep-inelastic rows that share their product, each group in the order given, by first node."""
    if not rows:
        return []
    starts = sorted({r.start for r in rows})
    buckets = [[r for r in rows if r.start == start] for start in starts]

    def estimate_cost(start: int, begin: int, end: int) -> float:
        return _estimate_cost([r for bucket in buckets[begin:end] for r in bucket], start, nodes)

    cuts = find_boundaries(starts, estimate_cost)
    place = {id(r): i for i, r in enumerate(rows)}
    groups = [
        sorted((r for bucket in buckets[b:e] for r in bucket), key=lambda r: place[id(r)])
        for b, e in zip(cuts, [*cuts[1:], len(starts)], strict=True)
    ]
    return [[_join_rows(list(same), nodes) for _, same in groupby(g, key=lambda r: r.owner)] for g in groups]


def _join_rows(rows: Sequence[TableRows], nodes: int) -> TableRows:
    """Rows of one table as one; the fewer there are, the fewer pieces a step has to add up."""
    if len(rows) == 1:
        return rows[0]
    first, start, points = rows[0], min(r.start for r in rows), np.concatenate([r.points for r in rows])
    every = sorted({legs for r in rows for legs in r.columns})
    columns = {legs: np.concatenate([r.pop_entries(legs, start, nodes) for r in rows]) for legs in every}
    return TableRows(first.owner, points, start, columns, first.dtype, first.hadronic)


def make_product(rows: Sequence[TableRows], nodes: int, begin: int) -> Product:
    """The product of one group, whose rows lie from `begin` on in the raw predictions; uses the rows up."""
    start = min(r.start for r in rows)
    channels = sorted({legs for r in rows for legs in r.columns})
    each = [np.concatenate([r.pop_entries(legs, start, nodes) for legs in channels], axis=1) for r in rows]
    matrix = np.concatenate(each)
    return Product(tuple(f for (f,) in channels), start, matrix, slice(begin, begin + len(matrix)))


def count_joined_columns(products: Sequence[Product], nodes: int) -> int:
    """Columns of the product that `join_products` makes."""
    flavours = {f for p in products for f in p.flavours}
    return len(flavours) * (nodes - min((p.start for p in products), default=nodes))


def join_products(products: Sequence[Product], nodes: int, padded: bool = False) -> list[Product]:
    """The same predictions by one product over all columns that any of them uses; `padded`: over all there are."""
    if not products:
        return []
    flavours = range(len(FITTED)) if padded else sorted({f for p in products for f in p.flavours})
    start = 0 if padded else min(p.start for p in products)
    begin, end = products[0].rows.start, products[-1].rows.stop
    matrix = np.zeros((end - begin, len(flavours), nodes - start), np.result_type(*(p.matrix for p in products)))
    for p in products:
        rows, mine = slice(p.rows.start - begin, p.rows.stop - begin), np.searchsorted(flavours, p.flavours)
        matrix[rows, mine, p.start - start :] = p.matrix.reshape(len(p.matrix), len(p.flavours), -1)
    return [Product(tuple(flavours), start, matrix.reshape(len(matrix), -1), slice(begin, end))]
