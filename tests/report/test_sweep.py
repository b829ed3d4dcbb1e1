from io import StringIO

import pytest
from rich.console import Console

from tfperf.console.stages import format_duration
from tfperf.report.sweep import make_sweep_table

POINT = {"repeats": 3, "failures": 0, "errors": [], "median": 2.0, "mean": 2.1, "low": 1.6, "high": 2.6}


def text(report):
    file = StringIO()
    console = Console(file=file, width=100)
    whole = {"title": "", "trials": 6, "failed": 0, "machines": [], "drift": None, "left_out": 0, **report}
    console.print(make_sweep_table(whole))
    return file.getvalue()


def test_each_point_is_a_row_with_its_interval_and_ratio():
    first, second = {"values": {"a.b": 1}, **POINT}, {"values": {"a.b": 2}, **POINT, "median": 5.0}
    lines = text({"keys": ["a.b"], "points": [first, second]}).splitlines()
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("| ")]
    assert cells[0] == ["b", "repeats", "ms/step", "mean [95 %]", "ratio to first"]
    assert cells[1:] == [
        ["1", "3", "2.00", "2.10 [1.60, 2.60]", "1.00"],
        ["2", "3", "5.00", "2.10 [1.60, 2.60]", "2.50"],
    ]


def test_what_is_not_known_is_no_number():
    one = {"values": {"a.b": None, "c.b": True}, **POINT, "repeats": 1, "low": None, "high": None}
    none = {**one, "repeats": 0, "failures": 2, "median": None, "mean": None, "errors": ["[boom]"]}
    found = text({"keys": ["a.b", "c.b"], "points": [one, none], "failed": 2})
    assert "2.10 [n/a]" in found and "n/a [n/a]" in found and "0 of 2" in found
    assert "a.b" in found and "c.b" in found, "keys with the same last part are given whole"
    assert "failed: a.b=None c.b=True: [boom]" in found and "2 of 6 trials failed; --retry-failed" in found


def test_drift_is_said():
    drift = {"value": 1.1, "low": 1.05, "high": 1.15, "trials": 6}
    found = " ".join(text({"keys": ["a"], "points": [], "drift": drift}).split())
    assert "warning: the machine drifted in the course of the sweep: +10.0 % [+5.0, +15.0] ms a step" in found
    assert "none seen" in text({"keys": ["a"], "points": [], "drift": drift | {"low": 0.9}})


def test_samples_that_were_left_out_are_counted():
    assert "3 samples are left out, since" in text({"keys": ["a"], "points": [], "left_out": 3})
    assert "left out" not in text({"keys": ["a"], "points": []})


def test_machines_that_differ_are_named():
    machines = [{"cpu": "X", "cores": 2}, {"cpu": "Y", "cores": 4}]
    found = text({"keys": ["a"], "points": [], "machines": machines})
    assert "the trials ran on different machines: X (2 cores), Y (4 cores)" in found


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.4, "0 s"), (99, "99 s"), (240, "4 min"), (5900, "98 min"), (7200, "2.0 h")]
)
def test_times_left_are_rough(seconds, words):
    assert format_duration(seconds) == words
