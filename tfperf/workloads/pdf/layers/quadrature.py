"""Nodes and weights of the sum-rule integrals over x from 1e-9 to 1."""

from dataclasses import dataclass

import numpy as np

from tfperf.arrays import Float64Array
from tfperf.workloads.pdf.card import SumRules

X_MIN, X_JOIN = 1e-9, 0.1
TRAPEZOIDS = 2000


@dataclass(frozen=True)
class Quadrature:
    """Integral of f over (X_MIN, 1) = sum of weights * f(x); x, weights (Q), x ascending."""

    x: Float64Array
    weights: Float64Array


def make_gauss_rule(nodes: int) -> Quadrature:
    """Gauss-Legendre in log x on [1e-9, 0.1] and in x on [0.1, 1], `nodes` each.

    The integrands behave like x^p (log x)^n below and like (1-x)^q above. Relative error with 32 nodes: below 1e-8 for
    such powers in the ranges of the exponents, on random networks 1e-11 at the median and 1e-6 at the worst.

    >>> rule = make_gauss_rule(32)
    >>> round(float(np.sum(rule.weights * rule.x)), 8)  # the integral of x
    0.5
    """
    t, w = np.polynomial.legendre.leggauss(nodes)
    low, high = np.log(X_MIN), np.log(X_JOIN)
    x_log = np.exp(low + (high - low) * (t + 1) / 2)
    x_linear = X_JOIN + (1 - X_JOIN) * (t + 1) / 2
    weights = np.concatenate([w * (high - low) / 2 * x_log, w * (1 - X_JOIN) / 2])
    return Quadrature(np.concatenate([x_log, x_linear]), weights)


def make_trapezoid_rule(points: int = TRAPEZOIDS) -> Quadrature:
    """Trapezoids on half the points in log x up to 0.1 and half in x, as n3fit 4.1 has them; 2e-5 at the median."""
    x = np.concatenate(
        [np.geomspace(X_MIN, X_JOIN, points // 2 + 1)[:-1], np.linspace(X_JOIN, 1, points - points // 2)]
    )
    steps = np.concatenate([[0], np.diff(x), [0]])
    return Quadrature(x, (steps[1:] + steps[:-1]) / 2)


def make_quadrature(options: SumRules) -> Quadrature:
    """The rule that the card asks for; with an analytic tail its first node is X_MIN (no weight of Gauss)."""
    rule = make_gauss_rule(options.nodes) if options.quadrature == "gauss" else make_trapezoid_rule()
    if options.tail == "none" or rule.x[0] == X_MIN:
        return rule
    return Quadrature(np.concatenate([[X_MIN], rule.x]), np.concatenate([[0.0], rule.weights]))
