"""The searches of two other programs, as they describe them, over a made-up limit."""

from functools import partial

import pytest

from benchmarks.batch_finders import search_by_doubling, search_by_halving, search_by_shrinking


def search(find, limit):
    tried = []

    def passes(batch):
        tried.append(batch)
        return batch <= limit

    return find(passes), tried


@pytest.mark.parametrize("limit", [5, 100, 1000, 3000])
def test_what_each_finds(limit):
    doubled, tried = search(search_by_doubling, limit)
    assert doubled <= limit < 2 * doubled and tried == [2**n for n in range(1, len(tried) + 1)]
    assert search(search_by_halving, limit)[0] == int(0.95 * limit)
    shrunk, tried = search(partial(search_by_shrinking, 8192), limit)
    assert shrunk <= limit and tried[-2] > limit and shrunk == int(0.9 * tried[-2])


def test_what_a_start_is_worth_and_where_they_end():
    assert search(partial(search_by_shrinking, 128), 5000) == (128, [128])
    assert search(search_by_doubling, 10**9)[0] == 4096
    assert search(partial(search_by_shrinking, 128), 0)[0] == 0
