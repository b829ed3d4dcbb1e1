"""How much of what workers can do is done: at planted rates, where one is lost, and where one becomes slower."""

from math import inf

import pytest

from benchmarks.useful_share import (
    BATCH,
    SCENARIOS,
    Scenario,
    integrate_spans,
    list_spans,
    measure_scenario,
)
from tests.infer.simulator import Simulation
from tfperf.infer.leases import BatchTask, Load
from tfperf.infer.micro_batches import MicroBatch
from tfperf.infer.pace import Paces, UnitRule, WorkerPace

COUNT, COST = 3000, 64.0


def play(slowness, *, ends=(), later=1.0, seconds=60.0):
    """The useful share of a simulated run of so many seconds, in which no time passes."""
    rates = [COUNT * COST / seconds / sum(1 / one for one in slowness) / slow for slow in slowness]
    batches = [MicroBatch(0, place, (place,), int(COST)) for place in range(COUNT)]

    def make_speed(rate, is_first):
        return lambda now: rate / (later if is_first and now >= seconds / 2 else 1.0)

    speeds = [make_speed(rate, place == 0) for place, rate in enumerate(rates)]
    found = Simulation(batches, {one.key: COST for one in map(BatchTask, batches)}, speeds, ends=ends)
    end = found.run()
    spans = [(0.0, inf, rate) for rate in rates[1:]]
    if ends:
        ((lost, _, back),) = ends
        spans += [(0.0, lost, rates[0]), (back, inf, rates[0])]
    else:
        spans += [(0.0, seconds / 2, rates[0]), (seconds / 2, inf, rates[0] / later)]
    assert found.done >= COUNT * COST
    return COUNT * COST / integrate_spans(spans, 0.0, end)


# units are of 1 s and shrink to half of a share of what is left, so that the end costs about a batch of the slowest
# worker: of 60 ms at 3:1:1 and 1 s at 50:1; a lost worker takes with it two units, of which one batch was begun
@pytest.mark.parametrize(
    ("settings", "least"),
    [
        ({"slowness": (1, 3, 3)}, 0.99),
        ({"slowness": (1, 50)}, 0.98),
        ({"slowness": (1, 3, 3), "later": 3.0}, 0.98),
        ({"slowness": (1, 3, 3), "ends": [(30.0, 0, 32.0)]}, 0.98),
        ({"slowness": (1,) * 16}, 0.98),
    ],
)
def test_rules_leave_little_undone(settings, least):
    assert least <= play(**settings) <= 1 + 1e-9


def test_a_run_of_a_moment_is_shared_out():
    """All units are shorter than they would be if there were more to do."""
    assert play((1, 1), seconds=0.5) > 0.95


def test_spans_of_what_is_available(tmp_path):
    steady = Scenario((1.0, 2.0), 0.9)
    rates = [rate for _, _, rate in list_spans(steady, inf, 5.0, tmp_path)][:2]
    assert integrate_spans(list_spans(steady, inf, 5.0, tmp_path), 0.0, 10.0) == pytest.approx(10 * sum(rates))
    (tmp_path / "0-11").write_text("0.0")
    (tmp_path / "0-12").write_text("6.0")
    lost = Scenario((1.0, 1.0), 0.9, is_killed=True)
    whole = list_spans(lost, 4.0, 5.0, tmp_path)
    assert integrate_spans(whole, 0.0, 10.0) == pytest.approx(rates[1] * (10 + 4 + 4))
    slower = Scenario((1.0, 1.0), 0.9, later=2.0)
    assert integrate_spans(list_spans(slower, inf, 5.0, tmp_path), 0.0, 10.0) == pytest.approx(rates[1] * 17.5)


def test_who_has_done_nothing_yet_counts_as_the_mean():
    paces = Paces(UnitRule(), {number: WorkerPace() for number in range(4)})
    paces.workers[0].add(10.0, 0.1)
    nobody = {number: Load(0, 0.0) for number in range(4)}
    # 0.8 s of work for one such worker: a quarter of it is its own share, and half of that a unit
    assert paces.choose_count(0, [1.0] * 80, nobody) == 10
    assert paces.choose_count(1, [1.0] * 80, nobody) == 1


def test_a_unit_has_a_bounded_number_of_batches():
    paces = Paces(UnitRule(), {0: WorkerPace()})
    paces.workers[0].add(1.0, 1e-6)
    limit, cost = paces.list_unit_limits(0)
    assert limit == 1000 and cost == pytest.approx(1e6)
    assert paces.choose_count(0, [1.0] * 5000, {0: Load(0, 0.0)}) == limit


@pytest.mark.parametrize("name", ["3:1:1, lost", "3:1:1, slower"])
def test_a_short_run_does_all_records(name, tmp_path):
    found = measure_scenario(SCENARIOS[name], tmp_path, seconds=1.0)
    assert found.records * 1 <= found.cost <= found.records * BATCH and found.available > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_real_processes_leave_little_undone(name, tmp_path):
    found = measure_scenario(SCENARIOS[name], tmp_path, seconds=65.0)
    assert found.seconds >= 60 and SCENARIOS[name].goal <= found.share <= 1, found
    assert len(found.said) == SCENARIOS[name].is_killed
