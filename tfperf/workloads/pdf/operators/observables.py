"""Predictions as matrix products followed by the operations between tables.

T raw predictions are those of all tables, the hadronic ones last; N points in the order of the datasets. The
operations are written with arithmetic only, so that NumPy arrays and tensors take them alike.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from tfperf.arrays import Float64Array, Indices
from tfperf.workloads.pdf.data.pack import Dataset, PositivitySet, Table
from tfperf.workloads.pdf.operators import bilinear, products
from tfperf.workloads.pdf.operators.bilinear import BilinearProduct
from tfperf.workloads.pdf.operators.products import Owner, Product, TableRows, make_product, read_columns, split_rows

# products over the columns that belong together; one over all columns that are used; one over all there are
Layout = Literal["grouped", "joined", "padded"]
LEAST_DENOMINATOR = 1e-6  # of the largest one of a set, that one is scaled by at least
SLAB_ROWS = 128  # rows of a product that are widened to float64 at a time


def combine(operation: str, predictions: Sequence[Any]) -> Any:
    """One dataset's predictions from those of its tables, each (..., N) or (..., 1); formulas in data/pack.py."""
    match operation:
        case "NULL":
            return predictions[0]
        case "RATIO":
            return predictions[0] / predictions[1]
        case "ASY":
            return (predictions[0] - predictions[1]) / (predictions[0] + predictions[1])
        case "ADD":
            return predictions[0] + predictions[1]
        case "SMN":
            return (predictions[0] + predictions[1]) / (predictions[2] + predictions[3])
        case "COM":
            return sum(predictions[1:10], predictions[0]) / sum(predictions[11:20], predictions[10])
    raise ValueError(operation)


DENOMINATORS = {"RATIO": (1,), "ASY": (0, 1), "SMN": (2, 3), "COM": tuple(range(10, 20))}  # tables, by operation


def add_denominator(operation: str, predictions: Sequence[Any]) -> Any:
    """What one dataset's operation divides by, (..., N) or (..., 1), from the predictions of its tables.

    >>> float(add_denominator("ASY", [np.float64(3.0), np.float64(-1.0)]))
    2.0
    """
    first, *others = (predictions[table] for table in DENOMINATORS[operation])
    return sum(others, first)


@dataclass(frozen=True)
class Segment:
    """Neighbouring points in the order of training: where their tables' raw predictions lie.

    denominator_scale (N or 1): what denominators are multiplied with where they must not be negative; None: they may.
    """

    operation: str
    rows: tuple[slice, ...]
    denominator_scale: Float64Array | None = None


