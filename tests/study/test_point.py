"""One trial of a sweep."""

import io
import json
import sys
import time
from types import SimpleNamespace

import pytest

from tests.make_pack import make_card
from tfperf.errors import CardError
from tfperf.measure.timing import Traces
from tfperf.runcard.dump import as_tree
from tfperf.study import point
from tfperf.workloads.pdf.cards import load_card
from tfperf.workloads.pdf.runners import calls, stepped
from tfperf.workloads.pdf.workload import Pdf


class Ticks:
    """A form whose steps take 2 ms, the first five of them 20 ms."""

    def __init__(self, per_call):
        self.per_call, self.taken = per_call, 0

    def take(self, number):
        steps = number * self.per_call
        slow = max(0, min(5 - self.taken, steps))
        self.taken += steps
        return steps, 1e-3 * (2 * steps + 18 * slow)

    def warm_up(self):
        self.warm = True


@pytest.mark.parametrize(
    ("per_call", "warmup", "steps", "samples", "taken"),
    [(10, 10, 50, 5, 60), (10, 5, 51, 6, 70), (200, 10, 50, 5, 1200), (1, 5, 3, 5, 10), (1, 7, 30, 30, 37)],
)
def test_steps_are_timed_in_whole_calls_after_those_of_the_warm_up(per_call, warmup, steps, samples, taken):
    form = Ticks(per_call)
    # no time was spent on starting: so many steps as are asked for, and no more
    found = stepped(lambda: form, warmup, steps, 60.0, time.perf_counter() + 60)
    assert found["samples_ms"] == pytest.approx([2.0] * samples) and found["steps"] == samples * per_call
    assert form.taken == taken and form.warm and found["timing"]["ended"] == "starting" and not found["left_out"]


def test_without_a_warm_up_the_first_steps_count():
    found = stepped(lambda: Ticks(1), 0, 10, 60.0, time.perf_counter() + 60)
    assert found["samples_ms"] == pytest.approx([20.0] * 5 + [2.0] * 5)


def test_a_call_in_which_something_is_traced_is_known():
    import tensorflow as tf

    double = tf.function(lambda x: 2 * x)

    class Traced:
        shapes = iter((3, 3, 4, 4))

        def take(self, number):
            double(tf.ones([next(self.shapes)]))
            return 1, 1e-3

    take = calls(Traced(), Traces())
    assert [take().clean for _ in range(4)] == [False, True, False, True]


def request(folder):
    card = load_card(make_card(folder))
    return {
        "card": json.loads(json.dumps(as_tree(card))),
        "warmup": 1,
        "steps": 2,
        "first": True,
        "folder": str(folder / "own"),
    }


@pytest.fixture
def measure(monkeypatch):
    """Stands for the measurement; a list of what it was asked, and what it does then."""
    asked = []

    def measure(card, wanted):
        asked.append((card, wanted))
        return asked_to(wanted) if (asked_to := fake.does) else {"ms_per_step": 1}

    fake = SimpleNamespace(measure=measure, asked=asked, does=None)
    monkeypatch.setattr(Pdf, "measure", lambda self, card, wanted: measure(card, wanted))
    return fake


def test_a_trial_has_a_folder_without_what_a_killed_one_left(tmp_path, measure):
    wanted = request(tmp_path)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "half").write_text("")
    record = point.carry_out(wanted)
    assert record["ms_per_step"] == 1 and record["machine"]["cores"] >= 1 and not (tmp_path / "own").exists()
    ((card, asked),) = measure.asked
    assert card == load_card(tmp_path / "card.yaml") and asked == {**wanted, "began": asked["began"]}
    measure.does = lambda wanted: {"ms_per_step": (tmp_path / "own" / "profile").write_text("x")}
    point.carry_out(wanted)
    assert (tmp_path / "own" / "profile").read_text() == "x"


def test_what_cannot_be_measured_comes_back_as_a_refusal(tmp_path, measure, monkeypatch, capsys):
    def refuse(wanted):
        raise CardError("not that", "nor that")

    measure.does = refuse
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(request(tmp_path)) + "\n"))
    point.main()
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line) == {"refused": ["not that", "nor that"]}
