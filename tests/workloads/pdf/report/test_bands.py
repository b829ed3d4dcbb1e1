import numpy as np
import pytest

from tfperf.workloads.pdf.report.bands import compute_band, compute_loss_quantiles, select_rows


def test_band_is_mean_spread_and_quantiles_of_each_point():
    samples = np.arange(101.0)[:, None] * [1.0, 2.0]
    got = compute_band(samples)
    assert got is not None
    np.testing.assert_allclose(got.mean, [50, 100])
    np.testing.assert_allclose(got.std, np.sqrt(101 * 102 / 12) * np.array([1, 2]))  # of 0..100, R - 1
    np.testing.assert_allclose(got.low, [16, 32])
    np.testing.assert_allclose(got.high, [84, 168])


def test_one_replica_has_no_width_and_none_has_no_band():
    one = compute_band(np.array([[1.0, 2.0]]))
    assert one is not None and one.std.tolist() == [0, 0]
    assert compute_band(np.empty((0, 2))) is None


def test_stopped_replicas_keep_their_last_value_in_the_quantiles():
    nan = np.nan
    got = compute_loss_quantiles(np.array([[nan, nan, nan], [1.0, 2.0, 3.0], [1.0, nan, 4.0], [nan, nan, nan]]))
    np.testing.assert_allclose(got[1], [nan, 2, 2, 2])
    np.testing.assert_allclose(got[0], [nan, 1.32, 1.32, 1.32])
    np.testing.assert_allclose(got[2], [nan, 2.68, 3.36, 3.36])
    assert compute_loss_quantiles(np.empty((4, 0))).shape == (3, 4)
    assert compute_loss_quantiles(np.empty((0, 3))).shape == (3, 0)


@pytest.mark.parametrize("count", [0, 3, 5, 40])
def test_drawn_replicas_are_spread_over_the_converged_ones(count):
    converged = np.repeat([False, True], [2, count])
    rows = select_rows(converged, 5)
    assert len(rows) == min(count, 5) == len(set(rows)) and all(converged[rows])
    assert count < 5 or (rows[0], rows[-1]) == (2, count + 1)
