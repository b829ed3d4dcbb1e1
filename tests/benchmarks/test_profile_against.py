"""The benchmark of comparisons plants shifts that are there, and counts what differs."""

import numpy as np

from benchmarks import profile_against
from benchmarks.profile_against import draw_shifted, find_verdict
from benchmarks.registry import REGISTRY
from tfperf.trace.diff import PERIOD


def make_side(*values):
    return [{"step": {PERIOD: value}} for value in values]


def test_planted_shifts_are_as_many_standard_errors_as_it_says():
    rng = np.random.default_rng(3)
    pairs = [(make_side(*rng.normal(10, 1, 5)), make_side(*rng.normal(10, 1, 5))) for _ in range(40)]
    error = (2 / 5) ** 0.5
    differences = [
        np.mean([one["step"][PERIOD] for one in now]) - np.mean([one["step"][PERIOD] for one in before])
        for before, now in draw_shifted(pairs, rng)
    ]
    assert len(differences) == 400 and abs(np.mean(differences) / error - 4.5) < 0.3
    found = np.mean([find_verdict(*pair, False) == "slower" for pair in draw_shifted(pairs, rng)])
    none = np.mean([find_verdict(*pair, False) == "slower" for pair in pairs])
    assert found > 0.9 and none <= 0.1


def test_shares_are_those_of_the_pairs_that_differ(monkeypatch):
    answers = iter([(make_side(1, 2, 3), make_side(2, 1, 3)), (make_side(1, 2, 1), make_side(9, 8, 9))])
    monkeypatch.setattr(profile_against, "_record_pair", lambda name, folder: next(answers))
    rows = list(REGISTRY["profile-against"].measure(rounds=1, only="no_cache,longer"))
    assert [(row["program"], row["pairs"], row["differ_alone"]) for row in rows][:2] == [
        ("no_cache", 1, 0), ("a step of 10 ms, 8 % longer", 1, 1),
    ]  # fmt: skip
    assert rows[2]["pairs"] == 1 and rows[3]["program"] == "shifts of 4.5 standard errors"
