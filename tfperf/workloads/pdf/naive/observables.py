"""Predictions and losses as ordinary Keras layers, with tables padded to 14 flavours and boolean masks.

R replicas, X grid nodes below x = 1, N points.
"""

from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from tfperf.arrays import BoolMask, Float64Array
from tfperf.workloads.pdf.data.closure import compute_toy_pdf
from tfperf.workloads.pdf.data.pack import Dataset, PositivitySet, Table
from tfperf.workloads.pdf.naive.replica import FLAVOURS
from tfperf.workloads.pdf.operators.observables import DENOMINATORS, add_denominator, combine, compile_observables

INTEGRABLE = tuple(FLAVOURS.index(f) for f in ("t3", "t8"))


def pad_table(table: Table, inside: BoolMask, dtype: str) -> tf.Tensor:
    """The whole operator, zeros and all: (n, X, 14), or (n, X, 14, X, 14) with two PDFs."""
    values, nodes = table.read_values(), int(inside.sum())
    full = np.zeros([table.row_count, *[nodes, len(FLAVOURS)] * len(table.channels[0])], dtype)
    for c, names in enumerate(table.channels):
        where = [FLAVOURS.index(name) for name in names]
        if table.hadronic:
            full[:, :, where[0], :, where[1]] += values[:, c][:, inside][:, :, inside]
        else:
            full[:, :, where[0]] += values[:, inside, c]
    return tf.constant(full)


def contract(table: tf.Tensor, pdf: tf.Tensor) -> tf.Tensor:
    """Predictions (R, n) of a padded table for x f (R, X, 14)."""
    if len(table.shape) == 3:
        return tf.einsum("nxa,rxa->rn", table, pdf)
    return tf.einsum("rnxa,rxa->rn", tf.einsum("nxazb,rzb->rnxa", table, pdf), pdf)


class Predictions(keras.layers.Layer):  # Keras is untyped
    """All points of all replicas: x f (R, X, 14) -> (R, N)."""

    def __init__(self, datasets: Sequence[Dataset], inside: BoolMask, dtype: str) -> None:
        super().__init__(dtype=dtype)
        self.sets = [(d.operation, [pad_table(t, inside, dtype) for t in d.tables]) for d in datasets]

    def call(self, pdf: tf.Tensor) -> tf.Tensor:
        """Set by set, table by table."""
        each = [combine(operation, [contract(t, pdf) for t in tables]) for operation, tables in self.sets]
        return tf.concat(each, axis=1)


class NaivePositivity(keras.layers.Layer):
    """Sum of max(0, -prediction) over all positivity sets: x f (R, X, 14) -> (R); with denominators of datasets, in
    units of those of the toy PDFs, where these are given."""

    def __init__(
        self, sets: Sequence[PositivitySet], datasets: Sequence[Dataset], x: Float64Array, inside: BoolMask, dtype: str
    ) -> None:
        super().__init__(name="positivity", dtype=dtype)
        self.tables = [pad_table(s.table, inside, dtype) for s in sets]
        self.denominators = []
        for dataset in (one for one in datasets if one.operation in DENOMINATORS):
            watched = compile_observables([dataset], (), int(inside.sum())).watch_denominators(compute_toy_pdf(x))
            tables = [pad_table(table, inside, dtype) for table in dataset.tables]
            self.denominators.append(
                (dataset.operation, tables, tf.constant(watched.segments[0].denominator_scale, dtype))
            )

    def call(self, pdf: tf.Tensor) -> tf.Tensor:
        """Zero without sets."""
        total = tf.zeros(pdf.shape[0], pdf.dtype)
        for table in self.tables:
            total += tf.reduce_sum(tf.nn.relu(-contract(table, pdf)), axis=1)
        for operation, tables, scale in self.denominators:
            denominator = add_denominator(operation, [contract(table, pdf) for table in tables])
            total += tf.reduce_sum(tf.nn.relu(-denominator * scale), axis=1)
        return total


class NaiveIntegrability(keras.layers.Layer):
    """Sum of |x t3| and |x t8| over the smallest nodes: x f (R, X, 14) -> (R)."""

    def __init__(self, nodes: int, dtype: str) -> None:
        super().__init__(name="integrability", dtype=dtype)
        self.nodes = nodes

    def call(self, pdf: tf.Tensor) -> tf.Tensor:
        """Zero without nodes."""
        return tf.reduce_sum(tf.abs(tf.gather(pdf[:, : self.nodes], INTEGRABLE, axis=2)), axis=[1, 2])


class Chi2(keras.layers.Layer):
    """r^T C^-1 r of the points under a mask, for one replica: predictions (N) -> (1).

    C is the covariance of those points alone, r their residual times the root of their sets' weights.
    """

    def __init__(
        self, data: Float64Array, mask: BoolMask, covariance: Float64Array, root_weight: Float64Array, dtype: str
    ) -> None:
        super().__init__(dtype=dtype)
        self.mask = mask
        self.data, self.root_weight = tf.constant(data, dtype), tf.constant(root_weight, dtype)
        self.inverse = tf.constant(np.linalg.inv(covariance[np.ix_(mask, mask)]), dtype)

    def call(self, predictions: tf.Tensor) -> tf.Tensor:
        """Zero for an empty mask."""
        residual = tf.boolean_mask((predictions - self.data) * self.root_weight, self.mask)
        return tf.reduce_sum(residual * tf.linalg.matvec(self.inverse, residual), keepdims=True)


class Objective(keras.layers.Layer):
    """What each replica minimises: chi2 and penalties (R) -> (R). A callback raises the multipliers."""

    def __init__(self, dtype: str) -> None:
        super().__init__(dtype=dtype)
        self.positivity = self.add_weight(name="positivity", shape=(), trainable=False)
        self.integrability = self.add_weight(name="integrability", shape=(), trainable=False)

    def call(self, chi2: tf.Tensor, positivity: tf.Tensor, integrability: tf.Tensor) -> tf.Tensor:
        """Chi2 plus each penalty times its multiplier."""
        return chi2 + self.positivity * positivity + self.integrability * integrability
