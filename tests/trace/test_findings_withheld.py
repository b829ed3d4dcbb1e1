"""Findings that a profile does not bear out."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.trace.profiles import us, write
from tests.trace.test_findings import CALL, MARK, find
from tfperf.trace.attribution import Attribution, read_attribution
from tfperf.trace.rules import half_precision


@pytest.mark.parametrize("causes, told", [
    (["first call"], None), (["first call", "first call"], 0.2 / 3),
    (["first call of a function that is made anew"], 0.1 / 3), (["first call", "new dtype of x"], 0.1 / 3),
])  # fmt: skip
def test_what_is_called_for_the_first_time_is_no_repeated_trace(causes, told, tmp_path):
    """Of four steps the second has a trace of 100 us, or the second and the third."""
    traced = {"tf_function_call": "traced-nonXla"}
    python: list[Any] = [("train", 300 * i, 290, MARK) for i in range(4)]
    for i in range(1, len(causes) + 1):
        python += [("test", 300 * i, 200, traced), ("tf.function-graph_building", 300 * i, 100)]
    main = [("dense/MatMul:MatMul", 300 * i + 100, 190) for i in range(4)]
    notes = {"traces": [{"function": "test", "cause": cause} for cause in causes]}
    found = [one for one in find(tmp_path, python, main, "loop", notes) if one.rule == "retracing"]
    assert [one.ms for one in found] == ([] if told is None else [pytest.approx(told, rel=0.02)])


@pytest.mark.parametrize("times", [1, 2])
def test_a_pass_over_the_data_that_begins_once_is_no_cost_of_each_step(times, tmp_path):
    python: list[Any] = [("train", 100 * i, 50, MARK) for i in range(4)]
    python += [("EagerLocalExecute: MakeIterator", 100 * i + 60, 30) for i in range(times)]
    main = [("dense/MatMul:MatMul", 100 * i, 50) for i in range(4)]
    assert ("epoch" in [one.rule for one in find(tmp_path, python, main, "loop")]) == (times == 2)


def test_calls_of_many_operations_are_not_what_costs(tmp_path):
    """Eight calls a step, each of 40 operations of 2 us with holes of 1."""
    python: list[Any] = [("train", 2000 * i, 2000, MARK) for i in range(3)]
    python += [("cell", 2000 * i + 200 * k, 160, CALL) for i in range(3) for k in range(8)]
    main = [(f"a/A{n}:Mul", 2000 * i + 200 * k + 3 * n + 5, 2) for i in range(3) for k in range(8) for n in range(40)]
    first, *others = find(tmp_path, python, main, "loop")
    assert first.rule == "short_operations" and first.bound_ms == pytest.approx(8 * 0.119, rel=0.3)
    (calls,) = [one for one in others if one.rule == "calls"]
    assert calls.ms == pytest.approx(8 * 0.041, rel=0.01), "what lies between operations is none of it"


def test_a_few_calls_a_step_are_to_be_one(tmp_path):
    """Of three calls of a step of 1 ms each takes 0.1 ms to be started and ended, as long as their operations."""
    python: list[Any] = [("train", 1000 * i, 990, MARK) for i in range(4)]
    python += [(f"call{k}", 1000 * i + 300 * k, 200, CALL) for i in range(4) for k in range(3)]
    main = [("a/A:MatMul", 1000 * i + 300 * k + 50, 100) for i in range(4) for k in range(3)]
    (one,) = [one for one in find(tmp_path, python, main, "loop") if one.rule == "calls"]
    assert one.what.startswith("3 calls of compiled functions a step take 0.1 ms each")
    assert one.gain_ms == pytest.approx(0.2) and one.change.startswith("take the whole step in one tf.function")


@pytest.mark.parametrize("kind, work", [("Mul", 1.0), ("MatMul", 0.0), ("_FusedConv2D", 0.0)])
def test_short_products_are_work(kind, work, tmp_path):
    python: list[Any] = [("train", 0, 1000, MARK)]
    (one,) = find(tmp_path, python, [(f"dense/{kind}_{i}:{kind}", 20 * i, 5) for i in range(50)])
    assert one.bound_ms == pytest.approx(0.735 + 0.25 * work)


def test_a_compiled_step_without_gradients_is_not_eager(tmp_path):
    """Of 10 ms 6 are in the compiled step, of which 20 operations tell."""
    python: list[Any] = [("train", 10_000 * i, 10_000, MARK) for i in range(3)]
    python += [("assign", 10_000 * i, 6000, CALL) for i in range(3)]
    python += [("EagerLocalExecute: Add", 10_000 * i + 6000 + 200 * k, 100) for i in range(3) for k in range(20)]
    main = [("means/A:UnsortedSegmentSum", 10_000 * i, 6000) for i in range(3)]
    looks = {"s": [("tfperf.at:train.py:3 in log by TensorFlow", 6050 + 200 * k, 1) for k in range(20)]}
    (one,) = [one for one in find(tmp_path, python, main, "loop", lines=looks) if one.rule == "eager"]
    assert one.what.startswith("beside the compiled step")


def test_a_pipeline_of_short_operations_does_not_make_a_compiled_step_one(tmp_path):
    python: list[Any] = [("train", 1000 * i, 1000, MARK) for i in range(3)]
    python += [("step", 1000 * i, 900, CALL) for i in range(3)]
    main = [("a/A:MatMul", 1000 * i + 100 * k, 60) for i in range(3) for k in range(9)]
    ahead = [(f"map/B{k}:Mul", 1000 * i + 10 * k, 4) for i in range(3) for k in range(90)]
    rules = [one.rule for one in find(
        tmp_path, python, main, "loop", lines={"tf_data_private_threadpool/1": ahead}
    )]  # fmt: skip
    assert "short_operations" not in rules


def test_a_file_whose_folder_has_in_within_its_name_is_told_whole(tmp_path):
    python: list[Any] = [("train", 200 * i, 190, MARK) for i in range(3)]
    python += [("step", 200 * i, 45, CALL) for i in range(3)]
    main = [("dense/MatMul:MatMul", 200 * i, 40) for i in range(3)]
    looks = [
        ("tfperf.at:/work in progress/train.py:3 in score", 200 * i + 50 + 30 * k, 1)
        for i in range(3)
        for k in range(4)
    ]
    (one,) = [one for one in find(tmp_path, python, main, "loop", lines={"s": looks}) if one.rule == "python"]
    assert "/work in progress/train.py:3, in score" in one.what


def test_a_step_that_xla_compiled_is_so_whatever_its_pipeline_does(tmp_path):
    """Its program has 30 us of 1000, operations of a pipeline 900."""
    python = [("train", 1000 * i, 1000, MARK) for i in range(3)]
    main = [("a/A:MatMul", 1000 * i, 30) for i in range(3)]
    ahead = [(f"map/B{k}:Mul", 1000 * i + 10 * k, 9) for i in range(3) for k in range(90)]
    lines = {"p": us(*python), "m": us(*main), "tf_data_private_threadpool/1": us(*ahead)}
    found = read_attribution(write(tmp_path / "vm.xplane.pb", {"/host:CPU": lines}))
    costs = tuple(replace(one, instruction=one.phase != "input") for one in found.costs)
    assert not found.compiled and replace(found, costs=costs).compiled


def test_casts_alone_are_no_half_precision_that_is_slow():
    """Beside them an operation that was timed takes no time in the steps."""
    shares = {"product": 0.5, "cast": 0.0}
    costs = [
        SimpleNamespace(name=name, layer="", scopes=[name], phase="forward", busy_ms=ms)
        for name, ms in (("product", 0.0), ("cast", 1.0))
    ]
    notes = SimpleNamespace(rules=SimpleNamespace(find_half=lambda scopes: shares[scopes[0]]), half=())
    found = SimpleNamespace(notes=notes, costs=costs, half_ms=1.0, account=SimpleNamespace(work_kept=1.0))
    assert list(half_precision.find(cast(Attribution, found))) == []


@pytest.mark.parametrize("times, what", [
    ([2], None), ([2, 2], "all objects 2 times"), ([2, 2, 0], "all objects 2 times"), ([2, 0], "young objects once"),
    ([0, 0, 1], "young objects 3 times"),
])  # fmt: skip
def test_of_a_single_look_through_all_objects_is_not_known_how_often_it_comes(times, what, tmp_path):
    """Of 100 us, as those through young objects, in three steps of 300."""
    python: list[Any] = [("train", 300 * i, 290, MARK) for i in range(4)]
    python += [(f"tfperf.garbage:generation {one}", 300 * i + 150, 100) for i, one in enumerate(times)]
    main = [("dense/MatMul:MatMul", 300 * i, 150) for i in range(4)]
    found = [one for one in find(tmp_path, python, main, "loop") if one.rule == "garbage"]
    counted = [one for one in times if one != 2 or times.count(2) > 1]
    assert [one.ms for one in found] == ([] if what is None else [pytest.approx(0.1 * len(counted) / 3, rel=0.01)])
    assert all(what in one.what for one in found)
