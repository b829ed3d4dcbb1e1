"""Values of a key that are worth a try."""

import pytest

from tfperf.study.change_values import predict_gain, suggest_values


@pytest.mark.parametrize(
    "now, steps, values",
    [(1, None, (16, 4)), (10, 50, (50, 40)), (10, 1000, (160, 40)), (10, 15, (15,))],
)
def test_calls_are_made_longer_within_the_training(now, steps, values):
    assert suggest_values({"train": {"steps_per_call": now, "steps": steps}}, "train.steps_per_call") == (values, "")


@pytest.mark.parametrize(
    "tree, key, words",
    [
        ({"train": {"steps_per_call": "auto"}}, "train.steps_per_call", "is auto"),
        ({"train": {"steps_per_call": 50, "steps": 50}}, "train.steps_per_call", "all of train.steps"),
        ({"engine": {"xla": "auto"}}, "engine.xla", "is auto"), ({"engine": {"xla": True}}, "engine.xla", "is true"),
        ({"engine": {"xla": "step"}}, "engine.xla", "is step"),
    ],
)  # fmt: skip
def test_what_is_measured_anyway_or_set_already_is_left_with_a_reason(tree, key, words):
    values, why = suggest_values(tree, key)
    assert not values and words in why


def test_xla_is_tried_where_the_card_has_it_off():
    assert suggest_values({"engine": {"xla": False}}, "engine.xla") == ((True,), "")


def test_shorter_calls_than_a_finding_means_are_expected_to_save_less():
    finding = {"ms": 1.6, "gain_ms": 1.5}
    gains = [predict_gain(finding, "train.steps_per_call", 1, value) for value in (4, 16, 100)]
    assert gains == pytest.approx([1.2, 1.5, 1.5])
    assert predict_gain(finding, "engine.xla", False, True) == 1.5
