"""`tfperf predict --on PLACE`: the same file, bit for bit, as without, whatever becomes of the members."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from tests.cluster.conftest import jobs  # noqa: F401
from tests.infer.test_members import list_members
from tests.workloads.predict.test_predict import CODE, read_rows, run

RECORDS = 400
MODEL = """
import os
import time

import keras
import tensorflow as tf


class Nap(keras.layers.Layer):
    def call(self, inputs):
        tf.py_function(lambda: time.sleep(float(os.environ.get("NAP_SECONDS", "0"))), [], [])
        return inputs


def build():
    keras.utils.set_random_seed(1)
    inputs = keras.Input((None,), dtype="int32", name="tokens")
    seen = keras.layers.GlobalMaxPooling1D()(keras.layers.Embedding(50, 8)(inputs))
    return keras.Model(inputs, Nap()(keras.layers.Dense(3)(seen)))
"""
CARD = """
workload: predict
title: small
model: {build: "model.py:build"}
preprocess: {build: "prepare.py:build"}
source: {lines: ["texts.txt"]}
queue: {batch: {tokens: 64}, window: 64, devices: ["cpu:0"]}
"""
pytestmark = pytest.mark.filterwarnings("ignore:.*:DeprecationWarning", "ignore:.*:ResourceWarning")


def make_files(folder):
    draws = np.random.default_rng(1)
    texts = ["".join(map(chr, draws.integers(97, 123, draws.integers(1, 20)))) for _ in range(RECORDS)]
    (folder / "texts.txt").write_text("".join(f"{one}\n" for one in texts))
    (folder / "prepare.py").write_text(CODE.format(bad=[]))
    (folder / "model.py").write_text(MODEL)
    (folder / "card.yaml").write_text(CARD)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder with a card, and the file that it gives without a place."""
    folder = tmp_path_factory.mktemp("finished")
    make_files(folder)
    run("predict", folder / "card.yaml", "-o", folder / "run", "-q")
    rows, status, _, is_finished = read_rows(folder / "run" / "predictions.h5")
    assert len(rows) == RECORDS and np.all(status == 1) and is_finished == 1
    return folder


def predict_on(finished, output, on, *words):
    said = run("predict", finished / "card.yaml", "-o", output, "-q", "--on", on, *words)
    assert f"{RECORDS} of {RECORDS} records" in said
    return said


def have_same_bytes(finished, output):
    found, wanted = ((one / "predictions.h5").read_bytes() for one in (output, finished / "run"))
    return found == wanted


def kill_a_member(killed, output, members):
    """Once something is committed, and all members compute."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        found = list_members()
        if len(found) == members and (output / "journal").exists():
            killed.append(found[0])
            os.kill(found[0], signal.SIGKILL)
            return
        time.sleep(0.05)


@pytest.mark.slow
def test_members_of_this_machine_one_of_them_killed_write_the_same_file(finished, tmp_path, monkeypatch):
    monkeypatch.setenv("NAP_SECONDS", "0.15")  # so that it is far from done when the first rows are committed
    output, killed = tmp_path / "run", []
    killer = threading.Thread(target=kill_a_member, args=(killed, output, 2), daemon=True)
    killer.start()
    said = predict_on(finished, output, "local:2")
    killer.join()
    assert killed and have_same_bytes(finished, output)
    assert said.count("on member") == 2


@pytest.mark.slow
def test_members_of_this_machine_write_the_same_file(finished, tmp_path):
    for on in ("local:1", "local:4"):
        predict_on(finished, tmp_path / on, on)
        assert have_same_bytes(finished, tmp_path / on)


def test_jobs_of_a_queue_write_the_same_file(finished, tmp_path, jobs):  # noqa: F811
    predict_on(finished, tmp_path / "run", "slurm:2,cores=1,memory=1GB")
    assert have_same_bytes(finished, tmp_path / "run")
    assert len(list(jobs.glob("*.job"))) == 2


@pytest.mark.slow
def test_a_prediction_that_was_stopped_at_a_place_goes_on_without_it(finished, tmp_path):
    card, output = finished / "card.yaml", tmp_path / "run"
    words = [sys.executable, "-m", "tfperf", "predict", str(card), "-o", str(output), "-q", "--on", "local:2"]
    environment = {**os.environ, "NAP_SECONDS": "0.3"}
    with subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None and not (output / "journal").exists():
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        said = process.communicate()[1]
    assert process.returncode == 130 and "--resume goes on" in said
    assert not have_same_bytes(finished, output)
    run("predict", card, "-o", output, "-q", "--resume")
    assert have_same_bytes(finished, output)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--on", "moon:2"), "--on: got 'moon:2'; allowed: local:N, slurm"),
        (("--on", "local:0"), "--on: local: got '0'; must be a whole number above 0"),
        (("--on", "slurm:2,cores=1"), "--on slurm: there is no `sbatch` on PATH"),
        (("--on", "local:2", "--verify"), "--on: got 'local:2'; must be left out with --verify"),
    ],
)
def test_a_place_that_cannot_be_had_is_told_and_nothing_is_written(tmp_path, monkeypatch, words, told):
    monkeypatch.setattr("shutil.which", lambda name: None)
    make_files(tmp_path)
    assert told in run("predict", tmp_path / "card.yaml", "-o", tmp_path / "run", *words, code=2)
    assert not (tmp_path / "run").exists()


def test_without_dask_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.delitem(sys.modules, "tfperf.cluster.workers", raising=False)
    make_files(tmp_path)
    said = run("predict", tmp_path / "card.yaml", "-o", tmp_path / "run", "--on", "local:2", code=2)
    assert "pip install tfperf[cluster]" in said and not (tmp_path / "run").exists()
