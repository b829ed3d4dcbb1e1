"""What reaches the devices: the pairs of a plan, with START, END and PAD in their places."""

from itertools import islice

import numpy as np
import pytest
import tensorflow as tf

from tests.workloads.translate.test_corpus import SYNTHETIC, card_of
from tfperf.errors import PackError, UserError
from tfperf.workloads.translate.batches import plan_batches
from tfperf.workloads.translate.corpus import Ragged, Split
from tfperf.workloads.translate.feeding import build_dataset, build_training_dataset, plan_held_out, plan_training
from tfperf.workloads.translate.vocabulary import END, PAD, START

N = 2


def ragged(texts):
    return Ragged(np.concatenate(texts).astype(np.int32), np.cumsum([0, *map(len, texts)]))


def part_of(pairs, seed=0):
    """Pairs of 1 to 9 pieces; the first of a source is the pair's number, from 10 on."""
    rng = np.random.default_rng(seed)
    source = [[10 + i, *rng.integers(10, 99, rng.integers(0, 9))] for i in range(pairs)]
    target = [rng.integers(10, 99, rng.integers(1, 10)) for _ in range(pairs)]
    return Split(ragged(source), ragged(target))


def arrays(elements):
    return [tf.nest.map_structure(np.asarray, one) for one in elements]


def same(first, second):
    return all(np.array_equal(a, b) for a, b in zip(tf.nest.flatten(first), tf.nest.flatten(second), strict=True))


def piece_by_piece(split, rows, lengths):
    """One device's batch, by loops."""
    source, target = np.full((len(rows), lengths[0]), PAD), np.full((len(rows), lengths[1]), PAD)
    for r, i in enumerate(rows):
        if i < 0:
            source[r, 0] = END
            continue
        texts = [side.flat[side.offsets[i] : side.offsets[i + 1]] for side in (split.source, split.target)]
        source[r, : len(texts[0])] = texts[0]
        target[r, : len(texts[1]) + 2] = [START, *texts[1], END]
    return source, target


@pytest.mark.parametrize("buckets", ["shared", "per_device", "none"])
def test_batches_hold_what_the_plan_says(buckets):
    split = part_of(49)
    lengths = split.source.lengths, split.target.lengths
    one = plan_batches(*lengths, devices=N, batch=3, buckets=buckets, width=4, order_seed=5, drop=False)
    got = arrays(build_dataset(split, one))
    assert len(got) == len(one.rows) == 9
    for (pairs, tokens), rows, columns in zip(got, one.rows, one.lengths, strict=True):
        want = [piece_by_piece(split, rows[d], columns[d]) for d in range(N)]
        assert same(pairs, want)
        assert tokens == sum(split.target.lengths[i] + 1 for i in rows.ravel() if i >= 0)
        assert tokens.dtype == np.float32 and all(ids.dtype == np.int32 for ids in tf.nest.flatten(pairs))
    # the last step has one pair alone, so one device has none at all
    assert not (got[-1][0][1][1] != PAD).any()


def test_shapes_are_known_but_for_the_lengths():
    split = part_of(12)
    lengths = split.source.lengths, split.target.lengths
    one = plan_batches(*lengths, devices=N, batch=3, buckets="none", width=4, order_seed=None, drop=True)
    pairs, tokens = build_dataset(split, one).element_spec
    assert [spec.shape.as_list() for spec in tf.nest.flatten(pairs)] == [[3, None]] * 4 and tokens.shape == ()


def test_a_batch_without_labels_counts_one():
    split = Split(ragged([[10]]), ragged([[11]]))
    one = plan_batches(*[np.ones(1, int)] * 2, devices=1, batch=1, buckets="none", width=1, order_seed=None, drop=False)
    one.rows[:] = -1
    ((_, tokens),) = arrays(build_dataset(split, one))
    assert tokens == 1


def training(tmp_path, *overrides):
    card = card_of(tmp_path, "data.batch=3", *overrides)
    return card, part_of(20)  # three steps an epoch, two pairs are left


def numbers(elements):
    """The numbers of the pairs in each step, sorted: the shortest sentence first in no bucket."""
    return [sorted(int(source[r, 0]) for source, _ in pairs for r in range(3)) for pairs, _ in elements]


@pytest.mark.parametrize("overrides", [[], ["data.shuffle=false"], ["data.buckets=per_device", "seed=3"]])
def test_any_step_is_found_again(tmp_path, overrides):
    card, split = training(tmp_path, *overrides)
    straight = arrays(islice(build_training_dataset(card, split, N), 13))
    for first in (1, 3, 7):
        again = arrays(islice(build_training_dataset(card, split, N, first), 13 - first))
        assert len(again) == 13 - first
        assert all(same(a, b) for a, b in zip(straight[first:], again, strict=True)), first


