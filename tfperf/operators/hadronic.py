"""Hadronic predictions on a reduced basis of PDFs: a small bilinear core instead of the tables.

With p ~ P p_k on both legs, y_n = sum over i, j of (P^T B_n P)[i, j] p_k[i] p_k[j]; the cores of all points together
have fewer directions than points, so that few rows make them all. D = 8 X numbers of a PDF, k of its reduced form, B
blocks of them: products of two blocks a <= b hold each pair once but for those within a block.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tfperf.operators.observables import Observables, combine
from tfperf.operators.products import Product
from tfperf.operators.reduction import Basis

Array = NDArray[np.float64]
Matrix = tuple[tuple[int, int], Array]
BLOCKS = 5  # ranks are multiples of it


@dataclass(frozen=True)
class Core:
    """restrict (k, D); products over p_k as (B, k / B); expand (n, m) makes of m of their rows the raw rows `targets`.

    Their further rows are the raw rows `direct`: what an operation follows has poles, no direction of it is left out.
    """

    restrict: Array
    products: tuple[Product, ...]
    expand: Array
    targets: tuple[slice, ...]
    direct: tuple[slice, ...]


def slopes(observables: Observables, pdf: Array) -> Array:
    """Derivative (N, D) of the predictions of hadronic points at x f (8, X), in the order of training; else zero."""
    raw, step = observables.raw(pdf), 1e-4
    change = jacobian(observables, pdf)
    out = []
    for term in observables.terms:
        parts = [raw[rows] for rows in term.rows]
        total = np.zeros((1, change.shape[1]))
        for i, rows in enumerate(term.rows):
            move = step * np.maximum(np.abs(parts[i]), np.finfo(float).tiny)
            up, down = ([p + sign * move * (k == i) for k, p in enumerate(parts)] for sign in (1, -1))
            slope = (combine(term.operation, up) - combine(term.operation, down)) / (2 * move)
            total = total + slope[:, None] * change[rows]
        out.append(total)
    return np.concatenate(out)


def jacobian(observables: Observables, pdf: Array) -> Array:
    """Derivative (T, D) of the raw hadronic predictions at x f (8, X); zero for the others."""
    nodes = observables.nodes
    out = np.zeros((observables.rows, len(pdf), nodes))
    for product in observables.products:
        if len(product.legs[0]) == 1:
            continue
        ((f, g),) = product.legs
        size = nodes - product.start
        table = product.matrix.reshape(-1, size, size)
        left, right = (pdf[leg, product.start : nodes].astype(table.dtype) for leg in (f, g))
        begin = 0
        for target in product.targets:
            rows = slice(begin, begin := begin + target.stop - target.start)
            out[target, f, product.start :] += table[rows] @ right
            out[target, g, product.start :] += left @ table[rows]
    return out.reshape(len(out), -1)


def cores(observables: Observables, targets: Sequence[slice], extend: Array) -> Array:
    """P^T B P of the raw rows `targets`, one after the other, symmetric: (n, k, k)."""
    nodes, k = observables.nodes, extend.shape[1]
    legs = extend.reshape(-1, nodes, k)
    place = _places(targets)
    out = np.zeros((len(place), k, k))
    for product in observables.products:
        if len(product.legs[0]) == 1:
            continue
        ((f, g),) = product.legs
        left, right = legs[f, product.start :], legs[g, product.start :]
        begin = 0
        for target in product.targets:
            rows = slice(begin, begin := begin + target.stop - target.start)
            if target.start not in place:
                continue
            table = product.matrix[rows].astype(np.float64).reshape(-1, nodes - product.start, nodes - product.start)
            where = place[target.start]
            out[where : where + len(table)] += np.matmul(left.T, table @ right)
    return (out + out.transpose(0, 2, 1)) / 2


def _places(targets: Sequence[slice]) -> dict[int, int]:
    """Where each raw row of the targets comes, counted from the first."""
    rows = [row for target in targets for row in range(target.start, target.stop)]
    return {row: i for i, row in enumerate(rows)}


def _columns(cores: Array) -> tuple[list[tuple[tuple[int, int], slice]], Array]:
    """Columns of the products of blocks, side by side (n, columns), and which are whose."""
    size = cores.shape[1] // BLOCKS
    parts, where, begin = [], [], 0
    for a in range(BLOCKS):
        for b in range(a, BLOCKS):
            part = cores[:, a * size : (a + 1) * size, b * size : (b + 1) * size] * (1 if a == b else 2)
            parts.append(part.reshape(len(cores), -1))
            where.append(((a, b), slice(begin, begin := begin + size * size)))
    return where, np.concatenate(parts, axis=1)


def compress(cores: Array, weights: Array, negligible: float) -> tuple[Array, list[Matrix]]:
    """expand (n, m) and the products' legs and matrices (m, columns); weights (n) are inverse errors.

    Left out are the last directions that together change all predictions by `negligible` errors when each p_k is 1.
    """
    where, columns = _columns(cores * weights[:, None, None])
    left, singular, right = np.linalg.svd(columns, full_matrices=False)
    keep = np.sqrt(np.cumsum(singular[::-1] ** 2))[::-1] > negligible
    rows = singular[keep, None] * right[keep]
    return left[:, keep] / weights[:, None], [(legs, np.ascontiguousarray(rows[:, part])) for legs, part in where]


def reduced(
    observables: Observables, targets: Sequence[slice], direct: Sequence[slice], basis: Basis, weights: Array,
    negligible: float,
) -> tuple[Observables, Core]:  # fmt: skip
    """The observables without the tables of the raw rows `targets` and `direct`, and the core that makes those."""
    expand, matrices = compress(cores(observables, targets, basis.extend), weights, negligible)
    where, further = _columns(cores(observables, direct, basis.extend))
    gone = set(_places([*targets, *direct]))
    rows = (slice(0, expand.shape[1] + len(further)),)
    left = [p for p in (_without(p, gone) for p in observables.products) if p is not None]
    products = tuple(
        Product((legs,), 0, np.concatenate([matrix, further[:, part]]), rows)
        for (legs, matrix), (_, part) in zip(matrices, where, strict=True)
    )
    core = Core(basis.restrict, products, expand, tuple(targets), tuple(direct))
    return replace(observables, products=tuple(left)), core


def _without(product: Product, gone: set[int]) -> Product | None:
    """The product without some of its targets; None when nothing is left of it."""
    keep = [target for target in product.targets if target.start not in gone]
    if len(keep) == len(product.targets):
        return product
    ends = np.cumsum([0, *(t.stop - t.start for t in product.targets)])
    rows = [product.matrix[a:b] for t, (a, b) in zip(product.targets, pairwise(ends), strict=True) if t in keep]
    return replace(product, matrix=np.concatenate(rows), targets=tuple(keep)) if keep else None
