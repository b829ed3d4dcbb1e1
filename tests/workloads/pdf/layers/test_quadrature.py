"""Error of the sum-rule integrals, against adaptive 50-digit integration and SciPy's."""

import mpmath
import numpy as np
import pytest
from scipy.integrate import quad

from tfperf.workloads.pdf.card import SumRules
from tfperf.workloads.pdf.layers.quadrature import X_JOIN, X_MIN, make_gauss_rule, make_quadrature, make_trapezoid_rule


@pytest.mark.parametrize(("power", "beta"), [(-0.7837, 3.356), (-0.4397, 1.733), (-0.119, 1.475), (0.25, 5.669)])
def test_32_gauss_nodes_integrate_powers_to_1e_8(power, beta):
    """x^p (1-x)^b (1 + log x / 10), the shape of all integrands, to 50 digits."""
    with mpmath.workdps(50):
        exact = mpmath.quad(
            lambda x: x**power * (1 - x) ** beta * (1 + mpmath.log(x) / 10), [X_MIN, 1e-7, 1e-5, 1e-3, X_JOIN, 1]
        )
    rule = make_gauss_rule(32)
    got = rule.weights @ (rule.x**power * (1 - rule.x) ** beta * (1 + np.log(rule.x) / 10))
    assert abs(got / float(exact) - 1) < 1e-8


def _networks(count):
    """Integrands of random networks 2-25-20-1 with the preprocessing of valence densities."""
    rng = np.random.default_rng(5)
    for _ in range(count):
        k = [rng.normal(size=s) * np.sqrt(2 / sum(s)) for s in ((2, 25), (25, 20), (20, 1))]
        alpha, beta = rng.uniform(0.1, 0.78), rng.uniform(1.5, 3.5)

        def integrand(x, k=k, alpha=alpha, beta=beta):
            y = np.stack([x, np.log(x)])
            y = k[2].T @ np.tanh(k[1].T @ np.tanh(k[0].T @ y))
            return (
                (y[0] + 3) * x**-alpha * (1 - x) ** beta
            )  # + 3: away from zero, so that relative errors mean something

        yield integrand


def _exact(integrand):
    low = quad(lambda u: float(integrand(np.array([np.exp(u)]))[0] * np.exp(u)), np.log(X_MIN), np.log(X_JOIN),
               epsabs=0, epsrel=1e-13, limit=2000)[0]  # fmt: skip
    high = quad(lambda x: float(integrand(np.array([x]))[0]), X_JOIN, 1, epsabs=0, epsrel=1e-13, limit=2000)[0]
    return low + high


def test_error_on_random_networks_is_as_stated():
    errors = {"gauss": [], "trapezoid": []}
    for integrand in _networks(20):
        exact = _exact(integrand)
        for name, rule in (("gauss", make_gauss_rule(32)), ("trapezoid", make_trapezoid_rule())):
            errors[name].append(abs(rule.weights @ integrand(rule.x) / exact - 1))
    assert np.median(errors["gauss"]) < 1e-10 and max(errors["gauss"]) < 1e-6
    assert 1e-6 < np.median(errors["trapezoid"]) < 1e-4


def test_analytic_tail_gets_a_first_node_at_its_upper_end():
    rule = make_quadrature(SumRules(tail="analytic"))
    assert rule.x[0] == X_MIN and rule.weights[0] == 0 and len(rule.x) == 65
    assert make_quadrature(SumRules(tail="analytic", quadrature="trapezoid")).x[0] == pytest.approx(X_MIN, rel=1e-12)
