"""How many steps of a trial are traced, and what is told of them."""

from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from tfperf.place import tracing


def window(events, alike, devices=2, steps=20, per_call=10):
    mine = SimpleNamespace(mine=[(k, f"device {k}") for k in range(devices)])
    return SimpleNamespace(
        events=events, lengths=[4.0] * devices, alike=alike, steps=steps, per_call=per_call,
        calls=steps // per_call, engine=SimpleNamespace(devices=mine),
    )  # fmt: skip


NAMES = ("graph", "devices", "skip", "lengths")  # of what is broken down
EVENTS = tracing.EVENTS / 2  # of a pass on two devices that is as long as a trace may be


@pytest.mark.parametrize(
    ("events", "alike", "want"),
    [
        (EVENTS / 10, False, (tracing.MOST, 2, 10)), (EVENTS / 3, True, (2, 2, 10)), (EVENTS / 2, True, (1, 2, 10)),
        (10 * EVENTS, False, (1, 2, 10)),  # steps differ: all of them or none
        (5 * EVENTS, True, (1, 1, 2)), (1000 * EVENTS, True, (1, 1, 1)), (0.75 * EVENTS, True, (1, 1, 10)),
    ],
)  # fmt: skip
def test_traced_passes_are_whole_unless_their_steps_are_alike_and_too_many(events, alike, want):
    assert tracing.plan_passes(window(events, alike)) == want


def test_a_trace_is_beside_passes_that_are_only_timed(monkeypatch, tmp_path):
    said: list = []
    clock = [0.0]

    class Fake:
        def __init__(self, folder, steps, skip, **options):
            said.append((steps, skip, options))

        @contextmanager
        def step(self, number):
            said.append(number)
            clock[0] += 0.1 if said.count(0) > 1 else 9.0  # the profiler's first pass is slow
            yield

        def stop(self):
            said.append("stopped")

    def call(count):
        said.append(f"{count} steps")
        clock[0] += 0.2

    told = window(EVENTS / 10, False)
    told.call, told.run = call, None
    monkeypatch.setattr(tracing, "Capture", Fake)
    monkeypatch.setattr("time.perf_counter", lambda: clock[0])
    monkeypatch.setattr("time.process_time", lambda: 2 * clock[0])
    monkeypatch.setattr(tracing, "remake_kernels", lambda: said.append("new kernels"))
    monkeypatch.setattr(tracing, "record_largest_graph", lambda run: "graph")
    monkeypatch.setattr(tracing, "break_down", lambda folder, *one: dict(zip(NAMES, one, strict=True)))
    found = tracing.trace_steps(told, tmp_path, 25.0)
    options = 9, 0, {"host_level": 2, "turns": 10, "optimizers": ("optimizer",)}
    traced = [0, "10 steps", 1, "10 steps"] * 4
    beside = ["10 steps"] * 4
    assert said == [*beside, "new kernels", "1 steps", options, *traced, "stopped", *beside]
    assert (found.pop("graph"), found.pop("lengths"), found.pop("devices")) == ("graph", [4.0] * 2, told.engine.devices)
    assert found == pytest.approx(
        {"skip": 2, "traced_ms": 30.0, "beside_ms": 20.0, "timed_ms": 25.0, "slower": 1.5, "agrees": 1.2}
    )
