import numpy as np
import pytest

from tfperf.workloads.pdf.operators.clusters import group_columns


def cost(bits, group, launch, row):
    """By its definition, with masks in place of bits."""
    masks = np.unpackbits(bits, axis=1)
    parts = [masks[group == number] for number in range(group.max() + 1)]
    return sum(part.any(axis=0).sum() * (len(part) + row) + launch for part in parts)


def pack(masks):
    return np.packbits(np.asarray(masks, bool), axis=1)


@pytest.mark.parametrize("launch", [0, 100, 1e9])
def test_groups_cost_less_than_one(launch):
    rng = np.random.default_rng(0)
    bits = pack(rng.uniform(size=(300, 40)) < rng.uniform(size=(300, 1)))
    group = group_columns(bits, launch, 7)
    assert set(group) == set(range(group.max() + 1)) and (group.max() == 0) == (launch == 1e9)
    assert cost(bits, group, launch, 7) <= cost(bits, np.zeros(300, int), launch, 7)


@pytest.mark.parametrize("kind", ["blocks", "nested", "classes"])
def test_the_structure_of_tables_is_found(kind):
    """Columns of two unlike processes; thresholds in x1 x2; channels that some tables do not have."""
    rng, n = np.random.default_rng(1), 2000
    if kind == "blocks":
        masks = np.zeros((n, 400), bool)
        masks[:1200, :100], masks[1200:, 100:] = True, True
        least = 1200 * 100 + 800 * 300
    elif kind == "nested":
        masks = np.arange(400) > np.linspace(0, 400, n)[:, None]
        least = masks.sum()
    else:
        rows, columns = rng.integers(0, 4, 400), rng.integers(0, 5, n)
        has = np.array([[1, 1, 1, 1], [1, 0, 1, 0], [0, 1, 1, 0], [0, 0, 1, 1], [1, 0, 0, 0]], bool)
        masks = has[columns][:, rows]
        least = masks.sum()
    bits = pack(masks[rng.permutation(n)])
    group = group_columns(bits, 5000, 70)
    assert cost(bits, group, 0, 0) <= (1.25 if kind == "nested" else 1) * least
    assert group.max() < 30
