"""Effective exponents of fitted PDFs at small and large x, and the ranges that the next fit's exponents are drawn from.

    alpha_eff(x) = -ln |f(x)| / ln x          at x = 1e-6 and 1e-3
    beta_eff(x)  =  ln |f(x)| / ln (1 - x)    at x = 0.65 and 0.95

A range goes from mean - 2 d to mean + 2 d, d the distances from the mean to the ends of the central 68 % of the
replicas, and over both x; of sigma and g, alpha is that of the smallest x alone. Source: NNPDF's rule (arXiv:1410.8849;
`validphys.eff_exponents` of package nnpdf 4.1.5, GPL-3.0).
"""

import numpy as np

from tfperf.arrays import Float64Array
from tfperf.workloads.pdf.results.record import EVOLUTION

EXPONENT_X = np.array([1e-6, 1e-3, 0.65, 0.95])  # two for alpha, two for beta
SMALLEST_ALONE = ("sigma", "g")
CENTRAL = (15.87, 84.13)  # percentiles
WIDTH = 2.0  # times their distances from the mean
SMALLEST_DENSITY = 1e-300


def compute_exponents(pdf: Float64Array) -> Float64Array:
    """Effective exponents (2 exponents, 2 x, R, F) from x f (R, F, 4) at EXPONENT_X.

    >>> x = EXPONENT_X
    >>> alpha, beta = compute_exponents((x * x**-1.2)[None, None])
    >>> bool(np.allclose(alpha, 1.2))
    True
    """
    size = np.log(np.maximum(np.abs(pdf / EXPONENT_X), SMALLEST_DENSITY))
    scale = np.concatenate([-np.log(EXPONENT_X[:2]), np.log1p(-EXPONENT_X[2:])])
    exponents: Float64Array = np.moveaxis(size / scale, -1, 0).reshape(2, 2, *pdf.shape[:2])
    return exponents


def compute_ranges(exponents: Float64Array) -> Float64Array:
    """Ranges (2 exponents, 2 ends, F) from exponents (2, 2 x, R, F); no negative beta."""
    mean = exponents.mean(axis=2)
    low, high = np.percentile(exponents, CENTRAL, axis=2)
    low, high = mean + WIDTH * (low - mean), mean + WIDTH * (high - mean)
    alone = [EVOLUTION.index(name) for name in SMALLEST_ALONE]
    low[0, 1, alone], high[0, 1, alone] = low[0, 0, alone], high[0, 0, alone]
    ranges = np.stack([low.min(axis=1), high.max(axis=1)], axis=1)
    ranges[1] = np.maximum(ranges[1], 0)
    return ranges
