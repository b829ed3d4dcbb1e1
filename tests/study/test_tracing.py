"""How many steps of a trial are traced, and what is told of them."""

from types import SimpleNamespace

import pytest

from tfperf.study import tracing


def window(columns, alike, devices=2, steps=20, per_call=10):
    mine = SimpleNamespace(mine=[None] * devices)
    return SimpleNamespace(
        columns=columns, alike=alike, steps=steps, per_call=per_call, calls=steps // per_call,
        engine=SimpleNamespace(devices=mine),
    )  # fmt: skip


COLUMNS = tracing.EVENTS / tracing.EVENTS_A_COLUMN / 2  # of a pass on two devices that is as long as a trace may be


@pytest.mark.parametrize(
    ("columns", "alike", "want"),
    [
        (COLUMNS / 10, False, (tracing.MOST, 2, 10)), (COLUMNS / 2, True, (2, 2, 10)), (COLUMNS, True, (1, 2, 10)),
        (10 * COLUMNS, False, (1, 2, 10)),  # steps differ: all of them or none
        (10 * COLUMNS, True, (1, 1, 2)), (1000 * COLUMNS, True, (1, 1, 1)), (1.5 * COLUMNS, True, (1, 1, 10)),
    ],
)  # fmt: skip
def test_traced_passes_are_whole_unless_their_steps_are_alike_and_too_many(columns, alike, want):
    assert tracing.plan_passes(window(columns, alike), 1) == want


def test_a_trace_is_beside_passes_that_are_only_timed(monkeypatch, tmp_path):
    taken = []

    class Fake:
        def __init__(self, folder, steps, skip, **options):
            self.seconds, self.options = [], (steps, skip, options)
            taken.append(self)

        def step(self, number):
            recorded = 4 <= number < 10  # two calls of a pass, two passes beside on either side
            self.seconds.append(0.3 if recorded else 0.2)
            return Nothing()

    class Nothing:
        def __enter__(self):
            return None

        def __exit__(self, *error):
            return None

    told = window(COLUMNS / 10, False)
    told.call, told.run = taken.append, None
    monkeypatch.setattr(tracing, "Capture", Fake)
    monkeypatch.setattr(tracing, "graph_of", lambda run: "graph")
    monkeypatch.setattr(tracing, "break_down", lambda folder, graph, devices: {"graph": graph})
    found = tracing.look_into(told, tmp_path, 25.0, 1)
    assert taken[0].options == (6, 4, {"host_level": 3, "turns": 10, "optimizers": ("optimizer",)})
    assert taken[1:] == [10] * 14
    assert found == pytest.approx({
        "graph": "graph", "traced_ms": 30.0, "beside_ms": 20.0, "timed_ms": 25.0, "slower": 1.5, "agrees": 1.2
    })  # fmt: skip
