"""Settings of a dataset that a search decides: kept before the first step, for resumed runs, and for later ones."""

import json
from typing import Any

import pytest
import yaml

from tests.workloads.keras.running import end_fit, fit, run, write_card
from tfperf.runcard.input_settings import InputSettings
from tfperf.study.input_apply import InputSearch
from tfperf.study.input_choice import decide_input
from tfperf.workloads.cards import load_checked_card
from tfperf.workloads.keras.card import KerasCard
from tfperf.workloads.keras.training import KerasTraining
from tfperf.workloads.options import Options

pytestmark = pytest.mark.usefixtures("brief_fits")

DATA = """
import tensorflow as tf


def load(threads=0):
    rows = tf.random.stateless_uniform((24, 6), (1, 2))
    data = tf.data.Dataset.from_tensor_slices((rows, rows[:, :1])).shuffle(24, seed=3)
    return data.map(lambda x, y: (2 * x, y), name="double").batch(8)
"""
FOUND: dict[str, Any] = {
    "settings": {"threads": 2, "parallel_calls": "auto", "prefetch": 3}, "changed": [], "ratio": None, "why": "",
    "arguments": {}, "offered": [],
}  # fmt: skip


@pytest.fixture
def searched(monkeypatch, tmp_path):
    """Trees of cards that a search was asked for."""
    asked = []

    def search(self, step_seconds=None):
        asked.append(self.tree)
        return FOUND

    monkeypatch.setattr(InputSearch, "run", search)
    monkeypatch.setenv("TFPERF_CACHE", str(tmp_path / "cache"))
    return asked


@pytest.fixture
def card(tmp_path):
    (tmp_path / "dataset.py").write_text(DATA)
    return write_card(tmp_path, data={"build": "dataset.py:load", "arguments": None, "input": "auto"})


def read_decided(folder):
    return json.loads((folder / "run.json").read_text())["decided"]["data.input"]


def test_it_is_decided_before_the_first_step_with_the_bits_of_a_run_without_it(tmp_path, card, searched, monkeypatch):
    seen, real = [], KerasTraining.call

    def call(self, steps):
        if not seen:
            seen.append(read_decided(tmp_path / "run"))
        return real(self, steps)

    monkeypatch.setattr(KerasTraining, "call", call)
    with_it = fit(card, tmp_path / "run")
    assert seen[0]["settings"] == FOUND["settings"] and seen[0]["remembered"] is False
    assert searched[0]["data"]["input"] is None and searched[0]["data"]["choices"] is None
    kept = yaml.safe_load((tmp_path / "run" / "card.yaml").read_text())["data"]["input"]
    assert {key: value for key, value in kept.items() if value is not None} == FOUND["settings"]
    monkeypatch.undo()
    plain = fit(write_card(tmp_path, data={"build": "dataset.py:load", "arguments": None}), tmp_path / "plain")
    assert plain["last"] == with_it["last"]
    names = ("run/model.keras", "plain/model.keras")
    one, other = ((tmp_path / name).read_bytes() for name in names)
    assert one == other


def test_a_second_run_remembers_and_other_code_or_a_damaged_entry_searches_again(tmp_path, card, searched):
    def decide():
        found = decide_input(load_checked_card(card, ()), tmp_path / "run", Options())
        assert isinstance(found.card, KerasCard) and found.card.data.input == InputSettings(**FOUND["settings"])
        return found.decided["data.input"]["remembered"]

    assert [decide(), decide()] == [False, True] and len(searched) == 1
    (entry,) = (tmp_path / "cache" / "inputs").iterdir()
    for text in ("{", '{"settings": {"threads": -1}, "changed": [], "ratio": null, "why": ""}', "[]"):
        entry.write_text(text)
        assert not decide()
    assert decide() and len(searched) == 4
    (tmp_path / "dataset.py").write_text(DATA.replace("2 * x", "3 * x"))
    assert not decide() and len(searched) == 5


def test_a_resumed_run_has_the_settings_that_it_began_with(tmp_path, card, searched, monkeypatch):
    end_fit(card, tmp_path / "run", monkeypatch, 4)
    before = read_decided(tmp_path / "run")
    report = fit(card, tmp_path / "run", "--resume")
    assert report["resumed_from_steps"][0] > 0 and report["choices"]["loop"] == "tfperf"
    assert read_decided(tmp_path / "run") == before and len(searched) == 1


def test_values_that_are_none_are_refused(tmp_path, card, searched):
    for text, fault in (("threads=0", "threads"), ("ordered=perhaps", "ordered"), ("order=true", "order")):
        said = run("check", card, "--set", f"data.input={{{text.replace('=', ': ')}}}", code=2)
        assert f"data.input.{fault}" in said
