"""`tfperf sweep` as a user meets it, with real trials of the small card."""

import json

import pytest
from click.testing import CliRunner

from tests.study.sweeps import FAKE, sweep_card
from tfperf.cli import main
from tfperf.study import sweep as module
from tfperf.study.finished_trials import read_finished_trials


def call(*arguments):
    result = CliRunner().invoke(main, [str(a) for a in arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.mark.slow
def test_a_real_sweep_measures_the_engine(tmp_path):
    card = sweep_card(tmp_path, ["small"], replicas=[2], repeats=1)
    result = call(
        "sweep",
        card,
        "-o",
        tmp_path / "out",
        "-q",
        "--set",
        "sweep.steps=60",
        "--set",
        "sweep.warmup=10",
        "--set",
        "sweep.seconds=1",
    )
    assert result.exit_code == 0, result.output
    (row,) = read_finished_trials(tmp_path / "out")
    ms = row.record["ms_per_step"]
    assert 0 < ms["q1"] <= ms["median"] <= ms["q3"] and len(row.record["samples_ms"]) == row.record["samples"] >= 6
    assert row.record["steps"] == 10 * row.record["samples"] and row.record["steps_per_call"] == 10
    assert row.record["left_out"] == 0 and row.record["timing"]["starting_seconds"] > 0
    assert row.record["peak_rss_bytes"] > 1e8 and row.record["machine"]["cores"] >= 1
    assert list((tmp_path / "out" / "trials").iterdir()) == [], "folders without files are removed"
    assert "ms/step" in result.output and "n/a" in result.output, "one repeat has no interval"


@pytest.fixture
def fake(monkeypatch):
    defaults = module.run_sweep.__defaults__
    assert defaults is not None
    monkeypatch.setattr(module.run_sweep, "__defaults__", (*defaults[:-1], FAKE))


def test_failed_trials_are_listed_and_end_with_3(tmp_path, fake):
    card = sweep_card(tmp_path, ["die", "fine"], repeats=2)
    result = call("sweep", card, "-o", tmp_path / "out")
    assert result.exit_code == 3
    assert "failed: title=die replicas=1: its process ended with 1: ValueError: boom" in result.output
    assert "2 of 4 trials failed" in result.output and "[4/4] title=" in result.stderr
    assert call("sweep", card, "-o", tmp_path / "out", "-q").exit_code == 3
    report = json.loads((tmp_path / "out" / "sweep_report.json").read_text())
    assert report["failed"] == 2


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--set", "sweep.keys={engine.prec: [1]}"), "engine.prec: unknown key"),
        (("--set", "sweep=null"), "sweep: missing"),
        (("--on", "slrm"), "--on: got 'slrm'"),
        (("--set", "data.t0=fit"), "data.t0"),
    ],
)
def test_bad_input_ends_with_2(tmp_path, more, words):
    result = call("sweep", sweep_card(tmp_path), "-o", tmp_path / "out", *more)
    assert result.exit_code == 2 and words in result.output and not (tmp_path / "out").exists()
