"""Runs of the shipped cards that are killed four times each and find the same as one that nobody disturbed."""

import time
from itertools import count

import pytest

from tests.kills.chains import describe, draw_kills
from tests.kills.lives import At, Writing
from tests.kills.sameness import same

pytestmark = pytest.mark.slow
KILLS = 4  # of a chain
XLA = 2  # of the chains
LATE = Writing("run.json", 2), Writing("results.h5"), Writing("report.html"), Writing("report.json")


@pytest.fixture(scope="module")
def tally():
    """Kills, and the steps from which lives went on; asserts at last that many of them had something to go on from."""
    kills, steps = [], []
    yield kills, steps
    resumed = sum(step > 0 for step in steps)
    print(f"\n{len(kills)} kills, {sum(end.half for end in kills)} of them in a write; {resumed} lives went on")
    assert resumed >= len(kills) / 2


def killed_and_resumed(undisturbed, folder, seed, late, tally):
    """Assert that a run killed at the seed's moments finds the same; where one ends too early, another begins."""
    begun, kills = time.monotonic(), []
    aims = draw_kills(seed, undisturbed.seconds, late)
    for number in count(1):
        chain = undisturbed.chain(folder, f"run{number}")
        ends = chain.ended(aims[len(kills) :])
        steps = chain.finish()
        same(undisturbed.run, chain.run)
        print(describe(folder.name, ends, steps, time.monotonic() - begun))
        kills += ends
        tally[0].extend(ends)
        tally[1].extend(steps)
        if not ends and isinstance(aims[len(kills)], At):
            aims[len(kills)] = aims[len(kills)].sooner  # the machine is less busy than it was
        if len(kills) == KILLS:
            break


@pytest.mark.parametrize("seed", range(10))
def test_a_fit_finds_the_same_whenever_it_is_killed(fit, tmp_path, tally, seed):
    undisturbed = fit(**{"engine.xla": "true"}) if seed < XLA else fit()
    killed_and_resumed(undisturbed, tmp_path, seed, LATE, tally)


@pytest.mark.parametrize("seed", range(5))
def test_a_translation_finds_the_same_whenever_it_is_killed(translation, tmp_path, tally, seed):
    killed_and_resumed(translation(), tmp_path, 100 + seed, (Writing("source.json"), *LATE), tally)
