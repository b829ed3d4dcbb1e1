"""What a profile says in its first lines, and the texts of rules in the documentation."""

from typing import Any

import pytest

from tests.runcard.cards import ROOT
from tests.trace.profiles import us, write
from tfperf.report.profile import make_profile_record
from tfperf.report.profile_account import describe_verdict, list_account_rows, render_rules
from tfperf.trace.attribution import read_attribution
from tfperf.trace.notes import parse_notes

MARK = {"step_num": 0}


def read(tmp_path, python, main, **notes):
    lines = {"p": us(*python), "m": us(*main)}
    told = parse_notes({"own": True, "optimizers": [], "program": "keras", **notes})
    return make_profile_record(read_attribution(write(tmp_path / "vm.xplane.pb", {"/host:CPU": lines}), told))


def test_the_verdict_comes_in_five_lines_with_the_first_findings(tmp_path):
    hooks = "tfperf.callback:A.on_train_batch_end", "tfperf.callback:B.on_train_batch_end"
    names = *hooks, "tfperf.validation", "tfperf.garbage:generation 2"
    python: list[Any] = [("train", 100 * i, 20, MARK) for i in range(4)]
    python += [(name, 100 * i + 20 + 15 * k, 15 + (k == 0)) for i in range(4) for k, name in enumerate(names)]
    record = read(tmp_path, python, [("dense/A:MatMul", 100 * i, 20) for i in range(4)])
    lines = describe_verdict(record)
    assert len(lines) == 5 and len(record["findings"]) == 4
    assert lines[0] == "0.100 ms from step to step; operations of steps run for 0.0200 of them (20%)"
    assert lines[1].startswith("1. A.on_train_batch_end") and "gains 0.0160 ms a step (16%)" in lines[1]
    assert lines[4] == "4 findings; 0.0200 ms a step are unexplained"


def test_without_findings_it_says_what_is_unexplained(tmp_path):
    python = [("train", 100 * i, 99, MARK) for i in range(4)]
    record = read(tmp_path, python, [("dense/A:MatMul", 100 * i, 99) for i in range(4)])
    last = describe_verdict(record)[-1]
    assert last == (
        "no single change stands out: of 0.100 ms, 0.00 are operations that reach less than half of what the machine "
        "can do, 0.0990 operations of which that is not known; 0.00100 ms a step are unexplained"
    )


def test_what_takes_much_without_a_known_change_is_told(tmp_path):
    """First calls; and 20 us of each 100 of operations, which are none of it."""
    python: list[Any] = [("train", 100 * i, 99, MARK) for i in range(4)]
    python += [("f", 100 * i, 99, {"tf_function_call": "traced-nonXla"}) for i in range(4)]
    python += [("tf.function-graph_building", 100 * i + 20, 70) for i in range(4)]
    record = read(tmp_path, python, [("dense/A:MatMul", 100 * i, 20) for i in range(4)]) | {"findings": []}
    last = describe_verdict(record)[-1]
    assert (
        "; for 0.0790 ms functions are traced and compiled, as in first calls, which a larger skip leaves out;" in last
    )


def test_rows_of_the_account_add_up(tmp_path):
    python = [("train", 100 * i, 90, MARK) for i in range(4)]
    record = read(tmp_path, python, [("dense/A:MatMul", 100 * i + 5, 60) for i in range(4)])
    assert sum(float(row[2]) for row in list_account_rows(record)) == pytest.approx(0.1)


def test_phases_that_do_not_overlap_do_so_for_no_time_at_all(tmp_path):
    """Sums of these lengths are off by rounding."""
    python = [("train", 100 * i, 90, MARK) for i in range(4)]
    main = [
        (name, 100.0 * i + begin, length) for i in range(4) for name, begin, length in (
            ("dense/A:MatMul", 0, 22.9), ("gradient_tape/dense/A:MatMul", 23.9, 15.3), ("adam/A:AssignSub", 40.2, 7.7),
        )
    ]  # fmt: skip
    (device,) = read(tmp_path, python, main, optimizers=["adam"])["devices"].values()
    assert device["busy_ms"] == pytest.approx(0.0459) and device["overlap_ms"] == 0


def test_looks_at_the_thread_are_no_times_that_something_happens():
    charges = [{"cause": cause, "name": "a", "ms": 0.5, "times": 3} for cause in ("python", "callback")]
    rows = list_account_rows({"account": {"period_ms": 1.0, "charges": charges}})
    assert [row[4] for row in rows] == ["", "3"]


def test_the_documentation_has_the_texts_of_all_rules():
    page = (ROOT / "docs" / "profile.md").read_text(encoding="utf-8")
    assert page.partition("<!-- rules -->\n")[2] == render_rules(), "write what render_rules gives behind the mark"
