"""Fewer products over more columns: the same predictions for more work."""

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import tensorflow as tf

from tests import make_hadronic as hadronic
from tfperf.workloads.pdf.contraction import Contraction, join_columns
from tfperf.workloads.pdf.operators import bilinear, products
from tfperf.workloads.pdf.operators.observables import compile_observables
from tfperf.workloads.pdf.operators.products import Product, count_joined_columns, join_products

NODES = int((hadronic.X < 1).sum())
BLOCKS = ((0, 1, 2), (3, 4, 5))


@pytest.fixture(autouse=True)
def many_products(monkeypatch):
    """Tables this small would be in one product anyway."""
    monkeypatch.setattr(products, "LAUNCH_COST", 1)
    monkeypatch.setattr(bilinear, "build_bilinear", partial(bilinear.build_bilinear, launch=1))


LAYOUTS = pytest.mark.parametrize("layout", ["joined", "padded"])


def make_both(layout, which=slice(None)):
    datasets, positivity = hadronic.sets()
    some = which != slice(None)
    grouped = compile_observables(datasets[which], () if some else positivity, NODES, () if some else BLOCKS)
    return grouped, grouped.to_layout(layout)


@LAYOUTS
def test_fewer_products_predict_the_same(layout):
    grouped, full = make_both(layout)
    assert len(full.products) == len(full.bilinear) == 1 < min(len(grouped.products), len(grouped.bilinear))
    pdf = hadronic.pdf(np.random.default_rng(2), 3)
    np.testing.assert_allclose(full.predict(pdf), grouped.predict(pdf), rtol=1e-12)
    np.testing.assert_allclose(full.predict_positive(pdf), grouped.predict_positive(pdf), rtol=1e-12)


@pytest.mark.parametrize("padded", [False, True])
def test_columns_land_at_their_nodes(padded):
    rng, nodes = np.random.default_rng(6), 7
    grouped = (
        Product((1, 4), 3, rng.normal(size=(2, 2 * 4)), slice(0, 2)),
        Product((0,), 1, rng.normal(size=(3, 6)), slice(2, 5)),
    )
    pdf = rng.normal(size=(2, 8, nodes))
    (one,) = join_products(grouped, nodes, padded)
    assert (one.flavours, one.start) == ((tuple(range(8)), 0) if padded else ((0, 1, 4), 1))
    assert count_joined_columns(grouped, nodes) == 3 * 6
    want = np.concatenate([p.compute_features(pdf) @ p.matrix.T for p in grouped], axis=-1)
    np.testing.assert_allclose(one.compute_features(pdf) @ one.matrix.T, want, rtol=1e-12, atol=1e-12)


def test_every_flavour_pair_and_node_is_multiplied():
    grouped, full = make_both("padded")
    linear = sum(len(p.matrix) for p in grouped.products)
    both = len(np.unique(np.concatenate([p.rows for p in grouped.bilinear])))
    width = 8 * NODES
    assert full.entries == linear * width + both * width * (width + 1) // 2 > grouped.entries
    assert full.products[0].start == 0


def test_entries_of_joined_products_are_known_before_they_are_made():
    grouped, full = make_both("joined")
    assert grouped.entries < full.entries == grouped.joined_entries == full.joined_entries


@LAYOUTS
@pytest.mark.parametrize("which", [slice(0, 1), slice(1, 2)])
def test_sets_of_one_kind_need_no_other(which, layout):
    grouped, full = make_both(layout, which)
    pdf = hadronic.pdf(np.random.default_rng(5))
    np.testing.assert_allclose(full.predict(pdf), grouped.predict(pdf), rtol=1e-12)


@LAYOUTS
def test_contraction_takes_them(layout):
    grouped, full = make_both(layout)
    scale = np.random.default_rng(3).uniform(0.5, 2, grouped.row_count)
    pdf = tf.constant(hadronic.pdf(np.random.default_rng(4), 3)[..., :NODES])
    found = []
    for observables in (grouped, full):
        contraction = Contraction(observables, scale, 0, "float64")
        with tf.GradientTape() as tape:
            tape.watch(pdf)
            raw = contraction(pdf)
            total = join_columns([raw[start] for start, _ in contraction.row_ranges])
            loss = tf.reduce_sum(total * total)
        assert all(a[1] == b[0] for a, b in pairwise(contraction.row_ranges))
        found.append((total.numpy(), tape.gradient(loss, pdf).numpy()))
    for want, got in zip(*found, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10)
