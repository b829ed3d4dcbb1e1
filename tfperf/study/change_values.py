"""Which values of a card's key are worth a try where a finding asks for its change."""

from collections.abc import Mapping, Sequence
from typing import Any

from tfperf.runcard.keys import Tree, get
from tfperf.workloads.workload import AUTO

CALL_KEY, XLA_KEY, STEPS = "train.steps_per_call", "engine.xla", "train.steps"
LONGER = (16, 4)  # times as many steps a call, the first that can be had


def suggest_values(tree: Tree, key: str) -> tuple[Sequence[Any], str]:
    """Values for a key of a card, in the order in which to try them; of none the reason.

    >>> suggest_values({"train": {"steps_per_call": 1, "steps": 100}}, "train.steps_per_call")
    ((16, 4), '')
    >>> suggest_values({"engine": {"xla": "auto"}}, "engine.xla")
    ((), 'engine.xla is auto: what is faster is measured before the first step already')
    """
    now = get(tree, key)
    if now == AUTO:
        return (), f"{key} is {AUTO}: what is faster is measured before the first step already"
    if key == CALL_KEY:
        return _list_longer_calls(tree, now)
    return ((True,), "") if now is False else ((), f"{key} is {str(now).lower()} already")


def _list_longer_calls(tree: Tree, now: int) -> tuple[Sequence[int], str]:
    """No more steps than the training has."""
    most = tree["train"].get("steps") or max(LONGER) * now
    values = tuple(dict.fromkeys(min(most, factor * now) for factor in LONGER if min(most, factor * now) > now))
    return values, "" if values else f"{CALL_KEY} is all of {STEPS} already"


def predict_gain(finding: Mapping[str, Any], key: str, now: Any, value: Any) -> float:
    """ms a step that a finding expects of a value: of what each call costs, calls of other lengths save other shares.

    >>> predict_gain({"ms": 1.0, "gain_ms": 0.9}, "train.steps_per_call", 1, 4)
    0.75
    """
    gain = float(finding["gain_ms"])
    return gain if key != CALL_KEY else min(gain, float(finding["ms"]) * (1 - float(now / value)))