def test_each_epoch_is_the_plan_of_its_number(tmp_path):
    card, split = training(tmp_path)
    straight = arrays(islice(build_training_dataset(card, split, N), 9))
    want = [one for e in range(3) for one in arrays(build_dataset(split, plan_training(card, split, N, e)))]
    assert all(same(a, b) for a, b in zip(straight, want, strict=True))
    later = arrays(build_dataset(split, plan_training(card, split, N, 0), 1))
    assert all(same(a, b) for a, b in zip(want[1:3], later, strict=True))
    orders = [numbers(straight[k : k + 3]) for k in (0, 3, 6)]
    assert orders[0] != orders[1] != orders[2] != orders[0]
    assert all(len({number for step in order for number in step}) == 18 for order in orders)


def test_the_plan_is_the_cards(tmp_path):
    overrides = "data.batch=4", "data.bucket_width=7", "data.buckets=per_device"
    one = plan_training(card_of(tmp_path, *overrides), part_of(44), N, 0)
    assert one.rows.shape == (5, N, 4) and one.dropped == 4 and one.unequal_steps
    assert set(one.lengths[..., 0].ravel()) == {7, 14}


SCALED = "data.batch=3", "data.scaling_devices=4"


@pytest.mark.parametrize("buckets", ["shared", "none"])
def test_strong_scaling_divides_the_same_global_batches(tmp_path, buckets):
    card = card_of(tmp_path, *SCALED, "data.scaling=strong", f"data.buckets={buckets}")
    alone, *others = (plan_training(card, part_of(100), n, 1) for n in (1, 2, 3, 4))
    assert alone.rows.shape == (8, 1, 12) and alone.unequal_steps == 0
    for n, one in enumerate(others, 2):
        assert one.rows.shape == (8, n, 12 // n) and np.array_equal(one.rows.reshape(8, 12), alone.rows[:, 0])
        assert np.array_equal(one.lengths, alone.lengths.repeat(n, axis=1))
        assert np.array_equal(one.pieces, alone.pieces) and one.dropped == alone.dropped == 4


@pytest.mark.parametrize("buckets", ["shared", "none"])
def test_weak_scaling_gives_each_device_the_same_batches(tmp_path, buckets):
    card = card_of(tmp_path, *SCALED, "data.scaling=weak", f"data.buckets={buckets}")
    every = plan_training(card, part_of(100), 4, 1)
    assert every.rows.shape == (8, 4, 3) and every.unequal_steps == 0
    for n in (1, 2, 3):
        one = plan_training(card, part_of(100), n, 1)
        assert np.array_equal(one.rows, every.rows[:, :n]) and np.array_equal(one.lengths, every.lengths[:, :n])
        assert one.dropped == 100 - 8 * n * 3 and one.pieces.sum() < every.pieces.sum()


def test_scaled_batches_go_on_over_epochs(tmp_path):
    card, split = card_of(tmp_path, *SCALED, "data.scaling=strong"), part_of(30)  # two steps an epoch
    straight = arrays(islice(build_training_dataset(card, split, N), 4))
    want = [one for e in range(2) for one in arrays(build_dataset(split, plan_training(card, split, N, e)))]
    assert all(same(a, b) for a, b in zip(straight, want, strict=True))
    assert [source.shape[0] for source, _ in straight[0][0]] == [6, 6]


def test_devices_that_cannot_share_a_batch_are_refused_where_the_card_runs(tmp_path):
    card = card_of(tmp_path, *SCALED, "data.scaling=strong", "placement.devices=all")
    with pytest.raises(UserError, match=r"data\.scaling_devices: got 4; must be at least placement.devices = 5"):
        plan_training(card, part_of(100), 5, 0)


def test_the_seed_and_the_switch_decide_the_order(tmp_path):
    def first_epochs(*overrides):
        card, part = training(tmp_path, *overrides)
        return numbers(arrays(islice(build_training_dataset(card, part, N), 6)))

    assert first_epochs() == first_epochs() != first_epochs("seed=1")
    plain = first_epochs("data.shuffle=false", "data.buckets=none")
    assert plain[:3] == plain[3:] == [list(range(10 + k, 16 + k)) for k in (0, 6, 12)]


def test_too_few_pairs_are_refused_at_once(tmp_path):
    card = card_of(tmp_path, "data.batch=11", text=SYNTHETIC)
    with pytest.raises(PackError, match=r"data\.batch: got 11; 2 devices need 22 pairs"):
        build_training_dataset(card, part_of(20), N)


def test_held_out_pairs_come_once_each(tmp_path):
    card, split = training(tmp_path, "data.buckets=none")
    one = plan_held_out(card, split, N)
    assert sorted(one.rows[one.rows >= 0]) == list(range(20)) and one.unequal_steps == 0
    assert sum(tokens for _, tokens in arrays(build_dataset(split, one))) == split.target.lengths.sum() + 20
