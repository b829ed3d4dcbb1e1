"""A basis in which few numbers of a PDF decide its predictions: balanced truncation.

D = 8 X numbers of a PDF on the grid. With samples p of what networks give, C = <p p^T>, the Gram matrix G = A^T A of
whitened operators A, H = C^1/2 and H G H = Y Lambda Y^T: p_k = R p with R = Lambda^-1 Y^T H G, p ~ P p_k with P = H Y,
for the k largest Lambda. Predictions then lose least on average over the samples. Source: Moore 1981, IEEE Trans.
Autom. Control 26, 17. R is not orthonormalised: in float32 that costs digits.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tfperf.arrays import Float64Array

# of the samples' own size: how much of a smooth function that no network drew is allowed for
SMOOTH_AMPLITUDE, SMOOTH_LENGTH = 0.03, 1.0
QUANTILE = 0.95
STEP = 10  # ranks are multiples of it


@dataclass(frozen=True)
class Basis:
    """restrict (k, D): p -> p_k; extend (D, k): back."""

    restrict: Float64Array
    extend: Float64Array

    @property
    def rank(self) -> int:
        """k."""
        return len(self.restrict)

    def truncate(self, rank: int) -> "Basis":
        """The leading directions only."""
        return Basis(self.restrict[:rank], self.extend[:, :rank])

    def compute_remainder(self, pdf: Float64Array) -> Float64Array:
        """What the basis leaves out of PDFs (..., D)."""
        return pdf - (pdf @ self.restrict.T) @ self.extend.T


def _compute_smooth_covariance(samples: Float64Array, x: Float64Array) -> Float64Array:
    """Covariance (D, D) of smooth functions of each flavour, small beside the samples (S, 8, X)."""
    size = np.sqrt((samples**2).mean(axis=0))
    t = np.log(x) + 5 * x
    covariance = SMOOTH_AMPLITUDE**2 * np.exp(-0.5 * ((t[:, None] - t) / SMOOTH_LENGTH) ** 2)
    flavours, nodes = size.shape
    out = np.zeros((flavours, nodes, flavours, nodes))
    for f in range(flavours):
        out[f, :, f] = np.outer(size[f], size[f]) * covariance
    return out.reshape(flavours * nodes, flavours * nodes)


def build_balanced_basis(samples: Float64Array, x: Float64Array, gram: Float64Array) -> Basis:
    """All directions that can be told apart, the most important first: samples (S, 8, X), x (X), gram (D, D)."""
    flat = samples.reshape(len(samples), -1)
    values, vectors = np.linalg.eigh(flat.T @ flat / len(flat) + _compute_smooth_covariance(samples, x))
    root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    importance, directions = np.linalg.eigh(root @ gram @ root)
    order = np.argsort(-importance)
    order = order[importance[order] > 1e-15 * importance[order[0]]]
    directions = directions[:, order]
    return Basis((directions / importance[order]).T @ root @ gram, root @ directions)


def estimate_chi2_error(lost: Float64Array, points: float) -> Float64Array:
    """Expected change of chi2 per point (S) at chi2 = `points`, when whitened predictions lose `lost` (S, N).

    2 r^T d + d^2 with a residual r that is as likely in any direction.

    >>> estimate_chi2_error(np.array([[0.03, 0.04]]), points=100.0)  # (2 x 0.05 + 0.0025) / 100
    array([0.001025])
    """
    square = (lost**2).sum(axis=1)
    out: Float64Array = (2 * np.sqrt(square) + square) / points
    return out


def find_rank(estimate_errors: Callable[[int], Float64Array], most: int, tolerance: float) -> int:
    """The smallest multiple of STEP at which nearly all samples err by less than the tolerance; at most `most`.

    >>> find_rank(lambda rank: np.array([1.0 / rank]), most=187, tolerance=0.02)
    50
    """
    low, high = 1, -(-most // STEP)
    while low < high:
        middle = (low + high) // 2
        if np.quantile(estimate_errors(min(middle * STEP, most)), QUANTILE) <= tolerance:
            high = middle
        else:
            low = middle + 1
    return min(low * STEP, most)
