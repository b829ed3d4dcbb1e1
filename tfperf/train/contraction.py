"""PDFs contracted with forward operators: the large matrix products of a step.

R replicas, X grid nodes, T raw predictions.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfperf.operators.hadronic import BLOCKS, Core
from tfperf.operators.products import Product
from tfperf.runcard.config import FITTED


def joined(parts: Sequence[tf.Tensor]) -> tf.Tensor:
    """Tensors (R, n) side by side."""
    return parts[0] if len(parts) == 1 else tf.concat(parts, axis=1)


class Contraction:
    """Raw predictions (R, T) from x f (R, 8, X), handed out in pieces of neighbouring rows."""

    def __init__(
        self, products: Sequence[Product], scale: NDArray[np.floating], first: int, cuts: Sequence[slice], dtype: str,
        core: Core | None = None,
    ) -> None:  # fmt: skip
        """`scale` (T) multiplies the rows; grid node `first` of the products is the first node of the PDF.

        `cuts`: runs of rows that will be asked for; each is then made of whole pieces. `core` makes further rows.
        """
        self.first, self.core = first, core
        edges = {edge for cut in cuts for edge in (cut.start, cut.stop)}
        self.linear: list[tuple[Product, tf.Tensor, list[int]]] = []
        self.bilinear: list[tuple[Product, tf.Tensor]] = []
        pieces: set[tuple[int, int]] = set()
        for product in products:
            rows = np.concatenate([scale[target] for target in product.targets])
            matrix = tf.constant((product.matrix * rows[:, None]).astype(dtype))
            if len(product.legs[0]) == 2:
                self.bilinear.append((product, matrix))
                pieces |= {(t.start, t.stop) for t in product.targets}
                continue
            (target,) = product.targets
            inside = sorted({target.start, target.stop} | {e for e in edges if target.start < e < target.stop})
            self.linear.append((product, matrix, inside))
            pieces |= set(pairwise(inside))
        if core is not None:
            pieces |= {(t.start, t.stop) for t in (*core.targets, *core.direct)}
            self._prepare_core(core, scale, dtype)
        self.pieces = sorted(pieces)

    def _prepare_core(self, core: Core, scale: NDArray[np.floating], dtype: str) -> None:
        rank, rows = len(core.restrict), core.products[0].targets[0].stop
        restrict = core.restrict.reshape(rank, len(FITTED), -1)
        restrict = np.pad(restrict, [(0, 0), (0, 0), (max(0, -self.first), 0)])[..., max(0, self.first) :]
        self.restrict = tf.constant(restrict.reshape(rank, -1), dtype)
        scales = np.concatenate([scale[target] for target in core.targets])
        self.expand = tf.constant(core.expand * scales[:, None], dtype)
        # nothing multiplies what an operation follows
        self.bent = Contraction(core.products, np.ones(rows), 0, [slice(0, rows)], dtype)

    def _core(self, pdf: tf.Tensor) -> dict[int, tf.Tensor]:
        assert self.core is not None
        reduced = tf.matmul(tf.reshape(pdf, [pdf.shape[0], -1]), self.restrict, transpose_b=True)
        few = self.bent(tf.reshape(reduced, [pdf.shape[0], BLOCKS, -1]))[0]
        sizes = [t.stop - t.start for t in self.core.direct]
        few, *direct = tf.split(few, [self.expand.shape[1], *sizes], axis=1)
        raw = tf.matmul(few, self.expand, transpose_b=True)
        parts = tf.split(raw, [t.stop - t.start for t in self.core.targets], axis=1)
        pairs = zip((*self.core.targets, *self.core.direct), (*parts, *direct), strict=True)
        return {target.start: part for target, part in pairs}

    def __call__(self, pdf: tf.Tensor) -> dict[int, tf.Tensor]:
        """The pieces (R, rows) by their first row."""
        out: dict[int, tf.Tensor] = {}
        for product, matrix, inside in self.linear:
            features = self._features(pdf, product)
            raw = tf.matmul(features, matrix, transpose_b=True)
            parts = tf.split(raw, [b - a for a, b in pairwise(inside)], axis=1)
            out |= dict(zip(inside, parts, strict=False))
        if self.bilinear:
            out |= self._bilinear(pdf)
        if self.core is not None:
            out |= self._core(pdf)
        return out

    def covering(self, rows: slice) -> list[tuple[int, int]]:
        """First and last (exclusive) rows of the pieces that make up a run of rows."""
        return [(a, b) for a, b in self.pieces if rows.start <= a and b <= rows.stop]

    def runs(self, pieces: Sequence[tuple[int, int]]) -> list[list[tuple[int, int]]]:
        """The same pieces, small hadronic neighbours together."""
        small = {t.start for product, _ in self.bilinear for t in product.targets}
        out: list[list[tuple[int, int]]] = []
        for piece in pieces:
            if out and piece[0] in small and out[-1][0][0] in small:
                out[-1].append(piece)
            else:
                out.append([piece])
        return out

    def _features(self, pdf: tf.Tensor, product: Product) -> tf.Tensor:
        start = product.start - self.first
        flavours = [legs[0] for legs in product.legs]
        used = (
            pdf[..., start:] if flavours == list(range(pdf.shape[1])) else tf.gather(pdf[..., start:], flavours, axis=1)
        )
        return tf.reshape(used, [pdf.shape[0], len(flavours) * used.shape[2]])

    def _bilinear(self, pdf: tf.Tensor) -> dict[int, tf.Tensor]:
        """One product per channel of luminosities; its gradient makes no luminosity again."""
        begins = sorted({t.start for product, _ in self.bilinear for t in product.targets})

        @tf.custom_gradient  # type: ignore[untyped-decorator]
        def function(pdf: tf.Tensor) -> tuple[list[tf.Tensor], object]:
            def gradient(*upstream: tf.Tensor) -> tf.Tensor:
                return self._bilinear_gradient(pdf, dict(zip(begins, upstream, strict=True)))

            sums = self._bilinear_sums(pdf)
            return [tf.add_n(sums[begin]) for begin in begins], gradient

        return dict(zip(begins, function(pdf), strict=True))

    def _legs(self, pdf: tf.Tensor, product: Product) -> tuple[tf.Tensor, tf.Tensor]:
        """x f of both flavours of a channel, (R, n, 1) and (R, 1, n)."""
        (f, g), start = product.legs[0], product.start - self.first
        return pdf[:, f, start:, None], pdf[:, g, None, start:]

    def _bilinear_sums(self, pdf: tf.Tensor) -> dict[int, list[tf.Tensor]]:
        sums: dict[int, list[tf.Tensor]] = {}
        for product, matrix in self.bilinear:
            left, right = self._legs(pdf, product)
            luminosity = tf.reshape(left * right, [pdf.shape[0], matrix.shape[1]])
            raw = tf.matmul(luminosity, matrix, transpose_b=True)
            parts = tf.split(raw, [t.stop - t.start for t in product.targets], axis=1)
            for target, part in zip(product.targets, parts, strict=True):
                sums.setdefault(target.start, []).append(part)
        return sums

    def _bilinear_gradient(self, pdf: tf.Tensor, upstream: dict[int, tf.Tensor]) -> tf.Tensor:
        size = pdf.shape[2]
        sums: list[list[tf.Tensor]] = [[] for _ in range(pdf.shape[1])]
        for product, matrix in self.bilinear:
            left, right = self._legs(pdf, product)
            nodes = left.shape[1]
            rows = tf.concat([upstream[t.start] for t in product.targets], axis=1)
            luminosity = tf.reshape(tf.matmul(rows, matrix), [pdf.shape[0], nodes, nodes])
            pad = [[0, 0], [size - nodes, 0]]
            f, g = product.legs[0]
            slope = tf.linalg.matvec(luminosity, right[:, 0])
            if f == g and product.symmetric:
                sums[f].append(tf.pad(2 * slope, pad))
                continue
            sums[f].append(tf.pad(slope, pad))
            sums[g].append(tf.pad(tf.linalg.matvec(luminosity, left[..., 0], transpose_a=True), pad))
        zero = tf.zeros_like(pdf[:, 0])
        return tf.stack([tf.add_n(s) if s else zero for s in sums], axis=1)
