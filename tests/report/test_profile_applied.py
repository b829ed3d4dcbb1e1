"""Words of what a profile's findings were tried for."""

import pytest

from tfperf.report.profile_applied import list_change_lines, render_changes

TRIED = {
    "rule": "calls", "what": "each call takes 0.8 ms", "key": "train.steps_per_call", "before": 1, "after": 16,
    "predicted_ms": 0.75, "outcome": "kept", "before_ms": 1.0, "after_ms": 0.4, "chance_ms": 0.02,
    "turns_ms": [(1.0, 0.4)] * 5, "left_out": ["turn 2: 1 and 9 ms"], "why": "",
}  # fmt: skip
UNTIMED = {"before_ms": None, "after_ms": None, "chance_ms": None, "left_out": []}


def test_both_times_and_the_gain_stand_beside_the_estimate():
    lines = list_change_lines({"tried": [TRIED], "left": [], "card": "small_faster.yaml"})
    assert "train.steps_per_call: 16 in place of 1: 1.00 to 0.400 ms a step" in lines[0]
    assert "gains 0.6 ms (± 0.0200), 0.750 were estimated; wins beyond chance: kept" in lines[0]
    assert "turn 2: 1 and 9 ms" in lines[1] and "small_faster.yaml" in lines[2]


@pytest.mark.parametrize(
    "applied, words",
    [
        ({"tried": [], "left": []}, "there are no findings"),
        ({"tried": [], "left": [{"what": "waits", "why": "no key"}]}, "no finding is one that a key"),
        ({"tried": [TRIED | {"outcome": "slower"}], "left": []}, "no change that was tried wins"),
        (
            {"tried": [TRIED | UNTIMED | {"outcome": "refused"}], "left": []},
            "no change that was tried could be measured",
        ),
    ],
)
def test_without_a_card_it_says_why(applied, words):
    assert words in list_change_lines(applied | {"card": None})[-1]


def test_what_is_not_known_is_not_available():
    refused = TRIED | UNTIMED | {"outcome": "refused", "why": "no <data>"}
    assert list_change_lines({"tried": [refused], "left": [], "card": None})[0].endswith("cannot be had: no <data>")
    page = render_changes({"tried": [refused], "left": [], "card": None})
    assert "no &lt;data&gt;" in page and page.count("n/a") == 3 and "nan" not in page
    unknown = TRIED | {"chance_ms": None, "outcome": "unknown"}
    assert "gains 0.6 ms (chance n/a)" in list_change_lines({"tried": [unknown], "left": [], "card": None})[0]
