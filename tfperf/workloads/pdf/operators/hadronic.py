"""Hadronic predictions on a reduced basis of PDFs: a small bilinear core instead of the tables.

With p ~ P p_k on both legs, y_n = sum over i, j of (P^T B_n P)[i, j] p_k[i] p_k[j]; the cores of all points together
have fewer directions than points, so that few rows make them all. D = 8 X numbers of a PDF, k of its reduced form.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tfperf.arrays import Float64Array, Indices
from tfperf.workloads.pdf.operators.bilinear import BilinearProduct
from tfperf.workloads.pdf.operators.observables import Observables, combine
from tfperf.workloads.pdf.operators.reduction import Basis

SLAB_ROWS = 64  # rows of a product that are made dense at a time


@dataclass(frozen=True)
class HadronicCore:
    """restrict (k, D); a product over p_k; expand (n, m) makes of m of its rows the raw rows `outputs`.

    Its further rows are the raw rows `direct`: what an operation follows has poles, no direction of it is left out.
    """

    restrict: Float64Array
    product: BilinearProduct
    expand: Float64Array
    outputs: tuple[slice, ...]
    direct: tuple[slice, ...]


def compute_jacobian(observables: Observables, pdf: Float64Array) -> Float64Array:
    """Derivative (N, D) of the predictions of hadronic points at x f (8, X), in the order of training; else zero."""
    raw, step = observables.predict_raw(pdf), 1e-4
    change = compute_raw_jacobian(observables, pdf)
    out = []
    for segment in observables.segments:
        predictions = [raw[rows] for rows in segment.rows]
        total = np.zeros((1, change.shape[1]))
        for i, rows in enumerate(segment.rows):
            move = step * np.maximum(np.abs(predictions[i]), np.finfo(float).tiny)
            up, down = ([p + sign * move * (k == i) for k, p in enumerate(predictions)] for sign in (1, -1))
            slope = (combine(segment.operation, up) - combine(segment.operation, down)) / (2 * move)
            total = total + slope[:, None] * change[rows]
        out.append(total)
    return np.concatenate(out)


def compute_raw_jacobian(observables: Observables, pdf: Float64Array) -> Float64Array:
    """Derivative (T, D) of the raw hadronic predictions at x f (8, X); zero for the others."""
    out = np.zeros((observables.row_count, len(pdf) * observables.nodes))
    for product in observables.bilinear:
        out[product.rows] += product.compute_jacobian(pdf[:, : observables.nodes])
    return out


def compute_cores(observables: Observables, outputs: Sequence[slice], extend: Float64Array) -> Float64Array:
    """P^T B P of the raw rows `outputs`, one after the other, symmetric: (n, k, k)."""
    rows = np.concatenate([np.zeros(0, np.intp), *(np.arange(t.start, t.stop) for t in outputs)])
    out = np.zeros((len(rows), extend.shape[1], extend.shape[1]))
    for begin in range(0, len(rows), SLAB_ROWS):
        table = _to_dense(observables.bilinear, rows[begin : begin + SLAB_ROWS], len(extend))
        out[begin : begin + SLAB_ROWS] = extend.T @ table @ extend
    return (out + out.transpose(0, 2, 1)) / 2


def _to_dense(products: Sequence[BilinearProduct], rows: Indices, width: int) -> Float64Array:
    """B of some raw rows, (n, D, D), upper triangles."""
    out = np.zeros((len(rows), width, width))
    order = np.argsort(rows)
    for product in products:
        _, mine, theirs = np.intersect1d(rows[order], product.rows, assume_unique=True, return_indices=True)
        out[order[mine][:, None], product.pairs[0], product.pairs[1]] = product.matrix[theirs]
    return out


def _index_rows(outputs: Sequence[slice]) -> dict[int, int]:
    """Where each raw row of the outputs comes, counted from the first."""
    rows = [row for output in outputs for row in range(output.start, output.stop)]
    return {row: i for i, row in enumerate(rows)}


def _flatten_cores(cores: Float64Array) -> Float64Array:
    """Entries (n, k (k + 1) / 2) of the products p_i p_j, i <= j."""
    i, j = np.triu_indices(cores.shape[1])
    columns: Float64Array = cores[:, i, j] * np.where(i == j, 1, 2)
    return columns


@dataclass(frozen=True)
class CoreDirections:
    """Singular vectors of the outputs' cores in units of their errors, and the columns of the direct rows as such."""

    left: Float64Array  # (n, m), in units of the predictions
    singular: Float64Array  # (m), descending
    right: Float64Array  # (m, columns)
    direct: Float64Array

    def truncate(self, negligible: float) -> tuple[Float64Array, Float64Array]:
        """expand (n, m) and the matrix (m, columns) of a product.

        Left out are the last directions that together change all predictions by `negligible` errors when each p_k is 1.
        """
        keep = np.sqrt(np.cumsum(self.singular[::-1] ** 2))[::-1] > negligible
        return self.left[:, keep], self.singular[keep, None] * self.right[keep]


def factorise(
    observables: Observables, outputs: Sequence[slice], direct: Sequence[slice], basis: Basis,
    inverse_errors: Float64Array,
) -> CoreDirections:  # fmt: skip
    """The directions over a basis of the raw rows `outputs`, with inverse errors (n), and `direct`."""
    columns, others = (_flatten_cores(compute_cores(observables, rows, basis.extend)) for rows in (outputs, direct))
    left, singular, right = np.linalg.svd(columns * inverse_errors[:, None], full_matrices=False)
    return CoreDirections(left / inverse_errors[:, None], singular, right, others)


def reduce_observables(
    observables: Observables, outputs: Sequence[slice], direct: Sequence[slice], basis: Basis,
    directions: CoreDirections, negligible: float,
) -> tuple[Observables, HadronicCore]:  # fmt: skip
    """The observables without the tables of the raw rows `outputs` and `direct`, and the core that makes those."""
    expand, matrix = directions.truncate(negligible)
    matrix = np.concatenate([matrix, directions.direct])
    pairs = np.stack(np.triu_indices(basis.extend.shape[1]))
    product = BilinearProduct(pairs, matrix, np.arange(len(matrix)), basis.extend.shape[1])
    gone = set(_index_rows([*outputs, *direct]))
    left = [p for p in (p.drop_rows(gone) for p in observables.bilinear) if p is not None]
    core = HadronicCore(basis.restrict, product, expand, tuple(outputs), tuple(direct))
    return replace(observables, bilinear=tuple(left)), core