@dataclass(frozen=True)
class Observables:
    """How all predictions come about.

    `segments` give the N points in the order of training, in which point i is point `order[i]` of the datasets: points
    of a block of the covariance stay together. `positive`: raw rows of the positivity sets. `nodes`: grid nodes below
    x = 1.
    """

    products: tuple[Product, ...]  # of deep-inelastic rows
    bilinear: tuple[BilinearProduct, ...]  # of hadronic ones
    segments: tuple[Segment, ...]
    order: Indices
    positive: tuple[slice, ...]
    nodes: int
    layout: Layout = "grouped"

    @property
    def row_count(self) -> int:
        """T, the number of raw predictions."""
        return max((int(rows.stop) for rows in self.row_slices), default=0)

    @property
    def row_slices(self) -> list[slice]:
        """Rows that segments and positivity sets ask for."""
        return [*self.positive, *(rows for segment in self.segments for rows in segment.rows)]

    @property
    def first_node(self) -> int:
        """The first grid node that some prediction uses."""
        return min([p.start for p in self.products] + [int(np.min(p.pairs % p.nodes)) for p in self.bilinear])

    @property
    def feature_count(self) -> int:
        """Columns of all matrices."""
        return sum(p.matrix.shape[1] for p, _ in self._every)

    @property
    def entries(self) -> int:
        """Entries of all matrices."""
        return sum(p.matrix.size for p, _ in self._every)

    @property
    def joined_entries(self) -> int:
        """Entries that the matrices would have, were they joined."""
        linear = sum(len(p.matrix) for p in self.products) * products.count_joined_columns(self.products, self.nodes)
        rows = np.unique(np.concatenate([np.zeros(0, np.intp), *(p.rows for p in self.bilinear)]))
        return int(linear + len(rows) * sum(p.pairs.shape[1] for p in self.bilinear))

    @property
    def _every(self) -> list[tuple[Product | BilinearProduct, Indices]]:
        """All products with the raw rows that they add to."""
        linear = [(p, np.arange(p.rows.start, p.rows.stop)) for p in self.products]
        return [*linear, *((p, p.rows) for p in self.bilinear)]

    def to_layout(self, layout: Layout) -> "Observables":
        """The same predictions by other products; those of grouped ones, whose rows stay where they are."""
        if layout == self.layout:
            return self
        assert self.layout == "grouped", self.layout
        linear = products.join_products(self.products, self.nodes, padded=layout == "padded")
        both = bilinear.join_bilinear(self.bilinear, padded=layout == "padded")
        return replace(self, products=tuple(linear), bilinear=tuple(both), layout=layout)

    def predict_raw(self, pdf: Float64Array) -> Float64Array:
        """Raw predictions (..., T) in float64 for x f (..., 8, X)."""
        raw = np.zeros((*pdf.shape[:-2], self.row_count))
        for product, rows in self._every:
            features = product.compute_features(pdf[..., : self.nodes])
            for i in range(0, len(rows), SLAB_ROWS):
                raw[..., rows[i : i + SLAB_ROWS]] += features @ product.matrix[i : i + SLAB_ROWS].astype(np.float64).T
        return raw

    def predict(self, pdf: Float64Array) -> Float64Array:
        """Predictions (..., N) of the datasets in float64 for x f (..., 8, X)."""
        raw = self.predict_raw(pdf)
        each = [combine(segment.operation, [raw[..., r] for r in segment.rows]) for segment in self.segments]
        out = np.empty((*pdf.shape[:-2], len(self.order)))
        out[..., self.order] = np.concatenate(each, axis=-1)
        return out

    @property
    def has_positive(self) -> bool:
        """Whether something must not be negative."""
        return bool(self.positive) or self.has_watched_denominators

    @property
    def has_watched_denominators(self) -> bool:
        """Whether denominators must not be negative."""
        return any(one.denominator_scale is not None for one in self.segments)

    def predict_positive(self, pdf: Float64Array) -> Float64Array:
        """What must not be negative (..., P), in float64 for x f (..., 8, X): predictions of the positivity sets, and
        denominators, scaled."""
        raw = self.predict_raw(pdf)
        each = [raw[..., rows] for rows in self.positive]
        for one in self.segments:
            if one.denominator_scale is not None:
                each.append(add_denominator(one.operation, [raw[..., r] for r in one.rows]) * one.denominator_scale)
        return np.concatenate(each, axis=-1) if each else raw[..., :0]

    def watch_denominators(self, reference: Float64Array) -> "Observables":
        """The same, whose denominators must not be negative, in units of those of a reference x f (8, X)."""
        raw = self.predict_raw(reference)
        return replace(self, segments=tuple(_scale_denominator(one, raw) for one in self.segments))


def _scale_denominator(segment: Segment, raw: Float64Array) -> Segment:
    if segment.operation not in DENOMINATORS:
        return segment
    size = np.abs(add_denominator(segment.operation, [raw[rows] for rows in segment.rows]))
    size = np.maximum(size, LEAST_DENOMINATOR * size.max())  # where the reference happens to be next to zero
    return replace(segment, denominator_scale=1 / np.where(size > 0, size, 1.0))


