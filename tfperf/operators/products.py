"""Matrix products that make up all predictions, each over the columns and rows that belong together.

X grid nodes below x = 1, R replicas. A product costs its entries and a fixed price for its launch; rows are grouped so
that the sum is small: deep-inelastic rows by their first node, hadronic tables channel by channel and by first node.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfperf.data.pack import Table
from tfperf.operators.basis import Legs, fold
from tfperf.runcard.config import FITTED

Array = NDArray[np.floating]
# entries that could be multiplied in the time a product takes beside its arithmetic: measured from 1 to 100 replicas
LAUNCH_ENTRIES = 16_000


@dataclass(frozen=True)
class Product:
    """Features (R, columns) times matrix^T, added to the rows `targets` of the raw predictions, in their order.

    Features are, one after the other for each of `legs`: p[f, start:] for (f,), the outer product of p[f, start:] and
    p[g, start:] for (f, g). matrix (rows, columns).
    """

    legs: tuple[Legs, ...]
    start: int
    matrix: Array
    targets: tuple[slice, ...]

    @cached_property
    def symmetric(self) -> bool:
        """True for a bilinear product that does not change when its legs change places."""
        size = round(self.matrix.shape[1] ** 0.5)
        box = self.matrix.reshape(-1, size, size) if size * size == self.matrix.shape[1] else None
        return box is not None and bool((box == box.transpose(0, 2, 1)).all())

    def features(self, pdf: Array) -> Array:
        """Features (..., columns) of x f (..., 8, X)."""
        parts = []
        for legs in self.legs:
            part = pdf[..., legs[0], self.start :]
            if len(legs) == 2:
                part = part[..., :, None] * pdf[..., legs[1], None, self.start :]
            parts.append(part.reshape(*pdf.shape[:-2], -1))
        return np.concatenate(parts, axis=-1)


@dataclass(frozen=True)
class Owner:
    """Which table some rows belong to: a dataset's, or with dataset = -1 - i the i-th positivity set's."""

    dataset: int
    table: int


@dataclass(frozen=True)
class Rows:
    """Rows of one table that stay together: a part of a deep-inelastic table, or a whole hadronic one."""

    owner: Owner
    points: NDArray[np.intp]  # its rows, in this order
    start: int  # first node that any of them uses
    columns: dict[Legs, Array]  # (points, X - start) or (points, X - start, X - start)
    dtype: np.dtype[np.floating]
    hadronic: bool

    def take(self, legs: Legs, start: int, nodes: int) -> Array:
        """Entries of a channel from an earlier first node on, (points, columns); they are held here no longer."""
        size, axes = nodes - start, len(legs)
        out = np.zeros((len(self.points), *[size] * axes), self.dtype)
        if legs in self.columns:
            out[(slice(None), *[slice(self.start - start, None)] * axes)] = self.columns.pop(legs)
        return out.reshape(len(out), -1)


def first_nodes(columns: dict[Legs, Array]) -> NDArray[np.intp]:
    """First grid node that each row uses on either leg; the last one for rows that are zero."""
    one = next(iter(columns.values()))
    used = np.zeros((len(one), one.shape[1]), bool)
    for values in columns.values():
        used |= (values != 0) if values.ndim == 2 else (values != 0).any(axis=2) | (values != 0).any(axis=1)
    firsts: NDArray[np.intp] = np.where(used.any(axis=1), used.argmax(axis=1), used.shape[1] - 1)
    return firsts


def read_columns(table: Table, nodes: int) -> dict[Legs, Array]:
    """Folded columns on the first `nodes` grid nodes; those beyond have x = 1, where x f = 0."""
    return {k: v[:, :nodes] if v.ndim == 2 else v[:, :nodes, :nodes] for k, v in fold(table).items()}


def boundaries(starts: Sequence[int], cost: Callable[[int, int, int], float]) -> list[int]:
    """Cut the ascending `starts` into runs of least total cost(first node, begin, end); returns their begins."""
    best, back = [0.0], [0]
    for end in range(1, len(starts) + 1):
        options = [best[b] + cost(starts[b], b, end) for b in range(end)]
        back.append(int(np.argmin(options)))
        best.append(options[back[-1]])
    cuts, end = [], len(starts)
    while end:
        end = back[end]
        cuts.append(end)
    return cuts[::-1]


def _price(rows: Sequence[Rows], start: int, nodes: int) -> float:
    """Price of the products of some rows from one first node on, in entries: their own, features and launches."""
    heights: dict[Legs, int] = {}
    for r in rows:
        for legs in r.columns:
            heights[legs] = heights.get(legs, 0) + len(r.points)
    if not rows[0].hadronic:
        return float(sum(len(r.points) for r in rows) * len(heights) * (nodes - start) + LAUNCH_ENTRIES)
    return float(sum((height + 4) * (nodes - start) ** 2 + LAUNCH_ENTRIES for height in heights.values()))


def split_rows(owner: Owner, columns: dict[Legs, Array], whole: bool) -> list[Rows]:
    """Rows of a table by first node, unless they have to stay together."""
    firsts = first_nodes(columns)
    if whole:
        firsts[:] = firsts.min()
    return [_rows(owner, np.flatnonzero(firsts == first), int(first), columns) for first in np.unique(firsts)]


def _rows(owner: Owner, points: NDArray[np.intp], start: int, columns: dict[Legs, Array]) -> Rows:
    used = {legs: v[points, start:] if len(legs) == 1 else v[points, start:, start:] for legs, v in columns.items()}
    return Rows(owner, points, start, used, next(iter(used.values())).dtype, len(next(iter(used))) == 2)


def group(rows: Sequence[Rows], nodes: int) -> list[list[Rows]]:
    """Rows that share their products, each group in the order given: deep-inelastic groups first, by first node."""
    kinds = ([r for r in rows if r.hadronic == kind] for kind in (False, True))
    return [members for mine in kinds for members in _groups(mine, nodes)]


def _groups(rows: Sequence[Rows], nodes: int) -> list[list[Rows]]:
    if not rows:
        return []
    starts = sorted({r.start for r in rows})
    buckets = [[r for r in rows if r.start == start] for start in starts]

    def cost(start: int, begin: int, end: int) -> float:
        return _price([r for bucket in buckets[begin:end] for r in bucket], start, nodes)

    cuts = boundaries(starts, cost)
    place = {id(r): i for i, r in enumerate(rows)}
    groups = [
        sorted((r for bucket in buckets[b:e] for r in bucket), key=lambda r: place[id(r)])
        for b, e in zip(cuts, [*cuts[1:], len(starts)], strict=True)
    ]
    return [[_joined(list(same), nodes) for _, same in groupby(g, key=lambda r: r.owner)] for g in groups]


def _joined(rows: Sequence[Rows], nodes: int) -> Rows:
    """Rows of one table as one; the fewer there are, the fewer pieces a step has to add up."""
    if len(rows) == 1:
        return rows[0]
    first, start, points = rows[0], min(r.start for r in rows), np.concatenate([r.points for r in rows])
    shape = (len(points), *[nodes - start] * (1 + first.hadronic))
    every = sorted({legs for r in rows for legs in r.columns})
    columns = {legs: np.concatenate([r.take(legs, start, nodes) for r in rows]).reshape(shape) for legs in every}
    return Rows(first.owner, points, start, columns, first.dtype, first.hadronic)


def products(rows: Sequence[Rows], nodes: int, begin: int) -> list[Product]:
    """The products of one group, whose rows lie from `begin` on in the raw predictions; uses the rows up."""
    start = min(r.start for r in rows)
    ends = np.cumsum([begin, *(len(r.points) for r in rows)])
    where = [slice(int(a), int(b)) for a, b in pairwise(ends)]
    channels = sorted({legs for r in rows for legs in r.columns})
    if len(channels[0]) == 1:
        matrix = np.concatenate(
            [np.concatenate([r.take(legs, start, nodes) for legs in channels], axis=1) for r in rows]
        )
        return [Product(tuple(channels), start, matrix, (slice(begin, int(ends[-1])),))]
    out = []
    for legs in channels:
        touched = [(r, w) for r, w in zip(rows, where, strict=True) if legs in r.columns]
        matrix = np.concatenate([r.take(legs, start, nodes) for r, _ in touched])
        out.append(Product((legs,), start, matrix, tuple(w for _, w in touched)))
    return out


def padded(compiled: Sequence[Product], nodes: int) -> tuple[Product, ...]:
    """The same predictions by one product over all flavours and nodes and, with two PDFs, one for each pair of them.

    What it costs beside the given products is what their choice of columns is worth.
    """
    pairs = [(f, g) for f in range(len(FITTED)) for g in range(f, len(FITTED))]
    linear, bilinear = ([p for p in compiled if len(p.legs[0]) == axes] for axes in (1, 2))
    out = [_padded(linear, [(f,) for f in range(len(FITTED))], nodes)] if linear else []
    return (*out, *(_padded(bilinear, [pair], nodes) for pair in pairs if bilinear))


def _padded(compiled: Sequence[Product], channels: Sequence[Legs], nodes: int) -> Product:
    """One product of these channels over all rows of the given ones; rows with one PDF lie side by side."""
    axes = len(channels[0])
    spans = sorted({(t.start, t.stop) for p in compiled for t in p.targets})
    rows = np.concatenate([np.arange(*span) for span in spans])
    matrix = np.zeros((len(rows), len(channels), *[nodes] * axes), compiled[0].matrix.dtype)
    for product in compiled:
        where = np.searchsorted(rows, np.concatenate([np.arange(t.start, t.stop) for t in product.targets]))
        values = product.matrix.reshape(len(where), len(product.legs), *[nodes - product.start] * axes)
        for k, legs in enumerate(product.legs):
            if legs in channels:
                used: tuple[Any, ...] = (where, channels.index(legs), *[slice(product.start, None)] * axes)
                matrix[used] = values[:, k]
    joined = [(spans[0][0], spans[-1][1])] if axes == 1 else spans
    return Product(tuple(channels), 0, matrix.reshape(len(rows), -1), tuple(slice(*span) for span in joined))
