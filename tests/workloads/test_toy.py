"""A workload of another package, installed with an entry point: every verb takes it, and nothing of tfperf names it."""

import json
import signal
import time
from functools import partial

import h5py
import numpy as np
import pytest

from tests.workloads.packages import ROOT, begin, call, install, run

CARD = "workload: toy\nsteps: 200\n"
SWEEP = "sweep:\n  keys:\n    rate: [0.2]\n  repeats: 1\n  warmup: 10\n  steps: 50\n  seconds: 1\n"
BROKEN = {"missing": "no_such_module:WORKLOAD", "wrong": "tfperf_toy:ToyCard", "old": "older:WORKLOAD"}
OLDER = "from tfperf_toy import Toy\n\nclass Older(Toy):\n    protocol = None\n\nWORKLOAD = Older()\n"


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    toy = (ROOT / "tests" / "workloads" / "toy" / "tfperf_toy.py").read_text()
    install(folder, "tfperf-toy", {"toy": "tfperf_toy:WORKLOAD", **BROKEN}, tfperf_toy=toy, older=OLDER)
    return folder


@pytest.fixture
def tfperf(installed, tmp_path):
    (tmp_path / "card.yaml").write_text(CARD)
    return partial(call, installed, tmp_path)


def numbers(folder):
    with h5py.File(folder / "results.h5") as file:
        return file["numbers"][:]


def test_cards_are_checked_as_any(tfperf, tmp_path):
    assert "steps       200" in tfperf("check", "card.yaml")
    said = tfperf("check", "card.yaml", "--set", "rate=7", "--set", "stepz=1", code=2)
    assert "rate: got 7; must be" in said and "stepz" in said
    (tmp_path / "other.yaml").write_text("workload: toi\nsteps: 1\n")
    said = tfperf("check", "other.yaml", code=2)
    assert "allowed: pdf, translate, keras, predict, missing, old, toy, wrong; did you mean `toy`?" in said
    assert '"steps"' in tfperf("schema", "toy")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("missing", "cannot be loaded: ModuleNotFoundError"),
        ("wrong", "is a type"),
        ("old", "is written for protocol None; this tfperf has 1"),
    ],
)
def test_a_broken_one_is_told_by_its_own_cards_alone(tfperf, tmp_path, name, text):
    (tmp_path / "broken.yaml").write_text(f"workload: {name}\nsteps: 1\n")
    said = tfperf("check", "broken.yaml", code=2)
    assert text in said and "tfperf-toy" in said and "Traceback" not in said


def test_its_cards_are_checked_by_a_process_of_their_own(installed, tmp_path):
    (tmp_path / "card.yaml").write_text(CARD)
    assert "steps       200" in run(installed, tmp_path, "check", "card.yaml")


def test_a_fit_that_is_killed_goes_on_to_the_same_bits(tfperf, installed, tmp_path):
    said = tfperf("fit", "card.yaml", "-o", "whole", "--set", "profile.steps=60")
    assert "loss" in said and "whole/report.html" in said and "profile: 6 calls of 10 steps are recorded" in said
    assert list((tmp_path / "whole").glob("events/plugins/profile/*/*.xplane.pb"))
    killed = begin(installed, tmp_path, "fit", "card.yaml", "-o", "killed", "--set", "steps=2000")
    while not list((tmp_path / "killed").glob("checkpoints/step-*")):
        time.sleep(0.01)
        assert killed.poll() is None
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert "holds a run; --resume goes on with it" in tfperf("fit", "card.yaml", "-o", "killed", code=2)
    tfperf("fit", "card.yaml", "-o", "killed", "--set", "steps=2000", "--resume")
    report = json.loads((tmp_path / "killed" / "report.json").read_text())
    assert report["resumed_from_steps"][0] >= 10
    tfperf("fit", "card.yaml", "-o", "long", "--set", "steps=2000")
    np.testing.assert_array_equal(numbers(tmp_path / "killed"), numbers(tmp_path / "long"))
    assert "nothing left to do" in tfperf("fit", "card.yaml", "-o", "long", "--set", "steps=2000", "--resume")
    assert "has no replicas" in tfperf("fit", "card.yaml", "-o", "long", "--replicas", "3", code=2)
    assert "loss" in tfperf("compare", "whole", "long")


def test_steps_are_profiled_and_swept(tfperf, tmp_path):
    said = tfperf("profile", "card.yaml", "--repeat", "1", "--set", "steps=20000", "--steps", "60", "--skip", "10")
    assert "6 calls of 10 steps" in said
    (tmp_path / "sweep.yaml").write_text(CARD + SWEEP)
    said = tfperf("sweep", "sweep.yaml", "-o", "sweep")
    assert "rate=0.2, repeat 1" in said and (tmp_path / "sweep" / "results.h5").is_file()
    assert "does not offer ablate; pdf does" in tfperf("ablate", "card.yaml", code=2)
