"""Calls whose operations are all too short for TensorFlow to record them."""

from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from tests.trace.profiles import us, write
from tests.trace.test_findings import CALL, MARK, find
from tfperf.report.profile import OPERATION_COLUMNS, make_profile_record, make_profile_tables
from tfperf.report.profile_account import describe_verdict
from tfperf.report.profile_files import write_profile
from tfperf.trace.attribution import read_attribution
from tfperf.trace.notes import parse_notes


def list_calls(count: int = 4) -> tuple[list[Any], list[Any]]:
    """Python's events, and the executor's, which runs for 800 of 1000 us of each call."""
    python: list[Any] = [("train", 1100 * i, 1000, MARK) for i in range(count)]
    python += [("step", 1100 * i, 1000, CALL) for i in range(count)]
    return python, [("ExecutorState::Process", 1100 * i + 100, 800) for i in range(count)]


def read(path, python, main):
    told = parse_notes({"own": True, "optimizers": [], "program": "loop"})
    return read_attribution(write(path / "vm.xplane.pb", {"/host:CPU": {"p": us(*python), "m": us(*main)}}), told)


def test_a_profile_without_an_operation_is_one_of_short_operations(tmp_path):
    python, main = list_calls()
    found = read(tmp_path, python, main)
    assert len(found.steps) == 4 and found.account.period_ms == pytest.approx(1.1) and not found.problems
    first = find(tmp_path, python, main, "loop")[0]
    assert first.rule == "short_operations" and "too short to be recorded" in first.what
    assert first.bound_ms == pytest.approx(0.8)


def test_its_report_has_all_files(tmp_path):
    found = read(tmp_path, *list_calls())
    record = make_profile_record(found) | {"captures": 1, "series": [{"step": {}}]}
    assert "too short to be recorded" in describe_verdict(record)[1]
    Console(file=StringIO()).print(make_profile_tables(record))
    files = write_profile(tmp_path / "report", found, record, "t")
    assert all(file.stat().st_size for file in files)
    header = (tmp_path / "report" / "operations.csv").read_text().strip()
    assert header == ",".join(f'"{column}"' for column in OPERATION_COLUMNS)
    python, main = list_calls()
    one = make_profile_record(read(tmp_path, python, [*main, ("a/A:MatMul", 200, 600)]))["operations"][0]
    assert tuple(one) == OPERATION_COLUMNS


def test_calls_of_which_some_have_an_operation_are_all_steps(tmp_path):
    python, main = list_calls(10)
    found = read(tmp_path, python, [*main, ("a/A:Mul", 2400, 10), ("a/A:Mul", 5700, 10)])
    assert len(found.steps) == 10 and not found.problems
    (one,) = find(tmp_path, python, [*main, ("a/A:Mul", 2400, 10)], "loop")[:1]
    assert "too short to be recorded" in one.what


def test_marks_around_no_call_are_no_steps(tmp_path):
    """The third mark has nothing in it: the program has skipped a batch."""
    python, _ = list_calls()
    kept = [one for one in python if one[0] != "step" or one[1] != 2200]
    found = read(tmp_path, kept, [("a/A:MatMul", 1100 * i + 200, 600) for i in (0, 1, 3)])
    assert len(found.steps) == 3 and "1 of 4 calls have no operation" in found.problems[0]


def test_one_operation_beside_many_that_are_not_recorded_is_not_what_is_told(tmp_path):
    python: list[Any] = [("train", 1000 * i, 1000, MARK) for i in range(4)]
    python += [("step", 1000 * i, 1000, CALL) for i in range(4)]
    main: list[Any] = [("ExecutorState::Process", 1000 * i + 10, 980) for i in range(4)]
    main += [("a/A:Mul", 1000 * i + 500, 5) for i in range(4)]
    assert "too short to be recorded" in find(tmp_path, python, main, "loop")[0].what


def test_a_hidden_call_has_as_many_steps_as_the_others(tmp_path):
    python, main = list_calls()
    told = parse_notes({"own": True, "optimizers": [], "program": "keras", "turns": 10})
    found = read_attribution(write(tmp_path / "vm.xplane.pb", {"/host:CPU": {"p": us(*python), "m": us(*main)}}), told)
    assert len(found.steps) == 40 and found.account.period_ms == pytest.approx(0.11)


@pytest.mark.parametrize("program, start", [("loop", 0.0), ("engine", 0.0), ("keras", 0.1), ("card", 0.1)])
def test_a_program_of_xla_is_started_for_each_step_of_keras(program, start, tmp_path):
    """Of ten steps a call; in a loop what is not recorded of operations is as long as the start of a call."""
    python, main = [
        [(name, 10 * begin, 10 * length, *more) for name, begin, length, *more in one] for one in list_calls()
    ]
    (one,) = [one for one in find(tmp_path, python, main, program, {"turns": 10}) if one.rule == "short_operations"]
    assert one.bound_ms == pytest.approx(0.8) and one.gain_ms == pytest.approx(0.9 * 0.8 - start)
