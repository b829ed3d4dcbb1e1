"""Phases over devices, from timelines made by hand."""

from types import SimpleNamespace

import numpy as np
import pytest

from tfperf.place.devices import Devices
from tfperf.study import spans
from tfperf.trace.phases import PHASES
from tfperf.trace.timeline import Timeline

MS = 1_000_000


def timeline(lanes, operations, steps):
    """operations: (lane, phase, begin ms, end ms); steps: (begin ms, end ms)."""
    lane, phase, begin, end = zip(*operations, strict=True)
    begins, ends = (np.array(side, np.int64) * MS for side in zip(*steps, strict=True))
    return Timeline(
        tuple((name, "") for name in lanes), np.array(lane), np.array(begin) * MS, np.array(end) * MS,
        np.array([PHASES.index(name) for name in phase]), np.zeros(len(lane), np.intp), ("x",),
        SimpleNamespace(begin=begins, end=ends),
    )  # fmt: skip


@pytest.fixture
def found(monkeypatch):
    """Two devices, two steps of 100 ms; the second device is slower, and waits inside its backward pass."""
    operations = []
    for start in (0, 100):
        operations += [(1, p, start + a, start + b) for p, a, b in (("forward", 0, 10), ("backward", 10, 30))]
        operations += [(2, p, start + a, start + b) for p, a, b in (("forward", 5, 25), ("backward", 30, 40))]
        operations += [(2, "backward", start + 50, start + 60), (0, "merge", start + 60, start + 70)]
        operations += [(0, "update", start + 0, start + 1), (0, "update", start + 70, start + 80)]
    line = timeline(["CPU", "CPU tower_0", "CPU tower_1"], operations, [(0, 100), (100, 200)])
    result = SimpleNamespace(timeline=line, steps=np.array([100.0, 100.0]), period_ms=101.0, share=lambda unknown: 0.0)
    monkeypatch.setattr(spans, "attribute_path", lambda path: result)
    return spans.phases("anywhere", Devices("host", ("one", "two"), logical=True))


def test_passes_of_each_device(found):
    assert found["devices"] == {
        "device:0": {"forward": 10.0, "backward": 20.0}, "device:1": {"forward": 20.0, "backward": 20.0}
    }  # fmt: skip
    assert found["mean"] == {"forward": 15.0, "backward": 20.0}
    assert found["imbalance"] == pytest.approx(40 / 35)


def test_phases_over_all_devices_as_span_and_busy(found):
    together = found["together"]
    assert together["computation"]["span_ms"] == 60.0  # first forward start to last backward end
    assert together["computation"]["busy_ms"] == 50.0  # one of them runs: all but 40 to 50
    assert together["merge"] == {"span_ms": 10.0, "busy_ms": 10.0, "span_share": 0.1, "busy_share": 0.1}
    assert (together["update"]["span_ms"], together["update"]["busy_ms"]) == (80.0, 11.0)
    assert together["transfer"]["span_ms"] == 0.0


def test_gpus_are_known_by_their_own_lanes(monkeypatch):
    line = timeline(["CPU tower_0", "GPU:0"], [(0, "forward", 0, 50), (1, "forward", 10, 20)], [(0, 100)])
    result = SimpleNamespace(timeline=line, steps=np.array([100.0]), period_ms=100.0, share=lambda unknown: 0.0)
    monkeypatch.setattr(spans, "attribute_path", lambda path: result)
    found = spans.phases("anywhere", Devices("host", ("gpu",), logical=False))
    assert found["devices"]["device:0"]["forward"] == 10.0
    assert found["together"]["computation"]["busy_ms"] == 10.0
