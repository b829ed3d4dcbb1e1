"""Programs as users write them, unchanged, from cards: fitted, killed and resumed, profiled, swept."""

import importlib
import json
import signal
import subprocess
import sys
from pathlib import Path

import h5py
import keras
import numpy as np
import pytest

from tests.workloads.keras import programs

ROOT, FOLDER = Path(__file__).parents[3], Path(programs.__file__).parent
CARD = """
workload: keras
seed: 3
model:
  build: {file}:build_model
data:
  build: {file}:load_samples
train:
  epochs: 4
  steps_per_call: 3
  checkpoint_every: 5
  {more}
"""
SWEEP = """
sweep:
  keys: {{{key}: [16, 32]}}
  repeats: 1
  warmup: 3
  steps: 12
  seconds: 1
"""
NAMES = sorted(path.stem for path in FOLDER.glob("[!_]*.py"))
TRAIN = {  # keys of the card, beside epochs
    "warm_restarts": "callbacks: [{build: '{file}:build_callback'}]",
    "rare_faults": "class_weight: {0: 1.0, 1: 9.0}",
}
LOSS = {"adversarial_ring": "discriminator_loss"}
BATCH = {"counted_dots": "data.arguments.batch"}  # the program itself cuts its data into batches
UNREADABLE = {"adversarial_ring"}  # takes networks as arguments
UNREGISTERED = {"siamese_glyphs"}  # has a loss without a name that Keras knows
KILLED_AT = 22  # place of a write: in the sixth checkpoint, of the third epoch


def write_card(folder, name):
    file, card = FOLDER / f"{name}.py", folder / "card.yaml"
    more, key = TRAIN.get(name, "").replace("{file}", str(file)), BATCH.get(name, "data.batch")
    card.write_text(CARD.format(file=file, more=more) + SWEEP.format(key=key))
    return card


def run(*arguments, module="tfperf", code=0):
    command = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def read_report(folder):
    return json.loads((folder / "report.json").read_text())


@pytest.fixture(scope="module", params=NAMES)
def finished(request, tmp_path_factory):
    """Name, card and run of a program's fit."""
    folder = tmp_path_factory.mktemp(request.param)
    card = write_card(folder, request.param)
    run("fit", card, "-o", folder / "run")
    return request.param, card, folder / "run"


@pytest.mark.slow
def test_it_learns_as_it_is_written(finished):
    name, _, folder = finished
    with h5py.File(folder / "results.h5") as file:
        losses = file["history"][LOSS.get(name, "loss")][()]
    assert losses.shape == (4,) and losses[-1] < losses[0]
    if name not in UNREADABLE:
        importlib.import_module(f"{programs.__name__}.{name}")  # which registers its classes
        model = keras.saving.load_model(folder / "model.keras", compile=name not in UNREGISTERED)
        assert model.count_params() == read_report(folder)["parameters"]


def read_arrays(path):
    with h5py.File(path) as file:
        return {name: values[()].tobytes() for name, values in file.items()}


@pytest.mark.slow
def test_a_run_that_was_killed_resumes_to_the_same_bits(finished, tmp_path):
    _, card, whole = finished
    # which of them is faster, may be found otherwise the next time
    xla = read_report(whole)["choices"]["compilation"].removeprefix("XLA ").replace("graph", "false")
    fit = "fit", card, "-o", tmp_path / "run", "--set", f"engine.xla={xla}"
    run("checkpoints", KILLED_AT, *fit, module="tests.runs.kill_at", code=-signal.SIGKILL)
    run(*fit, "--resume")
    report = read_report(tmp_path / "run")
    assert len(report["resumed_from_steps"]) == 1 and 26 < report["resumed_from_steps"][0] < report["steps"]
    assert report["last"] == read_report(whole)["last"]
    for file in whole.glob("*.keras"):
        assert (tmp_path / "run" / file.name).read_bytes() == file.read_bytes()
    if not (whole / "model.keras").exists():
        weights = [read_arrays(folder / "weights.h5") for folder in (whole, tmp_path / "run")]
        assert weights[0] and weights[0] == weights[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_its_steps_are_profiled(name, tmp_path):
    card = write_card(tmp_path, name)
    run(
        "profile",
        card,
        "--repeat",
        1,
        "-o",
        tmp_path / "report",
        "--logdir",
        tmp_path / "log",
        "--steps",
        "18",
        "--skip",
        "9",
    )
    assert read_report(tmp_path / "report")["steps"] == 18


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_its_batches_are_swept(name, tmp_path):
    said = run("sweep", write_card(tmp_path, name), "-o", tmp_path / "sweep")
    assert all(f"{BATCH.get(name, 'data.batch')}={batch}" in said for batch in (16, 32))


@pytest.mark.parametrize("name", NAMES)
def test_it_is_a_program_of_keras(name):
    """Without tfperf: it builds and takes a step."""
    assert len(NAMES) == 12
    keras.utils.clear_session()
    program = importlib.import_module(f"{programs.__name__}.{name}")
    model, data = program.build_model(), program.load_samples()
    if isinstance(data, keras.utils.PyDataset):
        batches, batch = len(data), data[0]
    else:
        data = data if isinstance(data, tuple) else (data,)
        batches = len(keras.tree.flatten(data)[0]) // 32
        batch = keras.tree.map_structure(lambda array: array[:32], data)
    model.run_eagerly = True
    assert batches >= 12
    inputs, targets, weights = (*batch, None, None)[:3]
    losses = model.fit(inputs, targets, 32, sample_weight=weights, verbose=0).history[LOSS.get(name, "loss")]
    assert len(losses) == 1 and np.isfinite(losses[0])
