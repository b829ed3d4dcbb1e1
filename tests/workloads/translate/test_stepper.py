"""Steps of a translation recorded from its card."""

import json

import pytest

from tests.workloads.translate.translations import carry_out, make_card


@pytest.mark.slow
def test_steps_of_a_card_are_recorded_and_explained(tmp_path):
    card, logs = make_card(tmp_path), tmp_path / "logs"
    window = ["--repeat", 1, "--steps", 24, "--skip", 4, "--logdir", logs]
    (code, said), (refused, why) = carry_out(
        ["profile", card, *window, "--set", "train.steps=60"], ["profile", card, *window, "--naive"]
    )
    assert code == 0 and "6 calls of 4 steps" in said, said
    phases = json.loads((logs / "report.json").read_text())["phases"]
    assert min(phases[name] for name in ("forward", "backward", "update")) > 0, phases
    assert refused == 2 and "--naive: workload translate has no other form of its training" in why
