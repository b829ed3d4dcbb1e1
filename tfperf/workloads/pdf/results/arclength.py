"""How long the curve of a PDF is: replicas that wiggle have long ones."""

import numpy as np

from tfperf.arrays import Float64Array, FloatArray

X_MIN = 1e-6


def compute_arc_lengths(pdf: FloatArray, x: Float64Array) -> Float64Array:
    """Arc length of each curve x -> x f(x): (R, F), dimensionless, from x f (R, F, X) at increasing nodes x (X).

    L = integral from 1e-6 to 1 of sqrt(1 + (d(x f)/dx)^2) dx, taken as the length of the polyline through the grid's
    nodes from 1e-6 on, which cuts the curve's corners: never longer, and the same grid for all replicas of a run.

    Source: range and integrand of the arc-length veto of NNPDF's `postfit` (arXiv:2109.02671), which integrates over
    597 points, linear in each of 1e-6..1e-4..1e-2..1, and multiplies x f by x once more, so that small x counts less.

    >>> compute_arc_lengths(np.array([[[0.0, 3.0, 3.0]]]), np.array([0.0001, 4.0001, 5.0001]))
    array([[6.]])
    """
    inside = x >= X_MIN
    dx = np.diff(x[inside])
    dxf = np.diff(np.asarray(pdf, np.float64)[..., inside], axis=-1)
    return np.asarray(np.hypot(dx, dxf).sum(axis=-1))
