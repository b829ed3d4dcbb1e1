"""The rate of a pipeline whose stages share cores, a pool and threads, beside a count one by one."""

import numpy as np
import pytest

from tfperf.inputs.expected_rates import StageLoad, compute_most_rate


def brute_force(loads, cores, threads):
    """The same, element by element: a batch is done when the slowest of cores, pool, calls and threads is."""
    each = [sum(one.cpu_seconds for one in loads) / cores]
    pooled = 0.0
    own, seconds = [0.0], 0.0
    for one in reversed(loads):
        if one.calls is not None:
            each.append(one.seconds / min(one.calls, threads))
            pooled += one.seconds
            own.append(0.0)
        else:
            own[-1] += one.seconds
            if one.is_ahead:
                own.append(0.0)
        seconds += one.seconds
    return 1 / max([*each, pooled / threads, *own])


def test_the_slowest_of_cores_pool_calls_and_threads_sets_the_rate():
    generator = np.random.default_rng(5)
    for _ in range(50):
        times = generator.uniform(0, 0.01, (7, 2))
        chances = generator.random((7, 2))
        calls = generator.integers(1, 5, 7)
        loads = [
            StageLoad(
                times[place, 0], times[place, 1], None if chances[place, 0] < 0.6 else float(calls[place]),
                bool(chances[place, 1] < 0.2), (place - 1,) if place else (),
            ) for place in range(int(generator.integers(1, 7)))
        ]  # fmt: skip
        assert compute_most_rate(loads, 1.5, 3.0) == pytest.approx(brute_force(loads, 1.5, 3.0))
