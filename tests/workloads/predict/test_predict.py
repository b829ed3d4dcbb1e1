"""`tfperf predict` from the command line, with real models in real processes."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import h5py
import keras
import numpy as np
import pytest
from click.testing import CliRunner

from tfperf.cli import main

WIDTH, RECORDS = 3, 400
CODE = """
import os
import time

import numpy as np

BAD = {bad}


def build():
    def prepare(columns):
        time.sleep(float(os.environ.get("WINDOW_SECONDS", "0")))
        found = []
        for text in columns["text"]:
            if text in BAD:
                raise ValueError("a bad text")
            found.append(np.array([ord(one) % 50 for one in text], np.int32))
        return {{"tokens": found}}

    return prepare
"""
CARD = """
workload: predict
title: small
model: {file: model.keras}
preprocess: {build: "prepare.py:build"}
source: {lines: ["texts-*.txt"]}
queue: {batch: {tokens: 64}, window: 64, workers_per_device: WORKERS, devices: ["cpu:0"]}
"""


def make_files(folder, workers=1, bad=()):
    """A model, its texts and a card; the texts."""
    keras.utils.set_random_seed(1)
    tokens = keras.Input((None,), dtype="int32", name="tokens")
    seen = keras.layers.GlobalMaxPooling1D()(keras.layers.Embedding(50, 8)(tokens))
    keras.Model(tokens, keras.layers.Dense(WIDTH)(seen)).save(folder / "model.keras")
    draws = np.random.default_rng(1)
    texts = ["".join(map(chr, draws.integers(97, 123, draws.integers(1, 20)))) for _ in range(RECORDS)]
    (folder / "texts-9.txt").write_text("".join(f"{one}\n" for one in texts[:150]))
    (folder / "texts-10.txt").write_text("".join(f"{one}\n" for one in texts[150:]))
    (folder / "prepare.py").write_text(CODE.format(bad=[texts[number] for number in bad]))
    (folder / "card.yaml").write_text(CARD.replace("WORKERS", str(workers)))
    return texts


def compute_truth(folder, texts):
    model = keras.models.load_model(folder / "model.keras")
    rows = [model(np.array([[ord(one) % 50 for one in text]]))[0] for text in texts]
    return np.array(rows)


def run(*words, code=0):
    found = CliRunner().invoke(main, list(map(str, words)))
    assert found.exit_code == code, found.output
    return found.output


def read_rows(path):
    with h5py.File(path) as file:
        return file["output"][:], file["status"][:], file["ids"][:], int(file["finished"][0])


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder of make_files with a finished run of one worker, and what the command said; not to be changed."""
    folder = tmp_path_factory.mktemp("whole")
    make_files(folder)
    return folder, run("predict", folder / "card.yaml", "-o", folder / "run", "-q")


def copy_files(whole, folder, *, finished):
    """The files of `whole`, with or without its run."""
    ignore = None if finished else shutil.ignore_patterns("run")
    shutil.copytree(whole[0], folder, ignore=ignore, dirs_exist_ok=True)


def test_all_records_are_there_and_are_what_the_model_gives(whole):
    folder, said = whole
    assert f"{RECORDS} of {RECORDS} records" in said
    rows, status, ids, finished = read_rows(folder / "run" / "predictions.h5")
    # padding of 0 changes a maximum over positions: the truth has none, so it is the same where the model ignores it
    np.testing.assert_array_equal(ids, np.arange(RECORDS))
    assert finished == 1 and np.all(status == 1) and np.all(np.isfinite(rows))
    report = json.loads((folder / "run" / "report.json").read_text())
    assert report["is_finished"] and report["failed"] == 0 and report["records"] == RECORDS
    assert "as they were written" in run("predict", folder / "card.yaml", "-o", folder / "run", "--verify")


def test_texts_that_cannot_be_prepared_are_marked(tmp_path):
    bad = [3, 200]
    make_files(tmp_path, bad=bad)
    said = run("predict", tmp_path / "card.yaml", "-o", tmp_path / "run", "-q", code=3)
    assert "2 records failed (2 raised)" in said and "record 3: raised: ValueError: a bad text" in said
    rows, status, _, finished = read_rows(tmp_path / "run" / "predictions.h5")
    assert finished == 1 and list(np.flatnonzero(status != 1)) == bad and np.all(np.isnan(rows[bad]))


def start(folder):
    words = [sys.executable, "-m", "tfperf", "predict", str(folder / "card.yaml"), "-o", str(folder / "run"), "-q"]
    environment = {**os.environ, "WINDOW_SECONDS": "1.0"}
    return subprocess.Popen(
        words, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


# tests/infer/test_kills.py kills smaller ones at points of a commit
@pytest.mark.parametrize("how", [signal.SIGINT, pytest.param(signal.SIGKILL, marks=pytest.mark.slow)])
def test_a_stopped_run_goes_on_to_the_same_file(whole, tmp_path, how):
    copy_files(whole, stopped := tmp_path / "stopped", finished=False)
    card = stopped / "card.yaml"
    process = start(stopped)
    end = time.monotonic() + 60
    journal = stopped / "run" / "journal"
    while time.monotonic() < end and not journal.exists():
        time.sleep(0.1)
    os.kill(process.pid, how)
    said = process.communicate()[1]
    assert journal.exists() and process.returncode == (130 if how == signal.SIGINT else -9), said
    if how == signal.SIGINT:
        assert "--resume goes on" in said
    assert "--resume goes on" in run("predict", card, "-o", stopped / "run", "-q", code=2)
    run("predict", card, "-o", stopped / "run", "-q", "--resume")
    found, wanted = ((one / "run" / "predictions.h5").read_bytes() for one in (stopped, whole[0]))
    assert found == wanted


def test_several_workers_write_the_same_file(whole, tmp_path):
    copy_files(whole, tmp_path, finished=False)
    run("predict", tmp_path / "card.yaml", "-o", tmp_path / "run", "-q", "--set", "queue.workers_per_device=2")
    found, wanted = ((one / "run" / "predictions.h5").read_bytes() for one in (tmp_path, whole[0]))
    assert found == wanted


def test_another_model_does_not_go_on(whole, tmp_path):
    copy_files(whole, tmp_path, finished=True)
    (tmp_path / "model.keras").write_bytes((tmp_path / "model.keras").read_bytes() + b"\0")
    said = run("predict", tmp_path / "card.yaml", "-o", tmp_path / "run", "-q", "--resume", code=2)
    assert "other model" in said
