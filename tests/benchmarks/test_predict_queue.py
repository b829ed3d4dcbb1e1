"""Whichever rule hands them out: each record comes out once, and the same rows."""

import math
from functools import partial

import numpy as np
import pytest

from benchmarks import predict_queue, predict_side
from benchmarks.crew import Crew, cut_units, make_rules
from benchmarks.handing_out import run_idle
from benchmarks.predict_queue import FORMS, PLANTINGS, UNITS, make_rows, parse_slowness
from benchmarks.predict_side import (
    INPUT,
    OURS,
    choose_texts,
    describe_outcome,
    limit_share,
    make_crew_slots,
    repeat_texts,
    run_dispatcher,
)
from benchmarks.registry import REGISTRY
from tests.infer.programs import compute, measure
from tfperf.errors import UserError
from tfperf.infer.micro_batches import BatchRule
from tfperf.infer.prepared import RaggedColumn

RECORDS, BATCH = 230, BatchRule(total_length=40)
MEASURE = REGISTRY["predict"].measure


def make_values():
    lengths = np.array([measure(number) for number in range(RECORDS)])
    return RaggedColumn(np.repeat(np.arange(RECORDS), lengths), lengths)


def load_small():
    return partial(compute, faults={}, seconds=1e-6, of_batch=0.0)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("round")
    (folder / "waiting").mkdir()
    values, slowness = make_values(), (1.0, 3.0)
    found = {OURS: run_dispatcher(make_crew_slots(load_small, slowness, folder / "waiting"), values, BATCH, folder)}
    with Crew(make_crew_slots(load_small, slowness), INPUT, BATCH) as crew:
        for name, rule in make_rules((1, 10, 1000), 50).items():
            found[name] = rule(crew, values)
    return found


@pytest.mark.slow
def test_each_rule_gives_each_record_once_and_the_same_rows(outcomes):
    assert len(outcomes) == 6
    for name, one in outcomes.items():
        np.testing.assert_array_equal(one.rows, np.arange(RECORDS)[:, None] * np.arange(4), name)
        assert sum(one.records) == RECORDS and one.seconds > 0, name
        assert all((records > 0) == (spent > 0) for records, spent in zip(one.records, one.computing, strict=True))


def test_rounds_are_equal_and_one_unit_is_one_workers(outcomes):
    assert outcomes["rounds"].records == (130, 100)  # of 50, the last one of 30
    assert sorted(outcomes["queue of units of 1000"].records) == [0, RECORDS]


def test_a_crew_that_cannot_load_its_model_says_why():
    with pytest.raises(UserError, match="worker 0: its process"):
        Crew(make_crew_slots(fail_to_load, (1.0,)), INPUT, BATCH).__enter__()


def fail_to_load():
    raise ValueError("no such model")


def test_units_are_cut_as_records_come():
    units = cut_units(make_values(), 100)
    assert [(one.first, len(one.values.lengths)) for one in units] == [(0, 100), (100, 100), (200, 30)]
    assert units[1].values.flat[0] == 100


def test_what_would_take_many_times_as_long_is_measured_with_fewer_texts():
    assert limit_share("rounds", (1.0, 50.0)) == pytest.approx(0.04 / 1.02)
    assert limit_share("rounds", (1.0, 3.0, 3.0)) == pytest.approx(0.6)
    assert [limit_share(f"queue of units of {size}", (1.0, 50.0)) for size in UNITS] == [0.25, 1.0, 1.0, 1.0]
    assert choose_texts(9, 0.25).tolist() == [0, 8] and len(choose_texts(9, 1.0)) == 9


def test_texts_begin_again_after_the_last():
    assert repeat_texts(make_values(), RECORDS + 2).flat[-1] == 1


def part(seconds, records=(100, 2), computing=(9.0, 0.2), difference=0.0):
    return {"seconds": seconds, "records": list(records), "computing": list(computing), "difference": difference}


def test_rows_set_each_rule_beside_tfperf():
    rounds = [{OURS: part(10.0), "pool": part(20.0, difference=1e-6)}, {OURS: part(10.0), "pool": part(25.0)}]
    ours, pool = make_rows("50:1", rounds)
    assert ours["ratio"] == "1 [1, 1]" and pool["ratio"] == "2.25 [2.125, 2.375]"
    assert ours["records/s"] == "10.2 [10.2, 10.2]" and ours["useful share"] == pytest.approx(9.2 / (10 * 1.02))
    assert ours["own ms a record"] == "90, 100" and pool["largest difference of rows"] == 1e-6
    assert pool["seconds"] == 22.5 and pool["records"] == 102


def test_kinds_of_batches_are_set_beside_the_first():
    rounds = [{"sorted": part(10.0, (100,), (9.0,)), "one by one": part(10.0, (25,), (9.0,))}]
    _, single = make_rows("batches", rounds)
    assert single["ratio"] == "4" and single["useful share"] == 0.9


@pytest.mark.parametrize("text", ["", "1,x", "0.5,1"])
def test_bad_slowness_is_refused(text):
    with pytest.raises(UserError, match=r"--slowness: got .*; must be numbers of at least 1"):
        parse_slowness(text)


def test_rounds_are_asked_for_and_kept(tmp_path, monkeypatch):
    asked = []

    def run(command, request, stopped):
        asked.append((request["planting"], request["round"]))
        names = FORMS if request["planting"] is None else [OURS, "pool"]
        return {"parts": {name: part(10.0) for name in names}}

    monkeypatch.setattr("benchmarks.record_store.child.run_subprocess", run)
    monkeypatch.setattr(predict_queue, "prepare_passages", lambda path: path.touch())
    rows = list(MEASURE(rounds=2, folder=tmp_path))
    assert asked == [(one and [*one], number) for number in (0, 1) for one in PLANTINGS.values()]
    assert [row["handed out"] for row in rows] == [OURS, "pool", OURS, "pool", *FORMS]
    assert list(MEASURE(rounds=2, folder=tmp_path)) == rows and len(asked) == 6
    with pytest.raises(UserError, match="--only: got '9:1'; allowed: 50:1, 3:1:1, batches"):
        list(MEASURE(only="9:1"))
    with pytest.raises(UserError, match="--model: got 'huge'; allowed: small, full"):
        list(MEASURE(model="huge"))
    assert math.isclose(sum(row["useful share"] for row in rows[:1]), 9.2 / 10.2)


def test_rows_of_fewer_texts_are_compared_with_the_same(outcomes):
    chosen = {OURS: np.arange(RECORDS), "pool": np.arange(0, RECORDS, 2)}
    few = outcomes["pool"].__class__(1.0, outcomes["pool"].rows[::2], (115, 0), (1.0, 0.0))
    assert describe_outcome({**outcomes, "pool": few}, chosen, "pool", OURS)["difference"] == 0.0
    assert predict_side.describe_outcome(outcomes, {OURS: chosen[OURS], "rounds": chosen[OURS]}, "rounds", OURS)


def test_handing_out_is_timed():
    seconds, spent, batches = run_idle(2, BatchRule(records=8), 100)
    assert seconds > 0 and spent >= 0 and batches == 13
