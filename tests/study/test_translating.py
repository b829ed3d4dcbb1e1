"""A real trial of a translation, as `tfperf sweep` makes it."""

import json

import pytest
from click.testing import CliRunner

from tfperf.cli import main
from tfperf.place.devices import HOST, Devices
from tfperf.place.proof import Kept
from tfperf.place.towers import Towers
from tfperf.runcard.loader import load_any
from tfperf.study import translating
from tfperf.study.rows import rows

CARD = """\
workload: translate
title: tiny
data: {fixed_length: 6, vocabulary: 300, pairs: 200, batch: 4, shuffle: false}
model: {units: 16, layers: 1}
train: {steps: 100, steps_per_call: 5}
sweep:
  keys: {placement.preset: [Exp3], placement.devices: [2]}
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
    (row,) = rows(sweep[0])
    record = row.record
    assert record["proof"]["places"]["update"] == {"CPU:0": 2, "CPU:1": 1, "CPU:2": 6}
    assert record["memory"]["kept_bytes"].keys() == {"host", "device:0", "device:1"}
    phases = record["phases"]
    assert phases["devices"].keys() == {"device:0", "device:1"}
    assert all(pass_ms > 0 for one in phases["devices"].values() for pass_ms in one.values())
    assert phases["unattributed"] < 0.02
    assert phases["together"]["computation"]["busy_ms"] < phases["step_ms"]
    # 4 pairs on each of 2 devices, 6 pieces on either side, 20 steps
    assert (record["words"], record["steps"], len(record["samples_ms"])) == (4 * 2 * 12 * 20, 20, 4)
    assert 0 < record["bound"]["bound_ms"] < record["ms_per_step"]["median"]


def test_the_report_has_the_studys_table(sweep):
    folder, printed = sweep
    assert "nothing is recommended" in printed and "Exp3" in printed
    (row,) = json.loads((folder / "placements.json").read_text())
    assert (row["placement"], row["devices"], row["scaling"]) == ("Exp3", 2, None)
    assert "Where everything ran" in (folder / "report.html").read_text()


def test_a_placement_that_did_not_take_place_is_the_error_of_its_row(tmp_path, monkeypatch):
    (tmp_path / "card.yaml").write_text(CARD)
    card = load_any(tmp_path / "card.yaml")
    astray = Kept("variable a", HOST, HOST.replace("CPU:0", "CPU:7"), 8)
    monkeypatch.setattr(translating, "make_devices", lambda _: Devices(HOST, (HOST,), logical=True))
    monkeypatch.setattr(Towers, "kept", lambda self: [astray])
    asked = {"warmup": 5, "steps": 5, "folder": str(tmp_path)}
    assert translating.measure(card, {**asked, "first": True})["error"] == "variable a: is on CPU:0; must be CPU:7"
    assert "error" not in translating.measure(card, {**asked, "first": False})
