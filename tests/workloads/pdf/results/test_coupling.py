import numpy as np
import pytest

from tfperf.workloads.pdf.results.coupling import compute_alpha_s

# alpha_s with 0.118 at 91.1876 GeV, pole masses 1.51 and 4.92 GeV: exact couplings of eko 0.15.7, whose adaptive
# integration is another one. Columns: 1.65 GeV, 4.92 GeV with 4 and with 5 flavours, 10 TeV with 5
EKO = {
    0: (0.288759811587216, 0.20357879277358482, 0.20357879277358482, 0.0703912405020185),
    1: (0.3274407735792879, 0.21326726045768818, 0.21326726045768818, 0.06938722491397878),
    2: (0.331788636597313, 0.21359962185718923, 0.2138887904532908, 0.06935386860618069),
}
MASSES = (1.51, 4.92)


@pytest.mark.parametrize("order", EKO)
def test_equals_an_independent_program(order):
    q, alpha = compute_alpha_s(0.118, 91.1876, 1.65, MASSES, order)
    (edge,) = np.flatnonzero(np.diff(q) == 0).tolist()
    np.testing.assert_allclose(q[[0, edge, edge + 1, -1]], [1.65, 4.92, 4.92, 1e4], rtol=1e-14)
    np.testing.assert_allclose(alpha[[0, edge, edge + 1, -1]], EKO[order], rtol=1e-6)


def test_two_loops_obey_the_exact_implicit_solution():
    q, alpha = compute_alpha_s(0.118, 91.1876, 5.0, MASSES, 1)
    b0, c = 23 / (12 * np.pi), (153 - 95) / (24 * np.pi**2) / (23 / (12 * np.pi))
    # integral of d alpha / (alpha^2 (1 + c alpha)) = -b0 d ln Q^2
    left = lambda a: 1 / a + c * np.log(a / (1 + c * a))  # noqa: E731
    np.testing.assert_allclose(left(alpha) - left(0.118), b0 * np.log(q**2 / 91.1876**2), atol=1e-7)


@pytest.mark.parametrize(
    ("q0", "thresholds"), [(1.0, [1.51, 4.92]), (1.51, [4.92]), (1.65, [4.92]), (4.92, []), (10.0, [])]
)
def test_thresholds_above_the_scale_appear_twice(q0, thresholds):
    q, alpha = compute_alpha_s(0.118, 91.1876, q0, MASSES, 2)
    assert q[0] == q0 and list(q[:-1][np.diff(q) == 0]) == thresholds
    assert np.all(np.diff(q) >= 0) and np.all(np.diff(alpha)[np.diff(q) > 0] < 0)
    assert len(q) == len(alpha) == 100 * (1 + len(thresholds))
