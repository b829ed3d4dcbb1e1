import numpy as np
import pytest

from tests import make_hadronic as hadronic
from tfperf.workloads.pdf.data.pack import Table
from tfperf.workloads.pdf.operators.bilinear import BilinearProduct, build_bilinear
from tfperf.workloads.pdf.operators.observables import compile_observables
from tfperf.workloads.pdf.operators.products import Owner, read_columns, split_rows

NODES = int((hadronic.X < 1).sum())


def test_the_same_tables_give_the_same_products():
    def made():
        datasets, positivity = hadronic.sets()
        return compile_observables(datasets, positivity, NODES).bilinear

    for one, other in zip(made(), made(), strict=True):
        np.testing.assert_array_equal(one.pairs, other.pairs)
        np.testing.assert_array_equal(one.matrix, other.matrix)


@pytest.mark.parametrize("launch", [0, 20, 1e6])
def test_any_number_of_products_predicts_the_same(launch):
    rng = np.random.default_rng(3)
    tables = [hadronic.table(rng, rows, hadronic.pairs_of(rng, 10)) for rows in (5, 8)]
    rows = [r for i, t in enumerate(tables) for r in split_rows(Owner(i, 0), read_columns(t, NODES), whole=True)]
    products = build_bilinear(rows, NODES, 2, launch)
    assert (len(products) > 3) == (launch < 1e6)
    pdf = hadronic.pdf(rng)
    raw = np.zeros(15)
    for product in products:
        raw[product.rows] += product.compute_features(pdf[:, :NODES]) @ product.matrix.T
    want = np.concatenate([[0, 0], *(hadronic.evaluate(t, pdf) for t in tables)])
    np.testing.assert_allclose(raw, want, rtol=1e-12)


def test_jacobian_is_the_central_difference():
    rng = np.random.default_rng(4)
    pairs = np.array([[0, 0, 3, 5], [0, 4, 3, 11]])
    product = BilinearProduct(pairs, rng.normal(size=(3, 4)), np.arange(3), 6)
    pdf = rng.normal(size=(2, 6))
    got = product.compute_jacobian(pdf)
    for i in range(12):
        step = np.zeros(12)
        step[i] = 1e-3
        up, down = ((product.compute_features(pdf + s * step.reshape(2, 6)) @ product.matrix.T) for s in (1, -1))
        np.testing.assert_allclose(got[:, i], (up - down) / 2e-3, atol=1e-10)


def test_rows_are_left_out_with_what_only_they_used():
    matrix = np.array([[1.0, 0, 2], [0, 3, 0], [4, 0, 0]])
    product = BilinearProduct(np.array([[0, 1, 2], [3, 4, 5]]), matrix, np.array([7, 9, 11]), 6)
    left = product.drop_rows({9, 100})
    assert left is not None
    np.testing.assert_array_equal(left.matrix, [[1, 2], [4, 0]])
    np.testing.assert_array_equal(left.pairs, [[0, 2], [3, 5]])
    np.testing.assert_array_equal(left.rows, [7, 11])
    assert product.drop_rows({7, 9, 11}) is None


def test_tables_of_zeros_only():
    zero = Table(lambda: np.zeros((2, 1, len(hadronic.X), len(hadronic.X))), 2, (("g", "g"),))
    datasets, _ = hadronic.sets()
    one = datasets[1]
    empty = type(one)(**{**one.__dict__, "tables": (zero,), "cv": np.ones(2)})
    observables = compile_observables([datasets[0], empty], (), NODES)
    assert observables.bilinear == ()
    assert (observables.predict(hadronic.pdf(np.random.default_rng(3)))[-2:] == 0).all()
