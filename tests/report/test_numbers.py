import math

import pytest

from tests.make_result import make_result
from tfperf.report import numbers


@pytest.mark.parametrize(
    ("got", "want"),
    [
        (numbers.format_number(1.23456), "1.235"),
        (numbers.format_number(-0.01, 1), "0.0"),
        (numbers.format_number(None), "n/a"),
        (numbers.format_number(math.nan), "n/a"),
        (numbers.format_number(0.0), "0.000"),
        (numbers.format_seconds(6.104), "6.10 s"),
        (numbers.format_seconds(61.04), "61.0 s"),
        (numbers.format_seconds(240.0), "240 s (4.0 min)"),
        (numbers.format_seconds(None), "n/a"),
        (numbers.format_bytes(1.5e9), "1.50 GB"),
        (numbers.format_bytes(2.5e6), "2.5 MB"),
        (numbers.format_bytes(None), "n/a"),
        (numbers.format_count(0), "0"),
        (numbers.format_count(None), "n/a"),
    ],
)
def test_figures_as_text(got, want):
    assert got == want


def test_time_that_no_stage_accounts_for_is_shown():
    rows = {r.stage: r for r in numbers.make_time_rows(make_result().summary)}
    assert rows["not attributed"].seconds == pytest.approx(83.0 - 6.1 - 1.25 - 2.5 - 9.75 - 61.0)
    assert rows["train"].share == pytest.approx(61 / 83)
    assert rows["write"].seconds is None and rows["write"].share is None
    assert sum(r.share or 0 for r in rows.values()) == pytest.approx(2)  # stages and total
    assert all(r.seconds is None for r in numbers.make_time_rows({}))


def test_nested_values_become_dotted_names():
    tree = {"a": {"b": 0.123456789, "c": [1, 2]}, "d": [{"e": True}, {"e": None}], "f": [], "g": {}}
    want = [("a.b", "0.123457"), ("a.c", "1, 2"), ("d 1.e", "True"), ("d 2.e", "n/a"), ("f", "none"), ("g", "none")]
    assert list(numbers.list_leaves(tree)) == want
