"""Runs that nobody disturbed, and how long they take."""

import json
from pathlib import Path

import pytest

from tests.kills.chains import Chain
from tests.kills.lives import to_sets
from tests.kills.sameness import same
from tests.study.sweeps import ROOT

# what would be measured, and could differ between two runs, is fixed; many calls and checkpoints, for many moments;
# four stacks take turns on two threads
FIT = {
    "replicas": 8, "train.steps": 1000, "train.steps_per_call": 20, "train.checkpoint_every": 40, "engine.stacks": 4,
    "engine.form": "folded", "engine.products": "grouped", "engine.xla": "false", "engine.retire_at": "[350, 700]",
}  # fmt: skip
TRANSLATION = {
    "train.steps": 300, "train.steps_per_call": 10, "train.validate_every": 50, "train.checkpoint_every": 20,
    "model.units": 32, "data.vocabulary": 500, "data.batch": 16, "decode.beam": 2,
}  # fmt: skip


class Undisturbed:
    """A card's whole run: made twice, since only one that finds its operators in the cache tells the duration."""

    def __init__(self, folder: Path, arguments: list[object]):
        self.arguments, self.folder = arguments, folder
        settings = {"TFPERF_CACHE": str(folder / "cache")}
        first, self.run = folder / "first", folder / "run"
        for run in (first, self.run):
            assert Chain(arguments, run, settings).finish() == []
        same(first, self.run)
        self.seconds = json.loads((self.run / "report.json").read_text())["seconds"]["total"]

    def chain(self, folder: Path, name: str = "run", **settings: str) -> Chain:
        """Runs of the same card in another folder, with a cache of their own."""
        return Chain(self.arguments, folder / name, {"TFPERF_CACHE": str(folder / "cache")} | settings)


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory):
    """The undisturbed run of a shipped card with overrides, made when it is asked for."""
    made = {}

    def get(card, **overrides):
        arguments = [ROOT / "runcards" / card, *to_sets(overrides)]
        key = str(arguments)
        if key not in made:
            made[key] = Undisturbed(tmp_path_factory.mktemp("undisturbed"), arguments)
        return made[key]

    return get


@pytest.fixture(scope="session")
def fit(undisturbed):
    return lambda **more: undisturbed("pdf_dis.yaml", **FIT | more)


@pytest.fixture(scope="session")
def translation(undisturbed):
    return lambda **more: undisturbed("translate.yaml", **TRANSLATION | more)
