"""What a candidate takes: its steps, and each call beside them."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tfperf.train import choosing
from tfperf.train.forms import PlainForm


@dataclass
class Clock:
    """Seconds that only a loop's steps move."""

    now: float = 0.0

    def perf_counter(self) -> float:
        return self.now


@dataclass
class SlowLoop:
    """A loop that takes so many seconds a call, and so many a step."""

    clock: Clock
    call: float
    each: float
    step: int = 0

    def snapshot(self) -> dict[str, Any]:
        return {"step": self.step}

    def restore(self, state: dict[str, Any]) -> None:
        self.step = state["step"]

    def run(self, steps: int, xla: bool) -> None:
        self.clock.now += self.call + steps * self.each
        self.step += steps


def test_calls_are_measured_apart_from_steps(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(choosing, "time", SimpleNamespace(perf_counter=clock.perf_counter))
    monkeypatch.setattr(choosing, "run_parallel", lambda calls: [call() for call in calls])
    loop = SlowLoop(clock, call=0.050, each=0.0001)
    found = choosing.measure_candidate(cast(Any, loop), True, PlainForm())
    assert found.ms_per_step == pytest.approx(0.1, rel=0.6)  # a long call's share of 50 ms is in it
    assert found.call_ms == pytest.approx(50, rel=0.01) and loop.step == 0
