"""What a reader of the tables of placements has to know, from records made by hand that bear it out, or do not."""

from tests.study.sweep_records import disproved, point
from tfperf.report.placements import describe_rows
from tfperf.report.placements_page import render_placements_page
from tfperf.report.recommendation import NOT_PROVED
from tfperf.study import placements
from tfperf.study.placements import make_placement_rows, write_report


def told(rows, what):
    """The remarks with these words."""
    return [line for line in describe_rows(make_placement_rows(rows)) if what in line]


def pair(first, second, **keys):
    """Exp1 on one device and on two."""
    return [*point("Exp1", 1, first, **keys), *point("Exp1", 2, second, **keys)]


def test_speedups_that_no_sweep_can_narrow_are_said_to_be_such():
    for took, said in (([60.0, 66.0], False), ([20.0, 200.0], True), ([1e-3, 1e6], True)):
        (line,) = told(pair([100.0, 100.0], took), "wider than 10 %")
        assert line.endswith("Exp1, strong on 2: more than 100, which no sweep has") is said


def test_rows_of_fewer_repeats_than_others_are_named():
    (line,) = told(pair([10.0] * 3, [10.0] * 2), "fewer than")
    assert line == "figures of fewer than 3 repeats, since some failed or are missing: Exp1, strong on 2: 2"
    assert not told(pair([10.0] * 2, [10.0] * 2), "fewer than")


def test_a_bound_that_is_longer_than_the_step_is_called_none():
    rows = [*point("Exp1", 1, [21.9] * 2), *point("Exp4", 1, [22.1] * 2)]
    (line,) = told(rows, "bounds nothing")
    assert line.endswith("it bounds nothing: Exp1, strong on 1")


def test_trials_on_different_machines_are_said(tmp_path, monkeypatch):
    machines = [{"cpu": "new", "cores": 8}, {"cpu": "old", "cores": 2}]
    monkeypatch.setattr(placements, "read_current_trials", lambda folder: pair([100.0, 110.0], [60.0, 55.0]))
    for some, said in ((machines, True), (machines[:1], False)):
        _, page = write_report(tmp_path, {"title": "", "drift": None, "machines": some})
        assert ("the trials ran on different machines: new (8 cores), old (2 cores)" in page.read_text()) is said


def test_a_sweep_without_a_proof_has_a_page_all_the_same(recwarn):
    rows = [disproved("Exp1", 1), disproved("Exp2", 2)]
    page = render_placements_page("t", make_placement_rows([*rows, *point("Exp1", 1, [9.0, 9.0])[1:]]), "drift")
    assert NOT_PROVED in page and not list(recwarn)


def test_rows_without_a_breakdown_say_why():
    rows = pair([10.0, 10.0], [9.0, 9.0])
    for row in rows:
        if "kernels" in row.record:
            row.record["kernels"]["xla"] = True
    assert not told(rows, "profiler")
    rows[0].record["phases"] = {}
    (line,) = told(rows, "profiler")
    assert line.endswith("XLA's programs run, so not where the time goes: Exp1, strong on 1")
