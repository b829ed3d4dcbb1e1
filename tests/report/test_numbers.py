import math

import pytest

from tests.make_result import make_result
from tfperf.report import numbers


@pytest.mark.parametrize(
    ("got", "want"),
    [
        (numbers.number(1.23456), "1.235"),
        (numbers.number(-0.01, 1), "0.0"),
        (numbers.number(None), "n/a"),
        (numbers.number(math.nan), "n/a"),
        (numbers.number(0.0), "0.000"),
        (numbers.seconds(6.104), "6.10 s"),
        (numbers.seconds(61.04), "61.0 s"),
        (numbers.seconds(240.0), "240 s (4.0 min)"),
        (numbers.seconds(None), "n/a"),
        (numbers.size(1.5e9), "1.50 GB"),
        (numbers.size(2.5e6), "2.5 MB"),
        (numbers.size(None), "n/a"),
        (numbers.count(0), "0"),
        (numbers.count(None), "n/a"),
    ],
)
def test_figures_as_text(got, want):
    assert got == want


def test_time_that_no_stage_accounts_for_is_shown():
    rows = {r.stage: r for r in numbers.time_rows(make_result().summary)}
    assert rows["not attributed"].seconds == pytest.approx(83.0 - 6.1 - 1.25 - 2.5 - 9.75 - 61.0)
    assert rows["train"].share == pytest.approx(61 / 83)
    assert rows["write"].seconds is None and rows["write"].share is None
    assert sum(r.share or 0 for r in rows.values()) == pytest.approx(2)  # stages and total
    assert all(r.seconds is None for r in numbers.time_rows({}))


def test_nested_values_become_dotted_names():
    tree = {"a": {"b": 0.123456789, "c": [1, 2]}, "d": [{"e": True}, {"e": None}], "f": [], "g": {}}
    want = [("a.b", "0.123457"), ("a.c", "1, 2"), ("d 1.e", "True"), ("d 2.e", "n/a"), ("f", "none"), ("g", "none")]
    assert list(numbers.flat(tree)) == want
