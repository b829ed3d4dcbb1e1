"""One trial of a sweep."""

import io
import json
import sys
from types import SimpleNamespace

import pytest

from tests.make_pack import make_card
from tfperf.errors import CardError
from tfperf.measure import parent_watch
from tfperf.runcard.dump import to_tree
from tfperf.study import point
from tfperf.workloads.pdf.cards import load_card
from tfperf.workloads.pdf.workload import Pdf


def request(folder):
    card = load_card(make_card(folder))
    return {
        "card": json.loads(json.dumps(to_tree(card))),
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
    monkeypatch.setattr(Pdf, "measure_trial", lambda self, card, wanted: measure(card, wanted))
    return fake


def test_a_trial_has_a_folder_without_what_a_killed_one_left(tmp_path, measure):
    wanted = request(tmp_path)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "half").write_text("")
    record = point.measure_point(wanted)
    assert record["ms_per_step"] == 1 and record["machine"]["cores"] >= 1 and not (tmp_path / "own").exists()
    ((card, asked),) = measure.asked
    assert card == load_card(tmp_path / "card.yaml") and asked == {**wanted, "began": asked["began"]}
    measure.does = lambda wanted: {"ms_per_step": (tmp_path / "own" / "profile").write_text("x")}
    point.measure_point(wanted)
    assert (tmp_path / "own" / "profile").read_text() == "x"


def test_what_cannot_be_measured_comes_back_as_a_refusal(tmp_path, measure, monkeypatch, capsys):
    def refuse(wanted):
        raise CardError("not that", "nor that")

    measure.does = refuse
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(request(tmp_path)) + "\n"))
    parent_watch.answer_request(point.measure_point)
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line) == {"refused": ["not that", "nor that"]}
