"""Linear predictions, data, masks and covariance of each replica folded into one small matrix.

Points of sets without operation ("linear", l) enter chi2 through p_k alone. The other points (o) of a block share its
systematics U: with U_o = T V^T of rank r, chi2 = [|M e_o|^2 - t^T (1 + T^T M T)^-1 t] + Q(p_k, t) where
t = T^T M e_o: the bracket is the chi2 of the other points alone, the rest is quadratic in (p_k, t), exact by Woodbury.
R replicas, 2 R halves: training, then validation.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular

from tfperf.arrays import BoolMask, Float64Array, Indices
from tfperf.workloads.pdf.operators.woodbury import Block, Whitening, invert_matrix

RIDGE = 1e-3


@dataclass(frozen=True)
class FoldedPoints:
    """Q = constants + 2 slopes d + d^T curvatures d, d = (p_k, t) - centres, near whose minimum float32 keeps digits.

    curvatures, halves of second derivatives (2 R, K, K), centres and slopes (2 R, K), constants (2 R); K = k + sum of
    `coupled` ranks.

    rest: the other points' own whitening; `coupled`: which of its blocks' t follow p_k, in order.
    """

    curvatures: Float64Array
    centres: Float64Array
    slopes: Float64Array
    constants: Float64Array
    rest: Whitening
    coupled: tuple[int, ...]


@dataclass(frozen=True)
class _SplitBlock:
    """One block's linear points and systematics, and how its other points are coupled to them."""

    linear: Indices  # points
    others: Indices
    wide: Float64Array  # (n, 1 + k + k_b): room for the data, then operator and systematics of the linear points
    whole: Float64Array  # its Gram matrix
    coupling: Float64Array  # T (n_o, r)
    loadings: Float64Array  # V (k_b, r)

    def compute_curvatures(self, data: Float64Array, training: BoolMask) -> tuple[Float64Array, Float64Array]:
        """Symmetric (1 + k + r, 1 + k + r): of both halves, in (-1, p_k, t); data (n), training (N).

        The larger half is what the smaller one leaves of all: as exact, for the error of either is that of its norm.
        """
        mine, others = training[self.linear], training[self.others]
        few = mine if 2 * np.count_nonzero(mine) <= len(mine) else ~mine
        rows = np.compress(few, self.wide, axis=0)
        rows[:, 0] = data[few]
        fewer, whole = rows.T @ rows, self.whole.copy()
        whole[0] = whole[:, 0] = data @ self.wide
        whole[0, 0] = data @ data
        pair = (fewer, whole - fewer) if few is mine else (whole - fewer, fewer)
        return self._compute_curvature(pair[0], others), self._compute_curvature(pair[1], ~others)

    def _compute_curvature(self, gram: Float64Array, others: BoolMask) -> Float64Array:
        """The matrix of some points: gram of the linear ones (1 + k + k_b, 1 + k + k_b), mask of the others."""
        (systematics, rank), first = self.loadings.shape, len(gram) - len(self.loadings)
        out = np.zeros((first + rank, first + rank))
        out[:first, :first] = gram[:first, :first]
        if not systematics:
            return out
        inner = gram[first:, first:] + np.eye(systematics)
        if rank:
            t = np.compress(others, self.coupling, axis=0)
            square = t.T @ t
            inner += (self.loadings @ square) @ self.loadings.T
            out[first:, first:] = invert_matrix(np.eye(rank) + square)
        root = cholesky(inner, lower=True, check_finite=False)
        columns = np.hstack([gram[first:, :first], self.loadings])
        moved = solve_triangular(root, columns, lower=True, check_finite=False)
        out -= moved.T @ moved
        return out


def _split_block(
    points: slice, u: Float64Array, linear: BoolMask, operator: Float64Array, negligible: float
) -> _SplitBlock:
    """A block of neighbouring points with systematics u; operator (n, k) of all linear points."""
    every, mine = np.arange(points.start, points.stop), linear[points]
    begin, count = np.count_nonzero(linear[: points.start]), np.count_nonzero(mine)
    left, singular, right = np.linalg.svd(u[~mine], full_matrices=False)
    keep = singular**2 > negligible
    wide = np.hstack([np.zeros((count, 1)), operator[begin : begin + count], u[mine]])
    return _SplitBlock(every[mine], every[~mine], wide, wide.T @ wide, left[:, keep] * singular[keep], right[keep].T)


