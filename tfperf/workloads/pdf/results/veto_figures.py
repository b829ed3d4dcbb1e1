"""What NNPDF's vetoes look at beside chi2: how long the curves of a PDF are, and whether its sum rules converge.

Source: NNPDF's own code, package nnpdf 4.1.5 (GPL-3.0): the nodes, the flavours and the sums of `validphys.arclength`
(`arc_lengths`, `integrability_number`), which `n3fit` calls for each replica at Q0 (arXiv:2109.02671).
"""

import numpy as np
from scipy.integrate import simpson

from tfperf.arrays import Float64Array
from tfperf.workloads.pdf.results.record import EVOLUTION

ARC_FLAVOURS = ("sigma", "g", "v", "v3", "v8")
INTEGRABLE = ("v", "t3", "v3", "t8", "v8")
SEGMENTS = ((1e-6, 1e-4), (1e-4, 1e-2), (1e-2, 1.0))  # each with nodes at equal distances, without its end
NODES = 199  # of each
ARC_X = np.stack([np.linspace(a, b, NODES, endpoint=False) for a, b in SEGMENTS])  # (3, NODES)
INTEGRABILITY_X = np.array([1e-9, 1e-8, 1e-7])
VETO_X = np.concatenate([ARC_X.ravel(), INTEGRABILITY_X])  # all nodes at which a PDF is asked for


def compute_arc_lengths(pdf: Float64Array) -> Float64Array:
    """Arc lengths (R, F) of the curves x -> x (x f), dimensionless, from x f (R, F, 597) at the nodes ARC_X.

    In each segment sqrt(1 + (dy/dx)^2) of forward differences, integrated by Simpson's rule over the nodes at which
    these end. y has x once more than x f, as there, so that small x counts less.

    >>> straight = ARC_X.ravel()[None, None] ** 0  # x f = 1: y = x, from 5e-7 to 1 but for three gaps
    >>> round(float(compute_arc_lengths(straight)[0, 0]) / 2**0.5, 3)
    0.99
    """
    curves = pdf.reshape(*pdf.shape[:-1], len(SEGMENTS), NODES) * ARC_X
    steps = np.array([(b - a) / NODES for a, b in SEGMENTS])
    speed = np.sqrt(1 + (np.diff(curves, axis=-1) / steps[:, None]) ** 2)
    parts = [simpson(speed[..., place, :], x=ARC_X[place, 1:], axis=-1) for place in range(len(SEGMENTS))]
    total: Float64Array = np.sum(parts, axis=0)
    return total


def compute_integrability(pdf: Float64Array) -> Float64Array:
    """Sum of |x f| (R, len(INTEGRABLE)) over the nodes INTEGRABILITY_X, from x f of EVOLUTION (R, 8, 3) there."""
    rows = [EVOLUTION.index(name) for name in INTEGRABLE]
    total: Float64Array = np.abs(pdf[:, rows]).sum(axis=-1)
    return total
