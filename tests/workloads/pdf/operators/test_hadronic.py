import numpy as np
import pytest

from tests import make_hadronic as hadronic
from tfperf.workloads.pdf.data.pack import Table
from tfperf.workloads.pdf.operators.basis import add_equal_flavours
from tfperf.workloads.pdf.operators.observables import compile_observables
from tfperf.workloads.pdf.operators.products import find_boundaries

NODES = int((hadronic.X < 1).sum())


@pytest.mark.parametrize("blocks", [(), ((0, 1, 2), (3, 4, 5, 6)), tuple((i,) for i in range(7))])
def test_hadronic_and_deep_inelastic_predictions_are_those_of_all_fourteen_flavours(blocks):
    datasets, positivity = hadronic.sets()
    observables = compile_observables(datasets, positivity, NODES, blocks)
    pdfs = hadronic.pdf(np.random.default_rng(1), 3)
    want = np.stack([hadronic.predictions(datasets, p) for p in pdfs])
    np.testing.assert_allclose(observables.predict(pdfs), want, rtol=1e-12)
    positive = [[v for p in positivity for v in hadronic.evaluate(p.table, pdf)] for pdf in pdfs]
    np.testing.assert_allclose(np.sort(observables.predict_positive(pdfs)), np.sort(positive), rtol=1e-12)


def test_points_of_a_block_stay_together():
    datasets, positivity = hadronic.sets()
    ends = np.cumsum([0, *(len(d.cv) for d in datasets)])
    observables = compile_observables(datasets, positivity, NODES, [(0, 1), (2, 3, 4, 5, 6)])
    assert sorted(observables.order) == list(range(ends[-1]))
    assert set(observables.order[: ends[2]]) == set(range(ends[2]))


def test_only_used_channels_and_nodes_are_kept():
    datasets, _ = hadronic.sets()
    (one,) = (d for d in datasets if d.name == "DY")
    observables = compile_observables([one], (), NODES)
    columns = add_equal_flavours(one.tables[0])
    used = set()
    for (f, g), values in columns.items():
        for a, b in np.argwhere((values[:, :NODES, :NODES] != 0).any(axis=0)):
            used.add(tuple(sorted((f * NODES + a, g * NODES + b))))
    found = [tuple(pair) for product in observables.bilinear for pair in product.pairs.T]
    assert len(found) == len(set(found)) and set(found) == used


def test_both_orders_of_a_pair_become_one_channel():
    rng = np.random.default_rng(2)
    values = rng.uniform(size=(3, 3, len(hadronic.X), len(hadronic.X)))
    table = Table(lambda: values, 3, (("g", "sigma"), ("sigma", "g"), ("t24", "v15")))
    columns = add_equal_flavours(table)
    assert set(columns) == {(0, 1), (0, 2)}
    np.testing.assert_allclose(columns[0, 1], values[:, 0].transpose(0, 2, 1) + values[:, 1])


def test_rows_are_grouped_at_least_cost():
    def cost(start, begin, end):
        return (end - begin) * (10 - start) + 5

    def price(cuts):
        return sum(cost(starts[b], b, e) for b, e in zip(cuts, [*cuts[1:], len(starts)], strict=True))

    starts = [0, 1, 4, 7, 8, 9]
    found = find_boundaries(starts, cost)
    subsets = [[0, *(i for i in range(1, 6) if bits >> i & 1)] for bits in range(0, 64, 2)]
    assert price(found) == min(price(s) for s in subsets)


def test_a_table_of_zeros_predicts_zero():
    zero = Table(lambda: np.zeros((2, 1, len(hadronic.X), len(hadronic.X))), 2, (("g", "g"),))
    datasets, _ = hadronic.sets()
    one = datasets[1]
    empty = type(one)(**{**one.__dict__, "tables": (zero,), "cv": np.ones(2)})
    observables = compile_observables([one, empty], (), NODES)
    assert (observables.predict(hadronic.pdf(np.random.default_rng(3)))[-2:] == 0).all()
