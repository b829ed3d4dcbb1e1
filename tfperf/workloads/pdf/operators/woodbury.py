"""chi2 of any subset of points from one whitened residual, without a matrix per replica and point.

C = D + S S^T. With e = (y - d) / sqrt(D), U = D^-1/2 S and a mask m of the points that count,
chi2 = |m e|^2 - z^T K^-1 z with z = U^T (m e) and K = 1 + U^T M U, the capacitance matrix (Woodbury 1950), exact for
every mask. N points, R replicas, k columns of a block.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, lapack, solve_triangular

from tfperf.arrays import BoolMask, Float64Array, Indices
from tfperf.errors import PackError
from tfperf.workloads.pdf.data.covariance import CovarianceMatrix
from tfperf.workloads.pdf.operators.threads import one_thread

# variances below this share of the total are rebuilt: whitening with them would cancel digits
SMALL_VARIANCE = 1e-3
BLOCK_COST = 60_000  # multiplications in the time that the launches of one more block take, at 100 replicas


@dataclass(frozen=True)
class Block:
    """Neighbouring points that share systematics with each other only: u (n, k)."""

    rows: slice
    u: Float64Array


@dataclass(frozen=True)
class Whitening:
    """inverse_sigma (N) = D^-1/2 and the blocks, in order of their rows; points without systematics are in none."""

    inverse_sigma: Float64Array
    blocks: tuple[Block, ...]

    @one_thread
    def compute_inverse_capacitances(self, masks: Float64Array) -> tuple[Float64Array, ...]:
        """K^-1 of each block for each mask: masks (R, N) of zeros and ones -> (R, k, k)."""
        return tuple(_invert_capacitances(b.u, masks[:, b.rows]) for b in self.blocks)

    def truncate(self, dtype: type[np.floating]) -> "Whitening":
        """The same, exact to the rounding of `dtype`: a column u changes any chi2 by less than u^2, relatively."""
        blocks = []
        for block in self.blocks:
            keep = (block.u**2).sum(axis=0) > np.finfo(dtype).eps / 2
            if keep.any():
                blocks.append(Block(block.rows, np.ascontiguousarray(block.u[:, keep])))
        return Whitening(self.inverse_sigma, tuple(blocks))

    def reorder(self, order: Indices) -> "Whitening":
        """The same with point order[i] as point i; each block must keep its rows."""
        blocks = tuple(Block(b.rows, b.u[order[b.rows] - b.rows.start]) for b in self.blocks)
        return Whitening(self.inverse_sigma[order], blocks)

    def whiten(self, change: Float64Array, which: BoolMask) -> Float64Array:
        """Changes (..., n, D) of predictions of the points `which` (N), such that squares add up to chi2 over these.

        By the symmetric root (1 + U U^T)^-1/2 = 1 - U (1 + G + (1 + G)^1/2)^-1 U^T with G = U^T U.
        """
        out: Float64Array = change * self.inverse_sigma[which, None]
        for block in self.blocks:
            u = block.u[which[block.rows]]
            begin = np.count_nonzero(which[: block.rows.start])
            values, vectors = np.linalg.eigh(u.T @ u)
            shrink = 1 + np.maximum(values, 0)
            mine = out[..., begin : begin + len(u), :]
            mine -= u @ ((vectors / (shrink + np.sqrt(shrink))) @ (vectors.T @ (u.T @ mine)))
        return out

    @one_thread
    def compute_chi2(self, residual: Float64Array, masks: Float64Array | None = None) -> Float64Array:
        """chi2 (R) of residuals y - d (R, N) over the masked points, in float64.

        >>> covariance = CovarianceMatrix(np.array([1.0, 4.0]), np.array([[2.0], [3.0]]))
        >>> residual = np.array([[1.0, -1.0]])
        >>> chi2 = build_whitening(covariance, {"SET": slice(0, 2)}).compute_chi2(residual)
        >>> np.allclose(chi2, residual @ np.linalg.inv(covariance.to_dense()) @ residual.T)
        True
        """
        masks = np.ones((1, len(self.inverse_sigma))) if masks is None else masks
        e = residual * self.inverse_sigma * masks
        out: Float64Array = np.einsum("rn,rn->r", e, e)
        for block in self.blocks:
            out = out - _compute_correction(block.u, masks[:, block.rows], e[:, block.rows] @ block.u)
        return out


def _compute_correction(u: Float64Array, masks: Float64Array, z: Float64Array) -> Float64Array:
    """z^T K^-1 z (R) of z (R, k), with a mask for each of them or one for all: |y|^2 with L y = z, K = L L^T."""
    rows = [z.T] if len(masks) == 1 else list(z[:, :, None])
    roots = (np.linalg.cholesky(_compute_capacitance(u, mask)) for mask in masks)
    # what is not finite goes through: it belongs to a replica that failed
    found = [solve_triangular(root, row, lower=True, check_finite=False) for root, row in zip(roots, rows, strict=True)]
    return np.concatenate([(y**2).sum(axis=0) for y in found])


def _invert_capacitances(u: Float64Array, masks: Float64Array) -> Float64Array:
    """K^-1 for each mask (R, n), from the points that are in or from those that are not, whichever are fewer."""
    k = u.shape[1]
    out, whole = np.empty((len(masks), k, k)), u.T @ u + np.eye(k)
    for i, mask in enumerate(masks > 0):
        rather_left = 2 * np.count_nonzero(mask) > len(mask)
        few = np.compress(~mask if rather_left else mask, u, axis=0)
        out[i] = invert_matrix(whole - few.T @ few if rather_left else np.eye(k) + few.T @ few)
    return out


def invert_matrix(matrix: Float64Array) -> Float64Array:
    """Inverse (k, k), k > 0, of a positive definite matrix. Raises: LinAlgError where it is not."""
    half, _ = lapack.dpotri(cholesky(matrix, lower=True, check_finite=False), lower=1)
    out: Float64Array = np.tril(half) + np.tril(half, -1).T
    return out


def _compute_capacitance(u: Float64Array, mask: Float64Array) -> Float64Array:
    """K (k, k) of one mask (n)."""
    inner = u[mask > 0]
    out: Float64Array = np.eye(u.shape[1]) + inner.T @ inner
    return out


def join_components(
    columns: Float64Array, sets: Sequence[slice], components: Sequence[Sequence[int]]
) -> list[list[int]]:
    """Neighbouring components, of datasets, put together where one larger K^-1 costs less than two products more.

    In multiplications a replica and step: 6 n k for z and its gradient, 100 k^2 for reading K^-1 twice, and a price for
    each block.
    """

    def estimate_cost(component: Sequence[int]) -> float:
        rows = np.concatenate([np.arange(sets[i].start, sets[i].stop) for i in component])
        k = int((np.abs(columns[rows]).max(axis=0, initial=0) > 0).sum())
        return 6 * len(rows) * k + 100 * k**2 + (BLOCK_COST if k else 0)

    out = [list(components[0])]
    for component in components[1:]:
        both = [*out[-1], *component]
        if estimate_cost(both) <= estimate_cost(out[-1]) + estimate_cost(component):
            out[-1] = both
        else:
            out.append(list(component))
    return out


def find_components(columns: Float64Array, sets: Sequence[slice]) -> list[list[int]]:
    """Groups of datasets that share a systematic, each in ascending order, by their first member.

    >>> columns = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 0.0]])  # the first and the third set share an error
    >>> find_components(columns, [slice(0, 1), slice(1, 2), slice(2, 3)])
    [[0, 2], [1]]
    """
    touched = np.stack([np.abs(columns[rows]).max(axis=0, initial=0) > 0 for rows in sets])
    components: list[tuple[list[int], BoolMask]] = []
    for i, mine in enumerate(touched):
        touching = [g for g in components if (g[1] & mine).any()]
        components = [g for g in components if not (g[1] & mine).any()]
        members = sorted([i, *(m for g in touching for m in g[0])])
        components.append((members, np.any([mine, *(g[1] for g in touching)], axis=0)))
    return sorted((g[0] for g in components), key=lambda members: members[0])


def _compress_columns(u: Float64Array) -> Float64Array:
    """The same U U^T with as few columns as have directions, each orthogonal to the others."""
    u = u[:, u.any(axis=0)]
    if not u.size:
        return u
    left, singular, _ = np.linalg.svd(u, full_matrices=False)
    out: Float64Array = left * singular
    return out


def _regularise(covariance: CovarianceMatrix, sets: Mapping[str, slice]) -> CovarianceMatrix:
    """The same covariance with a diagonal part that is not small anywhere.

    A set with tiny independent errors takes half the smallest eigenvalue of its own correlation matrix as such, and the
    Cholesky factor of what is left as columns of its own.
    """
    diagonal, extra = covariance.diagonal.copy(), []
    columns = covariance.columns.copy()
    for name, rows in sets.items():
        total = diagonal[rows] + (columns[rows] ** 2).sum(axis=1)
        if (total <= 0).any():
            raise PackError(f"{name}: a point has no error at all; every point needs stat or sys above zero")
        if (diagonal[rows] >= SMALL_VARIANCE * total).all():
            continue
        used = np.abs(columns[rows]).max(axis=0, initial=0) > 0
        elsewhere = np.ones(len(columns), bool)
        elsewhere[rows] = False
        own = used & ~(np.abs(columns[elsewhere]).max(axis=0, initial=0) > 0)
        matrix = np.diag(diagonal[rows]) + columns[rows][:, own] @ columns[rows][:, own].T
        scale = np.sqrt(np.diag(matrix))
        smallest = np.linalg.eigvalsh(matrix / np.outer(scale, scale))[0] if (scale > 0).all() else 0.0
        if smallest < 1e-10:
            raise PackError(f"{name}: its covariance is singular; some combination of its points has no error")
        diagonal[rows] = 0.5 * smallest * scale**2
        block = np.zeros((len(columns), len(scale)))
        block[rows] = np.linalg.cholesky(matrix - np.diag(diagonal[rows]))
        columns[rows.start : rows.stop, own] = 0
        extra.append(block)
    return CovarianceMatrix(diagonal, np.hstack([columns, *extra]))


@one_thread
def build_whitening(
    covariance: CovarianceMatrix, sets: Mapping[str, slice], dtype: type[np.floating] = np.float64,
    components: Sequence[Sequence[int]] | None = None,
) -> Whitening:  # fmt: skip
    """Bring a covariance to its blocks, exact to the rounding of `dtype`; sets: rows of each dataset, in order.

    components: datasets that make up each block, `find_components` by default. Those of one block must be neighbours.
    PackError for a singular covariance.
    """
    regular = _regularise(covariance, sets)
    inverse_sigma = 1 / np.sqrt(regular.diagonal)
    u = regular.columns * inverse_sigma[:, None]
    found = []
    every = list(sets.values())
    for component in find_components(u, every) if components is None else components:
        rows = slice(every[component[0]].start, every[component[-1]].stop)
        assert list(component) == list(range(component[0], component[-1] + 1)), "datasets of a block must be neighbours"
        found.append(Block(rows, _compress_columns(u[rows])))
    return Whitening(inverse_sigma, tuple(found)).truncate(dtype)
