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
    assert tried.count(found) >= PASSES or found == max(1, limit // 3)


def test_what_passes_by_chance_is_stepped_down_until_it_passes_three_times():
    rng = random.Random(3)
    found, tried = search(lambda batch: 1000 if batch <= 950 or rng.random() < 0.4 else 0, 1000)
    assert 900 <= found <= 1000 and tried[-PASSES:] == [found] * PASSES


def test_nothing_above_the_floor_passes():
    found, tried = search(8, 100, floor=8)
    assert found == 8 and len(tried) <= 12
