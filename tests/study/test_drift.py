"""Drift in the course of a sweep, from rows made by hand."""

import numpy as np
import pytest

from tfperf.report.sweep import describe_drift
from tfperf.study.drift import Drift, estimate_drift
from tfperf.study.finished_trials import FinishedTrial

POINTS, REPEATS = 6, 4


def rows(change, noise=0.01, seed=0, points=POINTS):
    """Points that take 1, 2, ... ms, in a new order each repeat; the last trial takes exp(change) times as long."""
    rng = np.random.default_rng(seed)
    order = np.concatenate([rng.permutation(points) for _ in range(REPEATS)])
    times = (1 + order) * np.exp(change * np.linspace(0, 1, len(order)) + noise * rng.normal(size=len(order)))
    return [
        FinishedTrial({"a": int(p)}, i // points + 1, 1.0, {"ms_per_step": {"median": float(ms)}})
        for i, (p, ms) in enumerate(zip(order, times, strict=True))
    ]


def estimate(found) -> Drift:
    drift = estimate_drift(found)
    assert drift is not None
    return drift


def test_drift_is_found_whatever_the_points_are():
    found = estimate(rows(0.2))
    assert found.seen and found.low < np.exp(0.2) < found.high and found.high - found.low < 0.05
    assert found.trials == POINTS * REPEATS
    words = describe_drift(vars(found))
    assert words.startswith("warning: the machine drifted") and "from the first trial to the last" in words


def test_the_slope_is_that_of_least_squares():
    found = rows(-0.1, noise=0.05)
    x = np.linspace(0, 1, len(found))
    design = np.stack([x, *([r.values["a"] == p for r in found] for p in range(POINTS))], axis=1).astype(float)
    want = np.linalg.lstsq(design, np.log([r.ms for r in found]), rcond=None)[0][0]
    assert np.log(estimate(found).value) == pytest.approx(want)


def test_without_drift_nineteen_of_twenty_see_none():
    tests = 400
    quiet = sum(not estimate(rows(0.0, noise=0.1, seed=seed)).seen for seed in range(tests))
    assert abs(quiet / tests - 0.95) < 4 * np.sqrt(0.05 * 0.95 / tests)
    assert describe_drift(vars(estimate(rows(0.0)))).startswith("drift in the course of the sweep: none seen (")


def test_what_lasts_for_some_trials_and_goes_by_is_seldom_called_drift():
    """Each trial is disturbed by 0.7 of what disturbed the one before: 38 % were called drift as if it were chance."""
    rng, tests, points, count = np.random.default_rng(4), 150, 40, 0
    for _ in range(tests):
        found, noise = rows(0.0, noise=0.0, seed=int(rng.integers(1 << 30)), points=points), [0.0]
        for _ in found:
            noise.append(0.7 * noise[-1] + 0.03 * rng.normal())
        for row, one in zip(found, noise[1:], strict=True):
            row.record["ms_per_step"]["median"] *= np.exp(one)
        count += estimate(found).seen
    assert count / tests < 0.15


def test_failed_trials_take_their_place_but_have_no_time():
    found = rows(0.2)
    found[5] = FinishedTrial(found[5].values, found[5].repeat, 1.0, error="boom")
    drift = estimate(found)
    assert drift.trials == POINTS * REPEATS - 1 and drift.low < np.exp(0.2) < drift.high


@pytest.mark.parametrize("found", [[], rows(0.1)[:1], rows(0.1)[:POINTS], rows(0.1, points=1)[:2]], ids=len)
def test_one_repeat_cannot_tell(found):
    assert estimate_drift(found) is None and "cannot be told" in describe_drift(None)
