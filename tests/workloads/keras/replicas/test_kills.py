"""An ensemble of 20 that is killed ten times, or asked to stop, ends with the bits of one that was left alone."""

import json
import random
import signal
import time
from pathlib import Path

import pytest

from tests.kills.chains import Chain, describe
from tests.kills.lives import At, Writing
from tests.kills.sameness import contents, found, names, report
from tests.workloads.keras.replicas import nets

pytestmark = pytest.mark.slow
KILLS = 10
CARD = """
workload: keras
seed: 2
replicas: 20
ensemble: {{data: bootstrap, patience: {patience}}}
model: {{build: "{nets}:build"}}
data: {{build: "{nets}:load", batch: 16, validation: 0.2}}
train: {{epochs: {epochs}, checkpoint_every: 50, steps_per_call: 10}}
engine: {engine}
"""
ENGINES = {"lanes": "{xla: false, form: lanes}", "stacked": "{xla: false, form: stacked}", "auto": "{form: auto}"}


def write_card(folder, engine):
    path = folder / "card.yaml"
    epochs = 1600 if engine == ENGINES["stacked"] else 400  # enough for all kills to come in time
    path.write_text(CARD.format(nets=Path(nets.__file__), engine=engine, epochs=epochs, patience=epochs * 3 // 8))
    return path


def begin(folder, name, engine):
    """The chain of a run in the folder; its choices are measured anew."""
    here = folder / name
    here.mkdir()
    return Chain([write_card(here, engine)], here / "run", {"TFPERF_CACHE": str(here / "cache")})


def draw_aims(seed, seconds):
    """Ten moments: one while it starts, two while it chooses and builds, five in the training, two in its last writes.

    seconds: that a life takes until it trains.
    """
    draw = random.Random(seed)
    choosing = [Writing("run.json"), At(draw.uniform(0.6, 1.0) * seconds)]
    training = [Writing("step-", draw.randint(1, 4)) if n % 2 else At(seconds + draw.uniform(0, 3)) for n in range(5)]
    return [At(draw.uniform(0.3, 0.6) * seconds), *choosing, *training, Writing("results.h5"), Writing("report.html")]


def read_state(run):
    """The choices of the run's only part, and the steps from which it went on."""
    (part,) = json.loads((run / "run.json").read_text())["parts"]
    return part["choices"], part["resumed_from_steps"]


def same(one, other):
    """Assert that results, histories and reports of two finished runs are equal to the bit."""
    (first, summary), (second, other_summary) = (contents(run / "results.h5") for run in (one, other))
    assert first.keys() == second.keys()
    assert [name for name, value in first.items() if value != second[name]] == []
    assert found(summary) == found(other_summary)
    assert found(report(one)) == found(report(other))
    assert names(one) == names(other)


@pytest.mark.parametrize("form", ["lanes", "stacked"])
def test_ten_kills_change_no_bit(tmp_path, form):
    whole, begun = begin(tmp_path, "whole", ENGINES[form]), time.monotonic()
    assert whole.finish() == []
    seconds = json.loads((whole.run / "report.json").read_text())["seconds"]
    start = time.monotonic() - begun - seconds["train"] - seconds["write"]
    chain = begin(tmp_path, "killed", ENGINES[form])
    ends = chain.ended(draw_aims(form, start))
    steps = chain.finish()
    print(describe(form, ends, steps, time.monotonic() - begun))
    assert len(ends) == KILLS, "a life ended before its aim: make the training longer"
    assert len({step for step in steps if step}) >= 3
    same(whole.run, chain.run)


def test_kills_of_a_run_that_chooses_leave_its_choice(tmp_path):
    chain, begun = begin(tmp_path, "killed", ENGINES["auto"]), time.monotonic()
    ends = chain.ended([Writing("run.json", 2), Writing("step-", 2)])
    chosen, _ = read_state(chain.run)
    ends += chain.ended([Writing("step-", 2), Writing("results.h5")])
    steps = chain.finish()
    print(describe(f"auto: {chosen}", ends, steps, time.monotonic() - begun))
    assert read_state(chain.run)[0] == chosen and steps
    whole = begin(tmp_path, "whole", f"{{form: {chosen['form']}, xla: {str(chosen['xla']).lower()}}}")
    whole.finish()
    first, second = (contents(run / "results.h5")[0] for run in (whole.run, chain.run))
    assert {name for name, value in first.items() if value != second[name]} <= {"@digest"}  # of two cards


@pytest.mark.parametrize(("form", "number"), [("lanes", signal.SIGTERM), ("stacked", signal.SIGINT)])
def test_signals_end_it_after_a_checkpoint(tmp_path, form, number):
    whole = begin(tmp_path, "whole", ENGINES[form])
    whole.finish()
    chain = begin(tmp_path, "asked", ENGINES[form])
    ends = chain.ended([Writing("step-"), Writing("step-", 3)], number, (128 + number,), seconds=30.0)
    assert len(ends) == 2 and "Traceback" not in chain.words
    steps = chain.finish()
    print(describe(f"{form}, {number.name}", ends, steps, 0.0))
    assert len(steps) == 2 and all(steps)
    same(whole.run, chain.run)
