"""Products over all flavours and nodes: the same predictions for more work."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import tensorflow as tf

from tests import make_hadronic as hadronic
from tfperf.operators.observables import compile_observables
from tfperf.operators.products import Product, padded
from tfperf.train.contraction import Contraction, joined

NODES = int((hadronic.X < 1).sum())
BLOCKS = ((0, 1, 2), (3, 4, 5))


def make_both(which=slice(None)):
    datasets, positivity = hadronic.sets()
    some = which != slice(None)
    grouped = compile_observables(datasets[which], () if some else positivity, NODES, () if some else BLOCKS)
    return grouped, replace(grouped, products=padded(grouped.products, NODES))


def test_padded_products_predict_the_same():
    grouped, full = make_both()
    pdf = hadronic.pdf(np.random.default_rng(2), 3)
    np.testing.assert_allclose(full.predict(pdf), grouped.predict(pdf), rtol=1e-12)
    np.testing.assert_allclose(full.predict_positive(pdf), grouped.predict_positive(pdf), rtol=1e-12)


def test_columns_land_at_their_nodes():
    rng, nodes = np.random.default_rng(6), 7
    grouped = (
        Product(((1,), (4,)), 3, rng.normal(size=(2, 2 * 4)), (slice(0, 2),)),
        Product(((0,),), 0, rng.normal(size=(3, 7)), (slice(2, 5),)),
        Product(((0, 2),), 2, rng.normal(size=(3, 25)), (slice(5, 6), slice(8, 10))),
        Product(((3, 3),), 4, rng.normal(size=(5, 9)), (slice(5, 6), slice(6, 8), slice(8, 10))),
    )
    pdf = rng.normal(size=(2, 8, nodes))
    want, got = np.zeros((2, 10)), np.zeros((2, 10))
    for out, products in ((want, grouped), (got, padded(grouped, nodes))):
        for p in products:
            rows = np.concatenate([np.arange(t.start, t.stop) for t in p.targets])
            out[:, rows] += p.features(pdf) @ p.matrix.T
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


def test_every_flavour_pair_and_node_is_multiplied():
    grouped, full = make_both()
    rows = {axes: {r for p in grouped.products if len(p.legs[0]) == axes for t in p.targets
                   for r in range(t.start, t.stop)} for axes in (1, 2)}  # fmt: skip
    assert full.entries == len(rows[1]) * 8 * NODES + len(rows[2]) * 36 * NODES**2 > grouped.entries
    assert len(full.products) == 1 + 36 and all(p.start == 0 for p in full.products)


@pytest.mark.parametrize("which", [slice(0, 1), slice(1, 2)])
def test_sets_of_one_kind_need_no_other(which):
    grouped, full = make_both(which)
    pdf = hadronic.pdf(np.random.default_rng(5))
    np.testing.assert_allclose(full.predict(pdf), grouped.predict(pdf), rtol=1e-12)


def test_contraction_takes_padded_products():
    grouped, full = make_both()
    scale = np.random.default_rng(3).uniform(0.5, 2, grouped.rows)
    pdf = tf.constant(hadronic.pdf(np.random.default_rng(4), 3)[..., :NODES])
    found = []
    for observables in (grouped, full):
        contraction = Contraction(observables.products, scale, 0, observables.runs, "float64")
        with tf.GradientTape() as tape:
            tape.watch(pdf)
            raw = contraction(pdf)
            total = joined([raw[start] for start, _ in contraction.pieces])
            loss = tf.reduce_sum(total * total)
        assert all(a[1] == b[0] for a, b in pairwise(contraction.pieces))
        found.append((total.numpy(), tape.gradient(loss, pdf).numpy()))
    for want, got in zip(*found, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10)
