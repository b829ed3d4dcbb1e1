"""Linear predictions, data, masks and covariance of each replica folded into one small matrix.

Points of sets without operation ("linear", l) enter chi2 through p_k alone. The other points (o) of a block share its
systematics U: with U_o = T V^T of rank r, chi2 = [|M e_o|^2 - t^T (1 + T^T M T)^-1 t] + Q(p_k, t) where
t = T^T M e_o: the bracket is the chi2 of the other points alone, the rest is quadratic in (p_k, t), exact by Woodbury.
R replicas, 2 R halves: training, then validation.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tfperf.operators.woodbury import Block, Whitened

Array = NDArray[np.float64]
RIDGE = 1e-3


@dataclass(frozen=True)
class Folded:
    """Q = constants + 2 slopes d + d^T forms d with d = (p_k, t) - centres, near whose minimum float32 loses no digits.

    forms (2 R, K, K), centres and slopes (2 R, K), constants (2 R); K = k + sum of `linked` ranks.

    rest: the other points' own whitening; `linked`: which of its blocks' t follow p_k, in order.
    """

    forms: Array
    centres: Array
    slopes: Array
    constants: Array
    rest: Whitened
    linked: tuple[int, ...]


@dataclass(frozen=True)
class _Part:
    """One block's linear rows and systematics, and what its other rows share with them."""

    linear: NDArray[np.intp]  # points
    others: NDArray[np.intp]
    u_linear: Array  # (n, k_b)
    shared: Array  # T (n_o, r)
    directions: Array  # V (k_b, r)


def _part(linear: NDArray[np.bool_], rows: slice, u: Array, negligible: float) -> _Part:
    points = np.arange(rows.start, rows.stop)
    mine = linear[rows]
    left, singular, right = np.linalg.svd(u[~mine], full_matrices=False)
    keep = singular**2 > negligible
    return _Part(points[mine], points[~mine], u[mine], left[:, keep] * singular[keep], right[keep].T)


def _parts(white: Whitened, linear: NDArray[np.bool_], negligible: float) -> list[_Part]:
    """All points, those in no block as blocks without systematics."""
    parts, end = [], 0
    for block in (*white.blocks, Block(slice(len(linear), len(linear)), np.zeros((0, 0)))):
        if block.rows.start > end:
            rows = slice(end, block.rows.start)
            parts.append(_part(linear, rows, np.zeros((rows.stop - rows.start, 0)), negligible))
        if block.rows.stop > block.rows.start:
            parts.append(_part(linear, block.rows, block.u, negligible))
        end = block.rows.stop
    return parts


def fold(
    white: Whitened, linear: NDArray[np.bool_], operator: Array, data: Array, training: NDArray[np.bool_],
    negligible: float = 0.0,
) -> Folded:  # fmt: skip
    """Fold the points `linear` (N), with operator (n, k) and data (R, n) in units of their errors, and masks (R, N).

    Directions of the other points' systematics that change chi2 by less than `negligible`, relatively, are left out.
    """
    parts = _parts(white, linear, max(negligible, np.finfo(float).eps))
    k, halves = operator.shape[1], np.concatenate([training, ~training])
    linked = [p for p in parts if len(p.linear) and p.shared.shape[1]]
    size = k + sum(p.shared.shape[1] for p in linked)
    place = np.cumsum(linear) - 1
    forms, constants = np.empty((len(halves), size, size)), np.empty(len(halves))
    centres, slopes = np.empty((2, len(halves), size))
    for i, mask in enumerate(halves):
        form, slope, constant = np.zeros((size, size)), np.zeros(size), 0.0
        begin = k
        for part in parts:
            if not len(part.linear):
                continue
            rows = place[part.linear]
            stop = begin + part.shared.shape[1]
            constant += _add(form, slope, part, slice(begin, stop), mask, operator[rows], data[i % len(data), rows])
            begin = stop
        forms[i] = form
        centres[i], slopes[i] = _centred(form, slope)
        constants[i] = constant + centres[i] @ (slopes[i] - slope)
    rest, numbers = _rest(white, parts, linear)
    return Folded(forms, centres, slopes, constants, rest, tuple(numbers[id(p)] for p in linked))


def _add(
    form: Array, slope: Array, part: _Part, own: slice, mask: NDArray[np.bool_], operator: Array, data: Array
) -> float:
    """Add a block's quadratic form in (p_k, t) to form and slope; returns its constant."""
    k, m = operator.shape[1], mask[part.linear]
    a, d, u, t = operator[m], data[m], part.u_linear[m], part.shared[mask[part.others]]
    v = part.directions
    za, zd = u.T @ a, u.T @ d
    inner = u.T @ u + (v @ (t.T @ t)) @ v.T + np.eye(u.shape[1])
    solved = np.linalg.solve(inner, np.concatenate([za, zd[:, None], v], axis=1))
    ka, kd, kv = solved[:, :k], solved[:, k], solved[:, k + 1 :]
    form[:k, :k] += a.T @ a - za.T @ ka
    form[:k, own] -= za.T @ kv
    form[own, :k] -= kv.T @ za
    form[own, own] += np.linalg.inv(np.eye(t.shape[1]) + t.T @ t) - v.T @ kv
    slope[:k] += a.T @ d - za.T @ kd
    slope[own] -= v.T @ kd
    return float(d @ d - zd @ kd)


def _centred(form: Array, slope: Array) -> tuple[Array, Array]:
    """A point near the minimum of w^T form w - 2 slope^T w, and half the gradient there.

    What no point sees stays small: far from zero, the form in float32 would lose digits.
    """
    diagonal = np.diag(form)
    scale = np.sqrt(np.maximum(diagonal, RIDGE * diagonal.max(initial=RIDGE)))
    unit = form / np.outer(scale, scale) + RIDGE * np.eye(len(form))
    centre = np.linalg.solve(unit, slope / scale) / scale
    return centre, form @ centre - slope


def _rest(white: Whitened, parts: Sequence[_Part], linear: NDArray[np.bool_]) -> tuple[Whitened, dict[int, int]]:
    """Whitening of the other points, in their order, and the number of each part's block in it."""
    blocks: list[Block] = []
    numbers: dict[int, int] = {}
    begin = 0
    for part in parts:
        rows = slice(begin, begin := begin + len(part.others))
        if part.shared.shape[1]:
            numbers[id(part)] = len(blocks)
            blocks.append(Block(rows, part.shared))
    return Whitened(white.inverse_sigma[~linear], tuple(blocks)), numbers
