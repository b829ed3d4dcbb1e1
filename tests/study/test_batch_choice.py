"""A batch that a memory study decides: kept before the first step, and for a resumed run."""

import json
from pathlib import Path

import keras
import numpy as np
import pytest
import yaml

import tfperf
from tests.workloads.keras.running import end_fit, fit, run, write_card
from tfperf.errors import CardError, TrainingError
from tfperf.runcard.dump import to_json_tree
from tfperf.runcard.keys import get
from tfperf.study.batch_choice import decide_batch
from tfperf.workloads.cards import load_checked_card
from tfperf.workloads.keras.training import KerasTraining
from tfperf.workloads.options import Options

pytestmark = pytest.mark.usefixtures("brief_fits")

AUTO = {"batch": "auto", "validation": 0.2}
ROOM = {"budget": 2**20, "margin": 0.05, "device": "cpu-arena"}


@pytest.fixture
def studied(monkeypatch):
    """Folders of studies that were asked for; each finds 24 samples."""
    asked = []

    def study(card, folder, show):
        asked.append(folder)
        return {"room": ROOM, "modes": {"train": {"largest": {"batch": 24, "passes": 3}}}}

    monkeypatch.setattr("tfperf.study.memory.run_memory_study", study)
    return asked


def test_it_is_decided_before_the_first_step_and_kept(tmp_path, studied, monkeypatch):
    card, seen, real = write_card(tmp_path, data=AUTO), [], KerasTraining.call

    def call(self, steps):
        seen.append(json.loads((tmp_path / "run" / "run.json").read_text())["decided"])
        return real(self, steps)

    monkeypatch.setattr(KerasTraining, "call", call)
    report = fit(card, tmp_path / "run")
    assert report["batch"] == 24 and studied == [tmp_path / "run_memory"]
    assert seen[0] == {"data.batch": {"batch": 24, "passes": 3, "budget_bytes": 2**20, "margin": 0.05,
                                      "device": "cpu-arena", "study": "run_memory"}}  # fmt: skip
    assert yaml.safe_load((tmp_path / "run" / "card.yaml").read_text())["data"]["batch"] == 24


@pytest.mark.slow
def test_a_resumed_run_has_the_batch_that_it_began_with(tmp_path, studied, monkeypatch):
    card = write_card(tmp_path, data=AUTO)
    end_fit(card, tmp_path / "run", monkeypatch, 4)
    report = fit(card, tmp_path / "run", "--resume")
    assert report["resumed_from_steps"][0] > 0 and report["batch"] == 24 and len(studied) == 1, "at its start alone"


def test_more_than_there_are_samples_is_all_of_them(tmp_path, studied):
    report = fit(write_card(tmp_path, data={**AUTO, "arguments": {"count": 20}}), tmp_path / "run")
    assert report["batch"] == 16


def test_verbs_that_decide_nothing_refuse_it(tmp_path, studied):
    card = write_card(tmp_path, data=AUTO)
    assert "auto: the largest that a memory study verifies" in run("check", card)
    assert "data.batch: got auto" in run("profile", card, "--logdir", tmp_path / "log", code=2)
    assert "--resume" in run("fit", card, "-o", tmp_path / "run", "--resume", code=2) and not studied


def test_force_begins_the_study_again_and_leaves_what_is_not_its_own(tmp_path, studied):
    card, beside = load_checked_card(write_card(tmp_path, data=AUTO), ()), tmp_path / "run_memory"
    beside.mkdir()
    for name in ("memory.json", "mine.txt"):
        (beside / name).write_text("{}")
    decide_batch(card, tmp_path / "run", Options(force=True))
    assert [one.name for one in beside.iterdir()] == ["mine.txt"] and studied == [beside]


def test_what_only_this_process_has_is_refused(studied):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    with pytest.raises(CardError, match="batch: got auto"):
        tfperf.fit(model, (np.ones((8, 2)), np.ones((8, 1))), epochs=1, batch="auto")
    assert not studied


def test_a_study_that_fails_leaves_no_run(tmp_path, monkeypatch):
    def study(card, folder, show):
        raise TrainingError("train: batch 1 fails")

    monkeypatch.setattr("tfperf.study.memory.run_memory_study", study)
    assert "batch 1 fails" in run("fit", write_card(tmp_path, data=AUTO), "-o", tmp_path / "run", code=2)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_real_study_decides(tmp_path):
    card = write_card(tmp_path, data=AUTO, memory={"budget": 0.03125, "device": "cpu-arena"})
    report = fit(card, tmp_path / "run")
    study = json.loads((Path(f"{tmp_path}/run_memory") / "memory.json").read_text())
    assert study["modes"]["train"]["largest"]["passes"] == 3 and report["batch"] == 56  # all that train


def test_a_translation_has_the_batch_that_a_study_decides(tmp_path, studied):
    card = tmp_path / "card.yaml"
    card.write_text(
        "workload: translate\ndata: {fixed_length: 6, pairs: 64, vocabulary: 300, batch: auto}\n"
        "model: {units: 8, layers: 1}\ntrain: {steps: 20}\n"
    )
    loaded = load_checked_card(card, ())
    settled = decide_batch(loaded, tmp_path / "run", Options())
    assert get(to_json_tree(settled.card), "data.batch") == settled.decided["data.batch"]["batch"] == 24
    assert "data.batch: got auto" in run(
        "sweep", card, "-o", tmp_path / "sweep", "--set", "sweep.keys={seed: [1, 2]}", code=2
    )
