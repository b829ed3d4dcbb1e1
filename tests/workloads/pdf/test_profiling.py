"""`tfperf profile CARD`: steps recorded as a fit takes them."""

import json

import h5py
import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner

from tests.make_pack import make_card
from tfperf.cli import main

pytestmark = pytest.mark.usefixtures("blank_pictures")

SMALL = ["--set", "engine.form=shared", "--set", "engine.xla=false", "--set", "train.steps_per_call=5"]


@pytest.mark.parametrize("xla", [pytest.param("true", marks=pytest.mark.slow), "false"])
def test_a_cards_steps_are_recorded_and_told(tmp_path, xla):
    card = make_card(tmp_path)
    out = tmp_path / "out"
    result = CliRunner().invoke(
        main,
        ["profile", str(card), "--logdir", str(tmp_path / "logs"), "--repeat", "1", "--steps", "12", "--skip", "20",
         "-o", str(out), "--set", f"engine.xla={xla}", "--set", "engine.form=shared",
         "--set", "train.steps_per_call=4"],
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "6 calls of 2 steps" in result.output
    record = json.loads((out / "report.json").read_text())
    assert record["steps"] == 12 and record["calls"] == 6 and record["gap_ms"] > 0 and record["program"] == "engine"
    assert min(record["phases"][phase] for phase in ("forward", "backward", "update", "validation")) > 0
    assert record["unattributed_share"] < 0.5  # the losses after a call weigh as much as its steps of microseconds


def test_a_training_that_is_too_short_is_refused(tmp_path):
    card = make_card(tmp_path)
    logs = tmp_path / "logs"
    result = CliRunner().invoke(
        main, ["profile", str(card), "--repeat", "1", "--steps", "100000", "--logdir", str(logs)]
    )
    assert result.exit_code == 2 and "are to be recorded" in result.output + result.stderr
    assert not logs.exists()


@pytest.mark.slow
def test_repeated_captures_of_a_card_are_one_profile(tmp_path):
    card, logs = make_card(tmp_path), tmp_path / "logs"
    result = CliRunner().invoke(
        main, ["profile", str(card), "--logdir", str(logs), "--steps", "6", "--skip", "0", "--repeat", "2", *SMALL]
    )
    assert result.exit_code == 0, result.output
    assert len(list(logs.rglob("*.xplane.pb"))) == 2
    assert json.loads((logs / "report.json").read_text())["captures"] == 2


def test_the_naive_form_shows_its_validation_between_steps(tmp_path):
    card, logs = make_card(tmp_path, replicas=2), tmp_path / "logs"
    result = CliRunner().invoke(
        main,
        [
            "profile",
            str(card),
            "--naive",
            "--repeat",
            "1",
            "--logdir",
            str(logs),
            "--steps",
            "5",
            "--skip",
            "3",
            *SMALL,
        ],
    )
    assert result.exit_code == 0, result.output
    report = json.loads((logs / "report.json").read_text())
    assert report["program"] == "keras" and report["steps"] == report["calls"] == 5
    assert {"validation", "epoch", "dispatch"} <= {
        one["cause"] for one in report["account"]["charges"] if one["ms"] > 0
    }
    assert report["unattributed_share"] < 0.1


def test_a_fit_records_the_window_of_its_card_and_changes_no_result(tmp_path):
    window = ["--set", "profile={steps: 12, skip: 8}"]
    runs = tmp_path / "plain", tmp_path / "recorded"
    card = make_card(tmp_path, replicas=2, steps=60)
    for run, more in zip(runs, ([], window), strict=True):
        result = CliRunner().invoke(main, ["fit", str(card), "-o", str(run), *SMALL, *more])
        assert result.exit_code == 0, result.output
    assert "6 calls of 2 steps are recorded" in result.output + result.stderr
    with h5py.File(runs[0] / "results.h5") as a, h5py.File(runs[1] / "results.h5") as b:
        for name in a["weights"]:
            np.testing.assert_array_equal(a["weights"][name], b["weights"][name])
    read = CliRunner().invoke(main, ["profile", str(runs[1]), "-o", str(tmp_path / "out")])
    assert read.exit_code == 0, read.output
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["steps"] == 12 and report["calls"] == 6 and report["program"] == "engine"
    again = CliRunner().invoke(main, ["fit", str(card), "-o", str(runs[1]), "--resume", *SMALL])
    assert again.exit_code == 0, "the window is no part of what a run is"


@pytest.mark.slow
def test_a_fit_too_short_for_its_window_says_so(tmp_path):
    card = make_card(tmp_path, replicas=1, steps=20)
    result = CliRunner().invoke(
        main, ["fit", str(card), "-o", str(tmp_path / "run"), *SMALL, "--set", "profile={steps: 1000}"]
    )
    assert result.exit_code == 0 and "warning: profile: the training ended before" in result.output + result.stderr


def test_a_fit_goes_on_when_its_profile_cannot_be_written(tmp_path, monkeypatch):
    def stop(save=True):
        raise tf.errors.ResourceExhaustedError(None, None, "No space left on device")

    real = tf.profiler.experimental.stop
    monkeypatch.setattr(tf.profiler.experimental, "stop", stop)
    try:
        result = CliRunner().invoke(
            main,
            ["fit", str(make_card(tmp_path, replicas=1, steps=60)), "-o", str(tmp_path / "run"), *SMALL, "--set",
             "profile={steps: 12, skip: 8}"],
        )  # fmt: skip
    finally:
        real(save=False)
    assert result.exit_code == 0 and "warning: profile:" in result.output + result.stderr
    assert (tmp_path / "run" / "results.h5").exists()
