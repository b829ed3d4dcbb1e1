"""Products over all flavours and nodes: the same predictions for more work."""

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
    arguments = datasets[which], () if some else positivity, NODES, () if some else BLOCKS
    return compile_observables(*arguments), compile_observables(*arguments, wide=True)


def test_padded_products_predict_the_same():
    grouped, full = make_both()
    pdf = hadronic.pdf(np.random.default_rng(2), 3)
    np.testing.assert_allclose(full.predict(pdf), grouped.predict(pdf), rtol=1e-12)
    np.testing.assert_allclose(full.predict_positive(pdf), grouped.predict_positive(pdf), rtol=1e-12)


def test_columns_land_at_their_nodes():
    rng, nodes = np.random.default_rng(6), 7
    grouped = (
        Product((1, 4), 3, rng.normal(size=(2, 2 * 4)), slice(0, 2)),
        Product((0,), 0, rng.normal(size=(3, 7)), slice(2, 5)),
    )
    pdf = rng.normal(size=(2, 8, nodes))
    (one,) = padded(grouped, nodes)
    want = np.concatenate([p.features(pdf) @ p.matrix.T for p in grouped], axis=-1)
    np.testing.assert_allclose(one.features(pdf) @ one.matrix.T, want, rtol=1e-12, atol=1e-12)


def test_every_flavour_pair_and_node_is_multiplied():
    grouped, full = make_both()
    linear = sum(len(p.matrix) for p in grouped.products)
    both = len(np.unique(np.concatenate([p.rows for p in grouped.bilinear])))
    width = 8 * NODES
    assert full.entries == linear * width + both * width * (width + 1) // 2 > grouped.entries
    assert len(full.products) == len(full.bilinear) == 1 and full.products[0].start == 0


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
        contraction = Contraction(observables, scale, 0, "float64")
        with tf.GradientTape() as tape:
            tape.watch(pdf)
            raw = contraction(pdf)
            total = joined([raw[start] for start, _ in contraction.pieces])
            loss = tf.reduce_sum(total * total)
        assert all(a[1] == b[0] for a, b in pairwise(contraction.pieces))
        found.append((total.numpy(), tape.gradient(loss, pdf).numpy()))
    for want, got in zip(*found, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10)
