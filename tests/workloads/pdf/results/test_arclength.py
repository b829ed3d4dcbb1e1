import numpy as np
import pytest

from tests.make_result import make_grid
from tfperf.workloads.pdf.results.arclength import compute_arc_lengths

CURVES = {  # x f and its derivative
    "line": (lambda x: 2 * x, lambda x: 2 + 0 * x),
    "gluon": (lambda x: 1.9 * x**-0.1 * (1 - x) ** 5, lambda x: -1.9 * x**-1.1 * (1 - x) ** 4 * (0.1 + 4.9 * x)),
    "valence": (lambda x: 6 * x**0.75 * (1 - x) ** 3, lambda x: 6 * x**-0.25 * (1 - x) ** 2 * (0.75 - 3.75 * x)),
}


def true_length(slope):
    """Gauss-Legendre in log x, 400 panels of 8 nodes, from 1e-6 to 1."""
    edges = np.linspace(np.log(1e-6), 0, 401)
    nodes, weights = np.polynomial.legendre.leggauss(8)
    half = np.diff(edges)[:, None] / 2
    x = np.exp(edges[:-1, None] + half * (1 + nodes))
    return np.sum(half * weights * x * np.sqrt(1 + slope(x) ** 2))


@pytest.mark.parametrize("name", CURVES)
def test_fine_grid_gives_the_integral(name):
    curve, slope = CURVES[name]
    x = np.geomspace(1e-6, 1, 20001)
    # a polyline errs by h^2 / 24 of the curve's bends, h = 7e-4 in log x
    assert compute_arc_lengths(curve(x)[None, None], x)[0, 0] == pytest.approx(true_length(slope), rel=1e-7)


@pytest.mark.parametrize("name", CURVES)
def test_the_grid_of_a_fit_comes_close_from_below(name):
    curve, slope = CURVES[name]
    x = make_grid()
    x = np.insert(x, np.searchsorted(x, 1e-6), 1e-6)
    length = compute_arc_lengths(curve(x)[None, None], x)[0, 0]
    assert 0.99 < length / true_length(slope) <= 1 + 1e-12


def test_each_replica_and_flavour_on_its_own_and_nothing_below_1e_6():
    rng = np.random.default_rng(3)
    x, pdf = make_grid(), rng.normal(size=(3, 8, 50))
    want = np.zeros((3, 8))
    for r in range(3):
        for f in range(8):
            for i in range(49):
                if x[i] >= 1e-6:
                    want[r, f] += np.sqrt((x[i + 1] - x[i]) ** 2 + (pdf[r, f, i + 1] - pdf[r, f, i]) ** 2)
    np.testing.assert_allclose(compute_arc_lengths(pdf, x), want, rtol=1e-13)
    pdf[..., x < 1e-6] = 1e9
    np.testing.assert_allclose(compute_arc_lengths(pdf, x), want, rtol=1e-13)


def test_a_replica_of_nan_has_no_length_and_the_others_do():
    pdf = np.ones((2, 8, 50))
    pdf[0] = np.nan
    lengths = compute_arc_lengths(pdf.astype(np.float32), make_grid())
    assert np.isnan(lengths[0]).all() and np.isfinite(lengths[1]).all()
