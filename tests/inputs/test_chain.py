"""Rates of n workers: limits by hand, mass balance, and a simulation that plays the workers one by one."""

import heapq
import math
import random

import numpy as np
import pytest

from tfperf.inputs.calibration import LoaderModel, MeasuredLoader, fit_loader
from tfperf.inputs.chain import LoaderCosts, LoaderLimits, compute_occupancy, find_knee, fit_wait, predict_rate


def simulate(costs, cores, workers, events, seed):
    """Elements a second of workers that wait, then share whole cores in the order in which they come; both random."""
    draws = random.Random(seed)
    arrivals = [(draws.expovariate(1 / costs.wait_seconds), w, "ready") for w in range(workers)]
    heapq.heapify(arrivals)
    queue, busy, done, now = [], 0, 0, 0.0
    while done < events:
        now, worker, event = heapq.heappop(arrivals)
        if event == "ready":
            queue.append(worker)
        else:
            busy, done = busy - 1, done + 1
            heapq.heappush(arrivals, (now + draws.expovariate(1 / costs.wait_seconds), worker, "ready"))
        while queue and busy < cores:
            busy += 1
            heapq.heappush(arrivals, (now + draws.expovariate(1 / costs.cpu_seconds), queue.pop(0), "made"))
    return done / now


@pytest.mark.parametrize(
    ("wait", "cores", "workers"), [(4.0, 2, 1), (4.0, 2, 3), (1.0, 2, 8), (9.0, 1, 8), (0.2, 4, 6)]
)
def test_rates_are_those_of_a_simulation(wait, cores, workers):
    costs, events = LoaderCosts(1.0, wait), 40_000
    played = simulate(costs, cores, workers, events, seed=workers)
    # counts of a renewal process scatter by at most the root of their number (its parts vary less than Poisson's)
    assert predict_rate(costs, LoaderLimits(cores), workers).rate == pytest.approx(played, rel=4 / math.sqrt(events))


@pytest.mark.parametrize("workers", [1, 2, 3, 50])
def test_without_waiting_workers_share_the_cores(workers):
    assert predict_rate(LoaderCosts(0.01), LoaderLimits(2.5), workers).rate == pytest.approx(min(workers, 2.5) / 0.01)


@pytest.mark.parametrize("workers", [1, 2, 700])
def test_with_a_core_for_each_worker_none_waits_for_another(workers):
    rate = predict_rate(LoaderCosts(0.01, 0.04), LoaderLimits(math.inf), workers)
    assert rate.rate == pytest.approx(workers / 0.05) and rate.cap == "workers"


@pytest.mark.parametrize(("cores", "workers"), [(1.0, 1), (2.0, 8), (1.7, 5), (64.0, 2000)])
def test_as_many_begin_as_end_in_every_state(cores, workers):
    costs = LoaderCosts(0.003, 0.02)
    p = compute_occupancy(costs, cores, workers)
    k = np.arange(workers + 1)
    up, down = (workers - k) / costs.wait_seconds * p, np.minimum(k, cores) / costs.cpu_seconds * p
    assert p.sum() == pytest.approx(1.0) and np.all(p >= 0)
    np.testing.assert_allclose(up[:-1], down[1:], rtol=1e-9, atol=1e-300)
    # what leaves the cores is what comes back from waiting
    assert up.sum() == pytest.approx(predict_rate(costs, LoaderLimits(cores), workers).rate)


@pytest.mark.parametrize(
    ("costs", "limits", "rate", "cap"),
    [
        (LoaderCosts(0.01, 0.0, shared_seconds=0.008), LoaderLimits(8.0), 125.0, "shared"),
        (LoaderCosts(0.01), LoaderLimits(8.0, calls_per_second=110.0), 110.0, "calls"),
        (LoaderCosts(0.01), LoaderLimits(8.0, steps_per_second=77.0), 77.0, "step"),
        (LoaderCosts(0.01), LoaderLimits(8.0, steps_per_second=1e9), 400.0, "workers"),
        (LoaderCosts(0.01), LoaderLimits(4.0, steps_per_second=1e9), 400.0, "cores"),
        (LoaderCosts(0.01), LoaderLimits(8.0, 1e9, on_cores_per_second=70.0), 70.0, "cores"),
    ],
)  # fmt: skip
def test_the_lowest_ceiling_is_named(costs, limits, rate, cap):
    found = predict_rate(costs, limits, 4)
    assert found.rate == pytest.approx(rate) and found.cap == cap


@pytest.mark.parametrize(
    ("rates", "knee"), [([5.0], 1), ([1, 2, 3, 4], 4), ([10, 19, 20], 2), ([10, 18.99, 20], 3), ([5, 9, 4], 2)]
)
def test_the_knee_is_the_first_near_the_best(rates, knee):
    assert find_knee(rates) == knee


