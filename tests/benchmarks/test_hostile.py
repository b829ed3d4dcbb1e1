"""The table of hostile files: each above the harmless card, the worst of all at the end."""

import pytest

from benchmarks import hostile
from benchmarks.registry import REGISTRY
from tfperf.errors import UserError

MEASURE = REGISTRY["hostile"].measure
COSTS = {
    "check card.yaml": {"seconds": 2.0, "cpu": 1.0, "mb": 80.0, "exit": 0, "said": "ok"},
    "slow": {"seconds": 9.0, "cpu": 3.0, "mb": 90.0, "exit": 2, "said": "error"},
    "large": {"seconds": 2.5, "cpu": 0.5, "mb": 500.0, "exit": 2, "said": "error"},
}


@pytest.fixture(autouse=True)
def bombs(monkeypatch):
    monkeypatch.setattr(hostile, "BOMBS", {f"{name}: a": lambda _, name=name: [name] for name in ("slow", "large")})
    monkeypatch.setattr(hostile, "write_inputs", lambda folder: folder.mkdir())
    monkeypatch.setattr(hostile, "measure_command", lambda _, arguments: dict(COSTS[" ".join(arguments)]))


def test_each_is_told_above_the_harmless_card_and_the_worst_last():
    harmless, slow, large, worst = MEASURE()
    assert (harmless["seconds"], harmless["mb"], harmless["exit"]) == (2.0, 80.0, 0)
    assert (slow["case"], slow["seconds"], slow["cpu"], slow["mb"]) == ("slow: a", 7.0, 2.0, 10.0)
    assert (large["seconds"], large["cpu"], large["mb"]) == (0.5, 0.0, 420.0)
    assert worst == {"case": "the worst", "seconds": 7.0, "cpu": 2.0, "mb": 420.0, "exit": "2", "said": ""}


def test_parts_of_the_sweep_are_chosen_by_the_beginnings_of_their_names():
    assert [row["case"] for row in MEASURE(only="large,nothing")][1:-1] == ["large: a"]
    with pytest.raises(UserError, match="beginnings of names"):
        next(MEASURE(only="nothing"))
