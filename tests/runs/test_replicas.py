"""Ids that `--replicas` names."""

import pytest

from tfperf.errors import CardError
from tfperf.runs.opening import parse_replicas


@pytest.mark.parametrize(
    "text",
    ["", "0", "-1", "00", "007", "٣", "²", "1.0", "1e2", "1_0", "5-3", "1-100001", "1-", "a", " 5", "5\n", "100001",
     str(10**100), "9" * 5000, "x" * 10**6],
)  # fmt: skip
def test_what_is_no_number_of_replicas_is_refused_in_few_words(text):
    with pytest.raises(CardError, match=r"^--replicas: got .*; must be a number \(20\) or a range of ids") as caught:
        parse_replicas(text)
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize(
    ("text", "ids"), [(None, ()), ("3", (1, 2, 3)), ("5-6", (5, 6)), ("100000-100000", (100_000,))]
)
def test_numbers_and_ranges(text, ids):
    assert parse_replicas(text) == ids