def _split_blocks(
    whitening: Whitening, linear: BoolMask, operator: Float64Array, negligible: float
) -> list[_SplitBlock]:
    """All points, those in no block as blocks without systematics."""
    found, end = [], 0
    for block in (*whitening.blocks, Block(slice(len(linear), len(linear)), np.zeros((0, 0)))):
        if block.rows.start > end:
            found.append((slice(end, block.rows.start), np.zeros((block.rows.start - end, 0))))
        if block.rows.stop > block.rows.start:
            found.append((block.rows, block.u))
        end = block.rows.stop
    return [_split_block(points, u, linear, operator, negligible) for points, u in found]


def fold_points(
    whitening: Whitening,
    linear: BoolMask,
    operator: Float64Array,
    data: Float64Array,
    training: BoolMask,
    negligible: float = 0.0,
) -> FoldedPoints:
    """Fold the points `linear` (N), with operator (n, k) and data (R, n) in units of their errors, and masks (R, N).

    Directions of the other points' systematics that change chi2 by less than `negligible`, relatively, are left out.
    """
    split_blocks = _split_blocks(whitening, linear, operator, max(negligible, np.finfo(float).eps))
    k, replicas = operator.shape[1], len(data)
    coupled = [p for p in split_blocks if len(p.linear) and p.coupling.shape[1]]
    size = k + sum(p.coupling.shape[1] for p in coupled)
    curvatures, constants = np.empty((2 * replicas, size, size)), np.empty(2 * replicas)
    centres, slopes = np.empty((2, 2 * replicas, size))
    for r in range(replicas):
        halves = _sum_curvatures([p for p in split_blocks if len(p.linear)], data[r], training[r], 1 + k, 1 + size)
        for i, total in zip((r, replicas + r), halves, strict=True):
            curvatures[i], slope = total[1:, 1:], total[1:, 0]
            centres[i], slopes[i] = _find_centre(curvatures[i], slope)
            constants[i] = total[0, 0] + centres[i] @ (slopes[i] - slope)
    rest, numbers = _whiten_rest(whitening, split_blocks, linear)
    return FoldedPoints(curvatures, centres, slopes, constants, rest, tuple(numbers[id(p)] for p in coupled))


def _sum_curvatures(
    split_blocks: Sequence[_SplitBlock], data: Float64Array, training: BoolMask, k: int, size: int
) -> Float64Array:
    """Those of all blocks added up, (2, size, size): the first k entries are common, then each block has its own t."""
    totals = np.zeros((2, size, size))
    first, begin = 0, k
    for split_block in split_blocks:
        points = slice(first, first := first + len(split_block.linear))
        own = slice(begin, begin := begin + split_block.coupling.shape[1])
        for total, curvature in zip(totals, split_block.compute_curvatures(data[points], training), strict=True):
            total[:k, :k] += curvature[:k, :k]
            total[:k, own] = curvature[:k, k:]
            total[own, :k] = curvature[k:, :k]
            total[own, own] = curvature[k:, k:]
    return totals


def _find_centre(curvature: Float64Array, slope: Float64Array) -> tuple[Float64Array, Float64Array]:
    """A point near the minimum of w^T curvature w - 2 slope^T w, and half the gradient there.

    What no point sees stays small: far from zero, the matrix in float32 would lose digits.
    """
    diagonal = np.diag(curvature)
    scale = np.sqrt(np.maximum(diagonal, RIDGE * diagonal.max(initial=RIDGE)))
    unit = curvature / np.outer(scale, scale) + RIDGE * np.eye(len(curvature))
    root = cholesky(unit, lower=True, check_finite=False)
    centre = cho_solve((root, True), slope / scale, check_finite=False) / scale
    return centre, curvature @ centre - slope


def _whiten_rest(
    whitening: Whitening, split_blocks: list[_SplitBlock], linear: BoolMask
) -> tuple[Whitening, dict[int, int]]:
    """Whitening of the other points, in their order, and the number of each block's in it."""
    blocks: list[Block] = []
    numbers: dict[int, int] = {}
    begin = 0
    for split_block in split_blocks:
        rows = slice(begin, begin := begin + len(split_block.others))
        if split_block.coupling.shape[1]:
            numbers[id(split_block)] = len(blocks)
            blocks.append(Block(rows, split_block.coupling))
    return Whitening(whitening.inverse_sigma[~linear], tuple(blocks)), numbers
