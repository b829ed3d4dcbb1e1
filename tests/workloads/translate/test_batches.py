"""The batches of an epoch: which pairs, how long, and how much of them is padding."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfperf.errors import PackError
from tfperf.workloads.translate.batches import FILLING, count_steps, plan_batches

Shape = tuple[int, int, str, int]
BUCKETS = "shared", "per_device", "none"
LENGTHS = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=120)
SHAPES = st.tuples(st.integers(1, 4), st.integers(1, 5), st.sampled_from(BUCKETS), st.integers(1, 7))
SEEDS = st.one_of(st.none(), st.integers(0, 2**63 - 1))


def planned(pairs, devices=2, batch=2, buckets="shared", width=4, seed=None, drop=True):
    sides = np.array(pairs, np.int64).reshape(-1, 2).T
    return plan_batches(*sides, devices=devices, batch=batch, buckets=buckets, width=width, order_seed=seed, drop=drop)


def used(one):
    return one.rows[one.rows != FILLING]


@given(LENGTHS, SHAPES, SEEDS)
def test_each_pair_occurs_once_where_nothing_is_dropped(pairs, shape: Shape, seed):
    one = planned(pairs, *shape, seed, drop=False)
    assert sorted(used(one)) == list(range(len(pairs)))
    assert one.dropped == 0 and len(one.rows) == count_steps(len(pairs), *shape[:2], drop=False)
    assert one.rows.size - len(pairs) < shape[0] * shape[1]


@given(LENGTHS, SHAPES, SEEDS)
def test_training_drops_what_fills_no_step(pairs, shape: Shape, seed):
    devices, batch = shape[:2]
    if len(pairs) < devices * batch:
        with pytest.raises(PackError, match=rf"data.batch: got {batch}; {devices} devices need {devices * batch} "):
            planned(pairs, *shape, seed)
        return
    one = planned(pairs, *shape, seed)
    assert one.rows.shape == (len(pairs) // (devices * batch), devices, batch)
    assert FILLING not in one.rows and len(set(one.rows.ravel())) == one.rows.size
    assert one.dropped == len(pairs) % (devices * batch)


@given(LENGTHS, SHAPES, SEEDS, st.booleans())
def test_lengths_hold_every_pair(pairs, shape: Shape, seed, drop):
    devices, batch, buckets, width = shape
    if drop and len(pairs) < devices * batch:
        return
    one = planned(pairs, *shape, seed, drop)
    filled = np.array([*pairs, (0, 0)])[one.rows]  # FILLING, -1, is the last
    need = filled.max(axis=2) + np.array([0, 2])
    assert np.all(one.lengths >= np.maximum(need, 1))
    assert np.array_equal(one.pieces, filled.sum(axis=(1, 2, 3)))
    limits = -(-filled.max(axis=(2, 3)) // width) * width
    if buckets == "none":
        assert np.array_equal(one.lengths, np.maximum(need, [1, 2]))
    elif buckets == "shared":
        assert np.array_equal(one.lengths[:, 0, 0], limits.max(axis=1))
        assert one.straggler_waste == one.unequal_steps == 0
    else:
        real = (one.rows != FILLING).any(axis=2)
        assert np.array_equal(one.lengths[real][:, 0], limits[real])
    if buckets != "none":
        assert np.array_equal(one.lengths[..., 1], one.lengths[..., 0] + 2)


def test_a_bucket_gives_what_is_left_of_it_to_the_next():
    # longer sides 3 4 | 7 8 5 | 12, buckets of 4: two by two, the third of the second bucket goes with 12
    one = planned([(3, 1), (7, 2), (4, 4), (1, 8), (12, 1), (5, 5)], devices=2, batch=1)
    assert one.rows.tolist() == [[[0], [2]], [[1], [3]], [[5], [4]]]
    assert one.lengths[:, 0].tolist() == [[4, 6], [8, 10], [12, 14]]


def test_unshuffled_batches_stand_where_they_were_full():
    pairs = [(9, 9), (1, 1), (1, 1), (9, 9), (1, 1), (5, 5), (1, 1), (5, 5)]
    assert planned(pairs, devices=1, batch=2).rows[:, 0].tolist() == [[1, 2], [0, 3], [4, 6], [5, 7]]
    assert planned(pairs, devices=2, batch=2, buckets="none").rows.tolist() == [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]
    each = planned(pairs, devices=2, batch=2, buckets="per_device")
    assert each.rows.tolist() == [[[1, 2], [0, 3]], [[4, 6], [5, 7]]]
    assert each.lengths[..., 0].tolist() == [[4, 12], [4, 8]]


@pytest.mark.parametrize("buckets", BUCKETS)
def test_a_seed_draws_pairs_and_batches_anew(buckets):
    pairs = [(1 + i % 9, 1 + i % 7) for i in range(200)]
    one, again, other = (planned(pairs, 2, 4, buckets, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(one.rows, again.rows) and not np.array_equal(one.rows, other.rows)
    assert one.dropped == 0 and set(used(one)) == set(range(200))
    # batches that stood in the order of their buckets would have ascending lengths
    if buckets != "none":
        assert np.any(np.diff(one.lengths[:, 0, 0]) < 0)


def test_which_pairs_are_dropped_is_drawn_too():
    pairs = [(30, 30) if i == 40 else (5, 5) for i in range(41)]
    assert len({40 in used(planned(pairs, 2, 5, seed=seed)) for seed in range(20)}) == 2


def test_statistics_of_devices_that_wait():
    # device 0 pads to 2 + 4 columns, device 1 to 10 + 12, of two rows each
    one = planned([(2, 2), (1, 2), (10, 9), (10, 10)], buckets="per_device", width=2)
    assert one.lengths.tolist() == [[[2, 4], [10, 12]]]
    assert one.straggler_waste == pytest.approx(1 - (6 + 22) / (2 * 22))
    assert one.pieces.tolist() == [46] and one.unequal_steps == 1
    # 2 (6 + 22) columns hold 46 pieces, 4 START and 4 END
    assert one.padding_share == pytest.approx(1 - 54 / 56)
    assert planned([(2, 2), (1, 2), (10, 9)], width=2, drop=False).padding_share == pytest.approx(
        1 - (26 + 6) / (4 * 22)
    )


def test_equal_lengths_without_buckets_make_nobody_wait():
    one = planned([(5, 7)] * 8, buckets="none")
    assert (one.straggler_waste, one.unequal_steps, one.padding_share) == (0, 0, 0)
