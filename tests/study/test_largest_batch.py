"""The search for the largest batch, over made-up limits."""

import random

import pytest

from tfperf.study.largest_batch import PASSES, BatchSearch


def search(limit, start, floor=8, most=12):
    tried = []

    def passes(batch):
        tried.append(batch)
        return batch <= limit(batch) if callable(limit) else batch <= limit

    return BatchSearch(passes, most, floor).run(start), tried


@pytest.mark.parametrize("limit", [9, 57, 1000, 100_000])
@pytest.mark.parametrize("guess", [0.75, 0.9, 0.99, 1.0, 1.02, 1.1, 1.25])
def test_it_ends_close_below_the_limit_within_twelve_tries(limit, guess):
    found, tried = search(limit, int(limit * guess), floor=max(1, limit // 3))
    assert 0.95 * limit <= found <= limit and len(tried) <= 12
    assert tried.count(found) >= PASSES


def test_what_passes_by_chance_is_stepped_down_until_it_passes_three_times():
    rng = random.Random(3)
    found, tried = search(lambda batch: 1000 if batch <= 950 or rng.random() < 0.4 else 0, 1000)
    assert 900 <= found <= 1000 and tried[-PASSES:] == [found] * PASSES


def test_nothing_above_the_floor_passes():
    found, tried = search(8, 100, floor=8)
    assert found == 8 and len(tried) <= 12 and tried[-PASSES:] == [8] * PASSES


def test_a_floor_that_fails_when_it_is_tried_again_is_stepped_down():
    found, tried = search(6, 8, floor=8)
    assert found == 6 and tried == [8, 7, 6, 6, 6]
    assert search(0, 2, floor=1)[0] == 0


def test_a_start_far_above_the_limit_is_left_in_large_steps():
    found, tried = search(640, 3072, floor=192, most=8)
    assert 576 <= found <= 640 and len(tried) <= 8


@pytest.mark.parametrize("start", [90, 150, 700])
def test_what_has_failed_already_is_not_tried_again(start):
    tried = []

    def passes(batch):
        tried.append(batch)
        return batch <= 120

    found = BatchSearch(passes, 12, 64, 128).run(start)
    assert 114 <= found <= 120 and max(tried) < 128
    tried.clear()
    assert BatchSearch(passes, 12, 120, 121).run(start) == 120 and tried == [120] * PASSES
