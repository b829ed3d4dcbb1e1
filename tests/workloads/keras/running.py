"""Cards for the nets of these tests, and runs of them that are ended in the middle."""

import json
from pathlib import Path

import yaml
from click.testing import CliRunner

from tfperf.cli import main
from tfperf.workloads.keras.training import KerasTraining

NETS, CALLBACKS, PICTURES = (Path(__file__).parent / f"{name}.py" for name in ("nets", "own_callbacks", "picture_nets"))


def write_card(folder, model="build_linear", data=None, train=None, engine=None, **more):
    """The path of a card; data and train: keys beside the usual ones."""
    tree = {
        "workload": "keras", "seed": 3, "model": {"build": model if ":" in model else f"{NETS}:{model}"},
        "data": {"build": f"{NETS}:load", **(data or {})},
        "train": {"epochs": 4, "checkpoint_every": 3, "steps_per_call": 3, **(train or {})},
        "engine": engine or {"xla": False}, **more,
    }  # fmt: skip
    for part in ("data", "train"):
        tree[part] = {key: value for key, value in tree[part].items() if value is not None}
    path = folder / "card.yaml"
    path.write_text(yaml.safe_dump(tree))
    return path


def run(*arguments, code=0):
    """What the command line prints."""
    done = CliRunner().invoke(main, [str(one) for one in arguments])
    if done.exit_code == 1 != code:
        raise AssertionError(done.output) from done.exception
    assert done.exit_code == code, done.output
    return done.output


def fit(card, folder, *options):
    """The report of a fit."""
    run("fit", card, "-o", folder, *options)
    return json.loads((folder / "report.json").read_text())


def end_fit(card, folder, monkeypatch, step):
    """A fit that is ended after a step."""
    real = KerasTraining.call

    def call(self, steps):
        if self.step >= step:
            raise MemoryError("as good as killed")
        return real(self, steps)

    with monkeypatch.context() as patch:
        patch.setattr(KerasTraining, "call", call)
        assert CliRunner().invoke(main, ["fit", str(card), "-o", str(folder)]).exit_code == 1


def fit_twice(card, folder, monkeypatch, step):
    """Reports of a fit that was left alone, and of one that was ended after a step and resumed; models are compared."""
    whole = fit(card, folder / "whole")
    end_fit(card, folder / "run", monkeypatch, step)
    resumed = fit(card, folder / "run", "--resume")
    for name in ("model.keras", "best.keras"):
        assert (folder / "whole" / name).read_bytes() == (folder / "run" / name).read_bytes(), name
    assert resumed["resumed_from_steps"][0] > 0
    for key in ("steps", "last", "best"):
        assert whole[key] == resumed[key]
    return whole, resumed
