"""Effective exponents of PDFs, and the ranges made of them."""

import json
from pathlib import Path

import numpy as np

from tests.workloads.pdf.results.curves import FLAVOURS, make_curves
from tfperf.workloads.pdf.results.effective_exponents import EXPONENT_X, compute_exponents, compute_ranges
from tfperf.workloads.pdf.results.record import EVOLUTION

PEER = json.loads((Path(__file__).parent / "exponent_ranges.json").read_text())


def test_powers_of_x_and_of_1_minus_x_are_found():
    alpha, beta = np.linspace(-0.4, 1.3, 8)[:, None], np.linspace(1.5, 5, 8)[:, None]
    small = compute_exponents((EXPONENT_X ** (1 - alpha))[None])[0, :, 0]
    assert np.allclose(small, alpha.T)
    large = compute_exponents((-EXPONENT_X * (1 - EXPONENT_X) ** beta)[None])[1, :, 0]  # signs do not count
    assert np.allclose(large, beta.T)


def test_a_density_of_zero_has_finite_exponents():
    assert np.isfinite(compute_exponents(np.zeros((3, 8, 4)))).all()


def test_the_ranges_of_made_up_pdfs_are_those_of_nnpdf():
    assert PEER["x"] == EXPONENT_X.tolist() and list(PEER["ranges"]) == list(EVOLUTION) == list(FLAVOURS)
    pdf = np.stack([make_curves(EXPONENT_X, replica) for replica in range(PEER["replicas"])])
    ranges = compute_ranges(compute_exponents(pdf))
    for place, flavour in enumerate(EVOLUTION):
        want = PEER["ranges"][flavour]
        assert np.allclose(ranges[0, :, place], want["smallx"], rtol=1e-10), flavour
        assert np.allclose(ranges[1, :, place], want["largex"], rtol=1e-10), flavour


def test_no_beta_is_negative():
    rising = EXPONENT_X * (1 - EXPONENT_X) ** np.array([-0.5, 0.2, 1.0])[:, None]
    ranges = compute_ranges(compute_exponents(np.repeat(rising[:, None], 8, axis=1)))
    assert (ranges[1, 0] == 0).all() and (ranges[1, 1] > 0).all()
