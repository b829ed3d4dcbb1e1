"""The law of padded lengths against made-up peaks."""

import numpy as np
import pytest

from tfperf.measure.length_law import fit_lengths


def peak(batch, length):
    return 30e6 + batch * (2e4 + 3e3 * length + 50 * length**2)


def list_points(lengths, noise=0.0):
    rng = np.random.default_rng(1)
    sizes = [(batch, length) for length in lengths for batch in (32, 64, 128)]
    return [(*size, peak(*size) * (1 + noise * rng.standard_normal())) for size in sizes]


def test_bytes_of_samples_places_and_pairs_are_told_apart():
    law = fit_lengths(list_points((20, 40, 90)))
    assert law is not None and law.lengths == (20, 40, 90)
    assert [law.fixed, law.per_sample, law.per_place, law.per_pair] == pytest.approx([30e6, 2e4, 3e3, 50], rel=1e-6)
    assert law.predict(300, 60) == pytest.approx(peak(300, 60))


def test_scattered_peaks_are_predicted_within_their_scatter():
    law = fit_lengths(list_points((20, 40, 90), noise=0.01))
    assert law is not None and law.predict(100, 70) == pytest.approx(peak(100, 70), rel=0.05)


def test_two_lengths_tell_no_pairs_and_one_tells_nothing():
    law = fit_lengths(list_points((20, 40)))
    assert law is not None and law.per_pair is None
    assert law.predict(64, 40) == pytest.approx(peak(64, 40), rel=1e-6)
    assert fit_lengths(list_points((20,))) is None and fit_lengths([(8, 20, 1.0), (8, 40, 1.0)]) is None