def predict_sets(datasets: Sequence[Dataset], pdf: Float64Array) -> list[Float64Array]:
    """Predictions (n) of each dataset for x f (8, X), in float64; one set is in memory at a time."""
    return [compile_observables([d], (), pdf.shape[-1]).predict(pdf) for d in datasets]


def _split_table(owner: Owner, table: Table, nodes: int, whole: bool) -> list[TableRows]:
    columns = read_columns(table, nodes)
    if not columns:  # a table of zeros still predicts something
        shape = (table.row_count, nodes, nodes) if table.hadronic else (table.row_count, nodes)
        columns = {(0, 0) if table.hadronic else (0,): np.zeros(shape)}
    return split_rows(owner, columns, whole or table.hadronic)


def _split_tables(datasets: Sequence[Dataset], positivity: Sequence[PositivitySet], nodes: int) -> list[TableRows]:
    rows: list[TableRows] = []
    for i, dataset in enumerate(datasets):
        for k, table in enumerate(dataset.tables):
            rows += _split_table(Owner(i, k), table, nodes, dataset.operation != "NULL")
    for i, one in enumerate(positivity):
        rows += _split_table(Owner(-1 - i, 0), one.table, nodes, whole=True)
    return rows


def _join_slices(slices: Iterable[slice]) -> tuple[slice, ...]:
    """The same rows in as few slices as can be."""
    out: list[slice] = []
    for s in slices:
        out[-1:] = [slice(out[-1].start, s.stop)] if out and out[-1].stop == s.start else [*out[-1:], s]
    return tuple(out)


def _make_segments(
    datasets: Sequence[Dataset], blocks: Sequence[Sequence[int]], placed: Sequence[tuple[TableRows, slice]]
) -> tuple[list[Segment], Indices]:
    begin = np.cumsum([0, *(len(d.cv) for d in datasets)])
    segments: list[Segment] = []
    order: list[Indices] = []
    for mine in blocks:
        plain = [(r, w) for r, w in placed if r.owner.dataset in mine and datasets[r.owner.dataset].operation == "NULL"]
        segments += [Segment("NULL", (rows,)) for rows in _join_slices(w for _, w in plain)]
        order += [begin[r.owner.dataset] + r.points for r, _ in plain]
        for i in sorted(i for i in mine if datasets[i].operation != "NULL"):
            tables = {r.owner.table: w for r, w in placed if r.owner.dataset == i}
            segments.append(Segment(datasets[i].operation, tuple(tables[k] for k in sorted(tables))))
            order.append(begin[i] + np.arange(len(datasets[i].cv)))
    return segments, np.concatenate([np.zeros(0, np.intp), *order])


def compile_observables(
    datasets: Sequence[Dataset], positivity: Sequence[PositivitySet], nodes: int, blocks: Sequence[Sequence[int]] = ()
) -> Observables:
    """Fold all tables to the fitted flavours and group their rows into products.

    nodes: grid nodes below x = 1. blocks: indices of the datasets whose points are to stay together, in order; by
    default all. Hadronic tables are read one at a time; what stays are the columns that they use.
    """
    rows = _split_tables(datasets, positivity, nodes)
    hadronic = [r for r in rows if r.hadronic]
    groups = products.group([r for r in rows if not r.hadronic], nodes)
    placed: list[tuple[TableRows, slice]] = []
    begin = 0
    for r in (*(r for members in groups for r in members), *hadronic):
        placed.append((r, slice(begin, begin := begin + len(r.points))))
    first = {id(r): rows.start for r, rows in placed}
    linear = [make_product(members, nodes, first[id(members[0])]) for members in groups]
    both = bilinear.build_bilinear(hadronic, nodes, first[id(hadronic[0])]) if hadronic else []
    segments, order = _make_segments(datasets, blocks or [range(len(datasets))], placed)
    positive = _join_slices(w for r, w in placed if r.owner.dataset < 0)
    return Observables(tuple(linear), tuple(both), tuple(segments), order, positive, nodes)
