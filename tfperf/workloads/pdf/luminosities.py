"""Hadronic predictions from luminosities, and their gradient: matrix products, and sums of rows picked from memory.

R replicas, D numbers of a PDF, H hadronic rows.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tfperf.arrays import FloatArray, Indices, Int32Array
from tfperf.workloads.pdf.operators.bilinear import BilinearProduct

SLAB_BYTES = 2**22  # of what is picked before it is added up: a CPU's caches hold it
PADDING = 16  # the rows of a box come in multiples, which slabs of many sizes divide


def make_gather_index(lists: Sequence[Indices], count: int) -> Int32Array:
    """Where each of `count` targets finds its terms: (count, most), filled up with the index after the last one.

    lists[k]: the targets to which the terms of product k belong; the products' terms lie one after the other.
    """
    target = np.concatenate([np.zeros(0, np.intp), *lists])
    order = np.argsort(target, kind="stable")
    sizes = np.bincount(target, minlength=count)
    position = np.arange(len(target)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    out = np.full((count, max(1, int(sizes.max(initial=0)))), len(target), np.int32)
    out[target[order], position] = order
    return out


def count_slab_rows(rows: int, row_bytes: int) -> int:
    """How many of so many rows are picked at a time: on a CPU what caches hold; a GPU holds none of what it picks."""
    if tf.config.list_logical_devices("GPU"):
        return rows
    return max((n for n in range(1, rows + 1) if rows % n == 0 and n * row_bytes <= SLAB_BYTES), default=1)


class Luminosities:
    """Hadronic predictions (R, H) from flat PDFs (R, D), by products of their luminosities."""

    def __init__(
        self, products: Sequence[BilinearProduct], rows: Indices, pairs: Sequence[Indices],
        width: int, scale: FloatArray, dtype: str,
    ) -> None:  # fmt: skip
        """rows (H): the raw rows; pairs: those of the products, of D = `width` numbers; `scale` (T) multiplies rows."""
        self.matrices = [tf.constant((p.matrix * scale[p.rows][:, None]).astype(dtype)) for p in products]
        # the gradient's products are a tenth faster with a copy
        self.transposed = [tf.constant(tf.transpose(m)) for m in self.matrices]
        self.pairs = [tf.constant(p, tf.int32) for p in pairs]
        places = [np.searchsorted(rows, p.rows) for p in products]
        self.places = [tf.constant(p, tf.int32) for p in places]
        self.rows = len(rows)
        self.contributions = tf.constant(make_gather_index(places, len(rows)))
        # the luminosity of two numbers, at both; the one after the last is zero
        box = np.full((-(-width // PADDING) * PADDING, width), sum(p.shape[1] for p in pairs), np.int32)
        begin = 0
        for first, second in pairs:
            number = np.arange(begin, begin := begin + len(first))
            box[first, second] = box[second, first] = number
        self.box, self.diagonal = tf.constant(box), tf.constant(np.diag(box).copy())

    def __call__(self, flat: tf.Tensor) -> tf.Tensor:
        """Predictions; the gradient makes no luminosity again."""

        @tf.custom_gradient  # type: ignore[untyped-decorator]
        def function(flat: tf.Tensor) -> tuple[tf.Tensor, object]:
            return self._predict(flat), lambda upstream: self._compute_gradient(flat, upstream)

        return function(flat)

    def _predict(self, flat: tf.Tensor) -> tf.Tensor:
        # replicas side by side in memory: what is gathered are whole rows
        numbers = tf.transpose(flat)
        contributions = [
            tf.matmul(matrix, tf.gather(numbers, pair[0]) * tf.gather(numbers, pair[1]))
            for matrix, pair in zip(self.matrices, self.pairs, strict=True)
        ]
        every = tf.concat([*contributions, tf.zeros([1, flat.shape[0]], flat.dtype)], axis=0)
        return tf.transpose(tf.reduce_sum(tf.gather(every, self.contributions), axis=1))

    def _compute_gradient(self, flat: tf.Tensor, upstream: tf.Tensor) -> tf.Tensor:
        numbers = tf.transpose(flat)
        slopes = [
            tf.matmul(matrix, tf.gather(upstream, place, axis=1), transpose_b=True)
            for matrix, place in zip(self.transposed, self.places, strict=True)
        ]
        every = tf.concat([*slopes, tf.zeros([1, flat.shape[0]], flat.dtype)], axis=0)
        return tf.transpose(self._sum_partners(every, numbers) + tf.gather(every, self.diagonal) * numbers)

    def _sum_partners(self, every: tf.Tensor, numbers: tf.Tensor) -> tf.Tensor:
        """Sums over the partners of each number, (D, R), of the slopes `every` of their luminosities.

        In slabs of rows: (D, D, R) as a whole would go through memory.
        """
        width, replicas = numbers.shape

        def pull(box: tf.Tensor) -> tf.Tensor:
            return tf.reduce_sum(tf.gather(every, box) * numbers, axis=1)

        rows = count_slab_rows(len(self.box), width * replicas * numbers.dtype.size)
        if rows == len(self.box):
            return pull(self.box)[:width]
        slabs = tf.reshape(self.box, [-1, rows, width])
        total = tf.map_fn(pull, slabs, fn_output_signature=tf.TensorSpec([rows, replicas], numbers.dtype))
        return tf.reshape(total, [-1, replicas])[:width]
