"""Whatever lies in the cache, a fit gets what it would have made."""

import pytest

from tests.fuzz import caches
from tests.fuzz.attack import attack, each_of
from tests.fuzz.damage import flipped


@pytest.fixture
def entry(tmp_path, monkeypatch):
    monkeypatch.setenv("TFPERF_CACHE", str(tmp_path))
    return caches.put(tmp_path)


@each_of(25, 600)
def test_a_damaged_entry_is_made_again(cases, entry, tmp_path, worker):
    whole = entry.read_bytes()

    def ask(content):
        entry.write_bytes(content)
        return worker.ask("tests.fuzz.caches:refuses", tmp_path, entry)[0]

    assert ask(whole) == "accepted"
    attack(cases, flipped(whole), ask, b"", verdicts=["refused"])


@pytest.mark.parametrize("plant", caches.PLANTS)
def test_what_is_planted_in_the_place_of_an_entry_is_made_again(plant, entry, tmp_path, worker):
    assert worker.ask("tests.fuzz.caches:compare", tmp_path, entry, plant)[0] == "accepted"
