"""A real trial of a translation, as `tfperf sweep` makes it."""

import json
from contextlib import contextmanager

import pytest
from click.testing import CliRunner

from tfperf.cli import main
from tfperf.errors import UnprovedError
from tfperf.place.devices import HOST, Devices
from tfperf.place.towers import TowerEngine
from tfperf.place.variable_copies import VariableCopy
from tfperf.report.questions import BUCKETING, FORWARD, SLOWER
from tfperf.study.finished_trials import read_finished_trials
from tfperf.workloads.translate import trial
from tfperf.workloads.translate.cards import load_card
from tfperf.workloads.translate.forward import ROUNDS

CARD = """\
workload: translate
title: tiny
data: {fixed_length: 6, vocabulary: 300, pairs: 200, batch: 4, shuffle: false, scaling: strong, scaling_devices: 4}
model: {units: 16, layers: 1}
train: {steps: 100, steps_per_call: 5}
sweep:
  keys: {placement.preset: [Exp3], placement.devices: [2]}
  seconds: 1
  repeats: 1
  warmup: 5
  steps: 20
"""


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "card.yaml").write_text(CARD)
    result = CliRunner().invoke(main, ["sweep", str(folder / "card.yaml"), "-o", str(folder / "out"), "-q"])
    assert result.exit_code == 0, result.output
    return folder / "out", result.output


def test_the_trial_proves_the_placement_and_splits_the_step(sweep):
    (row,) = read_finished_trials(sweep[0])
    record = row.record
    assert record["proof"]["places"]["update"] == {"CPU:0": 2, "CPU:1": 1, "CPU:2": 6}
    assert record["memory"]["kept_bytes"].keys() == {"host", "device:0", "device:1"}
    phases = record["phases"]
    assert phases["devices"].keys() == {"device:0", "device:1", "host"}
    for name, one in phases["devices"].items():
        assert name == "host" or all(one["busy"][phase] > 0 for phase in ("forward", "backward", "transfer", "update"))
        whole = sum(one["busy"].values()) - one["overlap"] + one["waiting"]
        assert whole == pytest.approx(phases["step_ms"], rel=1e-6)
    assert phases["unattributed"] < 0.1
    assert sum(phases["course"].values()) == pytest.approx(phases["step_ms"], rel=1e-6)
    chain = phases["critical"]
    assert 0 < chain["loops_ms"] < chain["ms"] < phases["step_ms"]
    assert {"forward", "backward", "merge", "update"} <= chain["phases"].keys()
    # 4 x 4 pairs on 2 devices, 6 pieces on either side padded to 8 and 10, 20 steps, which are taken again and again
    work = record["work"]
    assert (work["words"], work["steps"], work["pairs"], work["batch"]) == (16 * 12 * 20, 20, 16, 8)
    assert work["columns"] == 18 and work["scaling"] == "strong"
    assert record["steps"] == 20 * len(record["samples_ms"]) and record["left_out"] == 0
    assert phases["steps"] % 20 == 0, "the traced steps are the timed ones"
    assert phases["timed_ms"] == record["ms_per_step"]["median"] and phases["agrees"] > 0
    assert record["words_per_second"] == pytest.approx(16 * 12 * 1e3 / record["ms_per_step"]["median"])
    assert 0 < record["bound"]["bound_ms"] < record["ms_per_step"]["median"]


def test_the_trial_times_forward_passes_and_tells_when_each_device_ends_its_own(sweep):
    (row,) = read_finished_trials(sweep[0])
    forward, last = row.record["forward"], row.record["phases"]["last"]
    assert (forward["devices"], forward["batch"], forward["columns"]) == (2, 8, 18)
    for times in (forward["ms"], forward["processor_ms"]):
        assert times.keys() == {"alone", "in_turn", "at_once"}
        assert all(len(one) == ROUNDS and min(one) > 0 for one in times.values())
    assert sorted(forward["ms"]["in_turn"])[ROUNDS // 2] > sorted(forward["ms"]["alone"])[0]
    assert last.keys() == {"device:0", "device:1"} and row.record["processor_ms_per_step"] > 0
    assert sum(one["ends"] for one in last.values()) == pytest.approx(0, abs=1e-9)
    assert sum(one["last"] for one in last.values()) == 1
    for one in last.values():
        assert one["steps"] == row.record["phases"]["steps"] and one["length"] == 0
        assert 0 < one["takes"] < row.record["phases"]["step_ms"]


def test_the_report_answers_three_questions(sweep):
    folder, printed = sweep
    said, page = " ".join(printed.split()), (folder / "report.html").read_text()
    assert "1 number of devices and size of batches was measured in one trial, which tells nothing of chance" in said
    assert "all at once / alone" in page
    assert all(question in said and question in page for question in (FORWARD, SLOWER, BUCKETING))


def test_the_report_has_the_studys_table(sweep):
    folder, printed = sweep
    assert "nothing is recommended" in printed and "Exp3" in printed
    (row,) = json.loads((folder / "placements.json").read_text())
    assert (row["placement"], row["devices"], row["scaling"], row["proved"]) == ("Exp3", 2, "strong", True)
    assert "Strong scaling: the same 16 examples a step" in " ".join(printed.split())
    page = (folder / "report.html").read_text()
    assert "Where everything ran" in page and "A traced step took" in page and "The longest chain" in page


@pytest.mark.slow
def test_a_placement_that_did_not_take_place_is_the_error_of_its_row(tmp_path, monkeypatch):
    (tmp_path / "card.yaml").write_text(CARD)
    card = load_card(tmp_path / "card.yaml")
    astray = VariableCopy("variable a", HOST, HOST.replace("CPU:0", "CPU:7"), 8)
    monkeypatch.setattr(trial, "make_devices", lambda _: Devices(HOST, (HOST,), logical=True))
    monkeypatch.setattr(TowerEngine, "list_copies", lambda self: [astray])
    asked = {"warmup": 5, "steps": 5, "seconds": 0.01, "folder": str(tmp_path)}
    faults = trial.measure_trial(card, {**asked, "first": True})["unproved"]
    assert faults[0] == "variable a: is on CPU:0; must be CPU:7"
    assert "unproved" not in trial.measure_trial(card, {**asked, "first": False})


@pytest.mark.parametrize("own", [[], ["mine"]])
def test_what_any_worker_finds_against_a_placement_disproves_it(own, tmp_path, monkeypatch):
    @contextmanager
    def workers(*_):
        yield None
        raise UnprovedError(["worker 1: theirs"])

    monkeypatch.setattr(trial, "start_workers", workers)
    record = {"a": 1} | ({"unproved": own} if own else {})
    monkeypatch.setattr(trial, "_measure_worker", lambda *_: record)
    (tmp_path / "card.yaml").write_text(CARD)
    found = trial.measure_trial(load_card(tmp_path / "card.yaml"), {"began": 0.0})
    assert found == {"a": 1, "unproved": [*own, "worker 1: theirs"]}
