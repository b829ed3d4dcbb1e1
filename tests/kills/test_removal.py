"""Folders that are taken away from under a running fit: it says so and ends, and the next one there is not misled."""

import json
import shutil
import signal
import time

import pytest

from tests.kills.chains import Chain
from tests.kills.lives import Writing, temporary_files, to_sets
from tests.kills.sameness import same
from tests.make_pack import make_card
from tests.study.sweeps import wait_for
from tests.workloads.translate.cards import TABLE

pytestmark = pytest.mark.slow
LONG = 1_000_000
TRANSLATION = """\
workload: translate
data:
  training: {table: pairs.tsv, columns: [english, german]}
  validation_share: 0.1
  test_share: 0.1
  vocabulary: 320
  max_length: 12
  batch: 4
model: {units: 8, layers: 1, dropout: 0.1}
train: {steps: 60, steps_per_call: 4, validate_every: 20, checkpoint_every: 20}
decode: {beam: 2, max_length: 8, samples: 3}
"""


def fit_card(folder):
    return make_card(folder, steps=120), {"train.steps": LONG, "train.stopping.patience": LONG}


def translation_card(folder):
    lines = TABLE.read_text(encoding="utf-8").splitlines(keepends=True)
    (folder / "pairs.tsv").write_text("".join(lines[:300]), encoding="utf-8")
    (folder / "card.yaml").write_text(TRANSLATION)
    return folder / "card.yaml", {"train.steps": LONG, "train.validate_every": LONG}


@pytest.fixture(scope="module", params=[fit_card, translation_card])
def case(request, tmp_path_factory):
    """A card; what makes its run another one that takes for ever; its own run, undisturbed."""
    folder = tmp_path_factory.mktemp("removal")
    card, endless = request.param(folder)
    settings = {"TFPERF_CACHE": str(folder / "cache")}
    Chain([card], folder / "whole", settings).finish()
    return card, endless, folder / "whole", settings


def remove(path):
    if path.is_dir():
        # a running fit may write into it meanwhile
        path.rename(path.with_name("gone"))
        shutil.rmtree(path.with_name("gone"), ignore_errors=True)
    else:
        path.unlink()


def put_to_sleep(life, run):
    """Stop a life between two writes."""
    life.kill(signal.SIGSTOP)
    while temporary_files(run):
        life.kill(signal.SIGCONT)
        time.sleep(0.05)
        life.kill(signal.SIGSTOP)


def is_another(path, inode):
    """Whether a file is there that is not the one of before."""
    return path.exists() and path.stat().st_ino != inode


@pytest.mark.parametrize("what", [".", "lock"])
def test_a_fit_whose_folder_is_taken_away_ends_and_the_next_one_is_its_own(case, tmp_path, what):
    card, endless, whole, settings = case
    run = tmp_path / "run"
    first = Chain([card, *to_sets({"seed": 2} | endless)], run, settings).begin()
    try:
        assert Writing("step-", 3).wait(first, run), first.words
        # it sleeps until the next one has begun, so that its next write goes there
        put_to_sleep(first, run)
        began = (run / "run.json").stat().st_ino
        remove(run / what)
        life = Chain([card, *(["--force"] if what == "lock" else [])], run, settings).begin_anew()
        try:
            wait_for(lambda: life.ended or is_another(run / "run.json", began), seconds=120)
            first.kill(signal.SIGCONT)
            assert first.end(60) == 2, first.words
            errors = [line for line in first.words.splitlines() if line.startswith("error: ")]
            assert len(errors) == 1 and str(run) in errors[0] and "Traceback" not in first.words, first.words
            assert life.end() == 0, life.words
        finally:
            life.clear()
    finally:
        first.clear()
    assert json.loads((run / "run.json").read_text())["parts"][0]["resumed_from_steps"] == []
    same(whole, run)


def test_a_fit_whose_checkpoints_are_taken_away_keeps_its_folder(case, tmp_path):
    card, endless, whole, settings = case
    run = tmp_path / "run"
    first = Chain([card, *to_sets({"seed": 2} | endless)], run, settings).begin()
    try:
        assert Writing("step-", 3).wait(first, run), first.words
        remove(run / "checkpoints")
        life = Chain([card, "--force"], run, settings).begin_anew()
        code = life.end()
        # either the first one goes on and holds its folder, or it has ended and left it
        if not first.ended:
            assert code == 2 and "another process is running here" in life.words
        else:
            assert first.end() == 2 and "Traceback" not in first.words, first.words
        life.clear()
    finally:
        first.clear()
    life = Chain([card, "--force"], run, settings).begin_anew()
    try:
        assert life.end() == 0, life.words
    finally:
        life.clear()
    same(whole, run)
