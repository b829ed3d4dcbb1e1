"""PDFs contracted with forward operators: the large matrix products of a step.

R replicas, X grid nodes, D numbers of a PDF, T raw predictions, H of them hadronic.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
import tensorflow as tf

from tfperf.arrays import FloatArray
from tfperf.workloads.pdf.card import FITTED
from tfperf.workloads.pdf.luminosities import Luminosities
from tfperf.workloads.pdf.operators.hadronic import HadronicCore
from tfperf.workloads.pdf.operators.observables import Observables
from tfperf.workloads.pdf.operators.products import Product

RowRange = tuple[int, int]  # the first raw row and the one after the last


def join_columns(arrays: Sequence[tf.Tensor]) -> tf.Tensor:
    """Tensors (R, n) side by side."""
    return arrays[0] if len(arrays) == 1 else tf.concat(arrays, axis=1)


class Contraction:
    """Raw predictions (R, T) from x f (R, 8, X), handed out in ranges of neighbouring rows."""

    def __init__(
        self, observables: Observables, scale: FloatArray, first: int, dtype: str, core: HadronicCore | None = None
    ) -> None:
        """`scale` (T) multiplies the rows; grid node `first` + i of the observables is node i of the PDF.

        Each run of rows that the observables ask for is made of whole ranges. `core` makes further rows.
        """
        self.first, self.core = first, core
        edges = {edge for run in observables.row_slices for edge in (run.start, run.stop)}
        self.linear = [self._make_linear(p, scale, edges, dtype) for p in observables.products]
        self.core_ranges = [] if core is None else [(t.start, t.stop) for t in (*core.outputs, *core.direct)]
        # hadronic rows come after all others; the core makes some of them
        end = max((p.rows.stop for p in observables.products), default=0)
        runs = [(max(run.start, end), run.stop) for run in observables.row_slices if run.stop > end]
        self.hadronic = sorted(set(runs) - set(self.core_ranges))
        self.row_ranges = sorted([*(p for _, _, mine in self.linear for p in mine), *self.hadronic, *self.core_ranges])
        if self.hadronic:
            self._prepare_luminosities(observables, scale, dtype)
        if core is not None:
            self._prepare_core(core, scale, dtype)

    @staticmethod
    def _make_linear(
        product: Product, scale: FloatArray, edges: Iterable[int], dtype: str
    ) -> tuple[Product, tf.Tensor, list[RowRange]]:
        rows = product.rows
        inside = sorted({rows.start, rows.stop} | {e for e in edges if rows.start < e < rows.stop})
        return product, tf.constant((product.matrix * scale[rows, None]).astype(dtype)), list(pairwise(inside))

    def _prepare_luminosities(self, observables: Observables, scale: FloatArray, dtype: str) -> None:
        products, rows = observables.bilinear, np.concatenate([np.arange(*row_range) for row_range in self.hadronic])
        start = min((int(np.min(p.pairs % p.nodes)) for p in products), default=0)
        self.nodes = observables.nodes - start
        pairs = [p.pairs // p.nodes * self.nodes + p.pairs % p.nodes - start for p in products]
        self.luminosities = Luminosities(products, rows, pairs, len(FITTED) * self.nodes, scale, dtype)

    def _prepare_core(self, core: HadronicCore, scale: FloatArray, dtype: str) -> None:
        rank, product, rows = len(core.restrict), core.product, core.product.rows
        restrict = core.restrict.reshape(rank, len(FITTED), -1)
        restrict = np.pad(restrict, [(0, 0), (0, 0), (max(0, -self.first), 0)])[..., max(0, self.first) :]
        self.restrict = tf.constant(restrict.reshape(rank, -1), dtype)
        scales = np.concatenate([np.zeros(0), *(scale[output] for output in core.outputs)])
        self.expand = tf.constant(core.expand * scales[:, None], dtype)
        # nothing multiplies what an operation follows
        self.core_luminosities = Luminosities([product], rows, [product.pairs], rank, np.ones(len(rows)), dtype)

    def _compute_core(self, pdf: tf.Tensor) -> dict[int, tf.Tensor]:
        assert self.core is not None
        reduced = tf.matmul(tf.reshape(pdf, [pdf.shape[0], -1]), self.restrict, transpose_b=True)
        sizes = [t.stop - t.start for t in self.core.direct]
        few, *direct = tf.split(self.core_luminosities(reduced), [self.expand.shape[1], *sizes], axis=1)
        raw = tf.matmul(few, self.expand, transpose_b=True)
        arrays = tf.split(raw, [t.stop - t.start for t in self.core.outputs], axis=1)
        return {start: array for (start, _), array in zip(self.core_ranges, (*arrays, *direct), strict=True)}

    def __call__(self, pdf: tf.Tensor) -> dict[int, tf.Tensor]:
        """The ranges (R, rows) by their first row."""
        out: dict[int, tf.Tensor] = {}
        for product, matrix, row_ranges in self.linear:
            raw = tf.matmul(self._select_features(pdf, product), matrix, transpose_b=True)
            arrays = tf.split(raw, [b - a for a, b in row_ranges], axis=1)
            out |= {start: array for (start, _), array in zip(row_ranges, arrays, strict=True)}
        if self.hadronic:
            flat = tf.reshape(pdf[..., pdf.shape[2] - self.nodes :], [pdf.shape[0], -1])
            arrays = tf.split(self.luminosities(flat), [b - a for a, b in self.hadronic], axis=1)
            out |= {start: array for (start, _), array in zip(self.hadronic, arrays, strict=True)}
        if self.core is not None:
            out |= self._compute_core(pdf)
        return out

    def select_ranges(self, rows: slice) -> list[RowRange]:
        """The ranges that make up a run of rows."""
        return [(a, b) for a, b in self.row_ranges if rows.start <= a and b <= rows.stop]

    def _select_features(self, pdf: tf.Tensor, product: Product) -> tf.Tensor:
        start = product.start - self.first
        used = pdf[..., start:]
        if product.flavours != tuple(range(pdf.shape[1])):
            used = tf.gather(used, product.flavours, axis=1)
        return tf.reshape(used, [pdf.shape[0], len(product.flavours) * used.shape[2]])
