"""Runs that are killed ten times, half of them in the middle of a write, end with the same bits as one left alone."""

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.workloads.keras.running import CALLBACKS, NETS, PICTURES, write_card

ROOT = Path(__file__).parents[3]
KINDS = {
    "augmentation in the model": (
        f"{PICTURES}:build_augmented", {"build": f"{PICTURES}:load_squares", "batch": 16, "validation": 0.2},
    ),
    "stateless seeds in a parallel map": (
        "build_linear", {"build": f"{NETS}:stream", "arguments": {"kind": "stateless_shuffled"}},
    ),
    "arrays and shuffling": ("build_mlp", {"batch": 16, "validation": 0.2}),
}  # fmt: skip
EPOCHS, KILLS = 60, 10


def start(*arguments, module="tfperf"):
    command = [sys.executable, "-m", module, *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def find_step(folder):
    return max((int(path.name.split("-")[1].split(".")[0]) for path in folder.glob("checkpoints/step-*")), default=0)


def kill_by_clock(fit, folder, rng):
    """After at least two more checkpoints, at any moment."""
    process, before = start(*fit), find_step(folder)
    while find_step(folder) < before + 8 and process.poll() is None:
        time.sleep(0.02)
    time.sleep(rng.uniform(0, 0.2))
    process.send_signal(signal.SIGKILL)
    process.communicate()


def kill_in_write(fit, rng):
    """In one of the four moments of the third, fourth or fifth checkpoint."""
    process = start("checkpoints", rng.randint(9, 20), *fit, module="tests.runs.kill_at")
    process.communicate()
    assert process.returncode == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_ten_kills_change_no_bit(tmp_path, kind):
    model, data = KINDS[kind]
    train = {"epochs": EPOCHS, "checkpoint_every": 4, "callbacks": [{"build": f"{CALLBACKS}:build_slow"}]}
    card, rng = write_card(tmp_path, model, data, train), random.Random(kind)
    whole, run = tmp_path / "whole", tmp_path / "run"
    process = start("fit", card, "-o", whole)
    assert (process.communicate()[1], process.returncode)[1] == 0
    for number in range(KILLS):
        fit = ["fit", card, "-o", run, *(["--resume"] if number else [])]
        if number % 2:
            kill_in_write(fit, rng)
        else:
            kill_by_clock(fit, run, rng)
        assert not (run / "report.json").exists()
    process = start("fit", card, "-o", run, "--resume")
    errors = process.communicate()[1]
    assert process.returncode == 0, errors
    reports = [json.loads((folder / "report.json").read_text()) for folder in (whole, run)]
    resumed = reports[1]["resumed_from_steps"]
    print(kind, resumed)
    assert len(resumed) == KILLS and all(step > 0 for step in resumed) and resumed == sorted(resumed)
    assert reports[0]["last"] == reports[1]["last"] and reports[0]["best"] == reports[1]["best"]
    for name in ("model.keras", "best.keras"):
        assert (whole / name).read_bytes() == (run / name).read_bytes(), name