@pytest.mark.parametrize("wait", [0.0, 0.001, 0.03, 1.0])
def test_the_waiting_time_is_found_again(wait):
    cpu = [0.004, 0.005]
    rates = [predict_rate(LoaderCosts(c, wait), LoaderLimits(1.8), n).rate for c, n in zip(cpu, (1, 4), strict=True)]
    # a least square is flat at its bottom, so its place is known to the root of what floats tell
    assert fit_wait(cpu, rates, (1, 4), 1.8) == pytest.approx(wait, rel=1e-3, abs=1e-5)


def test_a_calibrated_model_gives_back_both_measurements_and_lies_on_their_line():
    limits, costs = LoaderLimits(2.0), {1: LoaderCosts(0.004, 0.02), 3: LoaderCosts(0.006, 0.02)}
    one, many = (MeasuredLoader(n, c.cpu_seconds, predict_rate(c, limits, n).rate) for n, c in costs.items())
    model = fit_loader(one, many, free_cores=2.0)
    predicted = model.predict(limits, 5)
    assert [predicted[n - 1].rate for n in (1, 3)] == pytest.approx([one.rate, many.rate], rel=1e-3)
    assert [model.get_costs(n).cpu_seconds for n in (2, 3, 5)] == pytest.approx([0.005, 0.006, 0.006])
    assert model.costs.shared_seconds == 0.0


def test_a_falling_line_ends_at_the_second_time_and_one_core_needs_no_line():
    falling = LoaderModel(MeasuredLoader(1, 0.010, 90.0), MeasuredLoader(2, 0.009, 180.0), LoaderCosts(0.010, 0.001))
    assert falling.get_costs(20).cpu_seconds == 0.009
    alone = MeasuredLoader(1, 0.010, 80.0)
    assert fit_loader(alone, alone, free_cores=1.0).get_costs(7).wait_seconds == pytest.approx(0.0025, rel=1e-3)


@pytest.mark.parametrize(("cpu", "wait"), [(0.005, 0.0), (0.0, 0.010), (0.002, 0.008)])
def test_workers_that_share_something_are_as_fast_as_two_of_them(cpu, wait):
    """One has the interpreter's lock, or the disk, all the time: two are hardly faster than one."""
    one = MeasuredLoader(1, cpu, 1 / (cpu + wait))
    many = MeasuredLoader(2, cpu, 1.1 / (cpu + wait))
    predicted = fit_loader(one, many, free_cores=2.0).predict(LoaderLimits(2.0), 8)
    assert [found.rate for found in predicted] == pytest.approx([one.rate, *[many.rate] * 7], rel=1e-3)
    assert {found.cap for found in predicted[1:]} == {"shared"}


def test_workers_that_are_slow_and_leave_no_core_idle_share_nothing():
    """A machine that others disturb: two workers are not twice as fast, and use five sixths of its cores."""
    model = fit_loader(MeasuredLoader(1, 0.0085, 125.0), MeasuredLoader(2, 0.008, 208.0), free_cores=2.0)
    assert model.costs.shared_seconds == 0 and model.predict(LoaderLimits(2.0), 8)[-1].cap == "cores"


def test_threads_beside_the_only_worker_are_no_worker():
    """A thread of its own makes batches: of 5 ms CPU the worker has 4, and both go on at the same time."""
    one, many = MeasuredLoader(1, 0.005, 250.0), MeasuredLoader(2, 0.005, 400.0)
    model = fit_loader(one, many, free_cores=2.0)
    assert model.costs.apart_seconds == pytest.approx(0.001) and model.costs.wait_seconds == 0
    assert [found.rate for found in model.predict(LoaderLimits(2.0), 3)] == pytest.approx([250.0, 400.0, 400.0])
    # on eight cores they are there for each worker's elements
    assert model.predict(LoaderLimits(8.0), 3)[-1].rate == pytest.approx(750.0)
    assert model.predict(LoaderLimits(1.0), 1)[-1].rate == pytest.approx(200.0)


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="no time"):
        LoaderCosts(0.0)
    with pytest.raises(ValueError, match="at least 0"):
        LoaderCosts(0.1, -1.0)
    with pytest.raises(ValueError, match="workers have a part"):
        LoaderCosts(0.1, apart_seconds=0.1)
    with pytest.raises(ValueError, match="above 0"):
        LoaderLimits(0.0)
    with pytest.raises(ValueError, match="at least one worker"):
        predict_rate(LoaderCosts(0.1), LoaderLimits(1.0), 0)
    with pytest.raises(ValueError, match="no rates"):
        find_knee([])
    with pytest.raises(ValueError, match="fewer workers"):
        fit_loader(MeasuredLoader(2, 0.1, 1.0), MeasuredLoader(1, 0.1, 1.0), 1.0)
    with pytest.raises(ValueError, match="rate above 0"):
        MeasuredLoader(1, 0.1, 0.0)
