"""Samples of PDFs: such as networks give, and wider than those before training."""

import numpy as np

from tfperf.workloads.pdf.card import FITTED, Model
from tfperf.workloads.pdf.layers.quadrature import make_quadrature
from tfperf.workloads.pdf.prior import OUTLIERS, sample_pdfs

X = np.geomspace(1e-4, 0.9, 10)


def test_samples_are_the_smallest_of_the_draws_and_always_the_same():
    every = sample_pdfs(Model(), X, 50, seed=1)
    assert every.shape == (round(50 * (1 - OUTLIERS)), 8, len(X)) and np.isfinite(every).all()
    sizes = (every**2).mean(axis=(1, 2))
    assert (np.diff(sizes) >= 0).all()
    np.testing.assert_array_equal(every, sample_pdfs(Model(), X, 50, seed=1))
    assert not np.array_equal(every, sample_pdfs(Model(), X, 50, seed=2))


def test_samples_obey_the_sum_rules():
    rule = make_quadrature(Model().sum_rules)
    pdf = sample_pdfs(Model(), rule.x, 20, seed=3)
    momentum = (pdf[:, FITTED.index("sigma")] + pdf[:, FITTED.index("g")]) @ rule.weights
    numbers = pdf[:, FITTED.index("v")] / rule.x @ rule.weights
    # what lies below the first node is added analytically, or is small
    np.testing.assert_allclose(momentum, 1, atol=2e-2)
    assert np.median(np.abs(numbers - 3)) < 0.3


def test_samples_scatter_more_than_untrained_networks():
    """The basis must hold what training makes of them: relative to its size, curvature in log x of all degrees."""
    from tfperf.workloads.pdf.model import PDF

    untrained = PDF(Model(), 100)
    untrained.initialize(1, range(1, 101), [0] * 100)
    shapes = []
    for pdf in (untrained(X).numpy().astype(float), sample_pdfs(Model(), X, 110, seed=4)):
        unit = pdf[:, 3] / np.linalg.norm(pdf[:, 3], axis=1, keepdims=True)
        values = np.linalg.svd(unit, compute_uv=False)
        shapes.append((values**2).cumsum() / (values**2).sum())
    assert (shapes[1][:4] < shapes[0][:4]).all()
