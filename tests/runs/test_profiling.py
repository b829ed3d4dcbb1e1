"""`tfperf profile CARD`: steps recorded as a fit takes them."""

import json

import pytest
from click.testing import CliRunner

from tests.make_pack import make_card
from tfperf.cli import main


@pytest.mark.parametrize("xla", ["true", "false"])
def test_a_cards_steps_are_recorded_and_told(tmp_path, xla):
    card = make_card(tmp_path)
    out = tmp_path / "out"
    result = CliRunner().invoke(
        main,
        ["profile", str(card), "--logdir", str(tmp_path / "logs"), "--steps", "12", "--skip", "20", "-o", str(out),
         "--set", f"engine.xla={xla}", "--set", "engine.form=shared", "--set", "train.steps_per_call=4"],
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "3 calls of 4 steps" in result.output
    record = json.loads((out / "report.json").read_text())
    assert record["steps"] == 12 and record["calls"] == 3 and record["gap_ms"] > 0
    assert min(record["phases"][phase] for phase in ("forward", "backward", "update", "validation")) > 0
    assert record["unattributed_share"] < 0.5  # the losses after a call weigh as much as its steps of microseconds


def test_a_training_that_is_too_short_is_refused(tmp_path):
    card = make_card(tmp_path)
    result = CliRunner().invoke(main, ["profile", str(card), "--steps", "100000"])
    assert result.exit_code == 2 and "are to be recorded" in result.output + result.stderr
