"""Nothing is lost: killed, stopped and starved runs go on to the same bits."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.make_pack import make_card
from tests.runs.conftest import same_bits
from tfperf.errors import Interrupted, RunDirectoryError, StorageError
from tfperf.results.files import write_atomically
from tfperf.runs.fit import fit
from tfperf.signals import Signals
from tfperf.train.checkpoint import Checkpoints
from tfperf.train.ensemble import Ensemble
from tfperf.train.loop import Loop
from tfperf.workloads.options import Options

ROOT = Path(__file__).parents[2]
# places in a write, counted over all checkpoints: the first write has places 1 to 4, and only after it is there
# something to go on from
PLACES = range(5, 25)


def copy_inputs(finished, folder):
    for name in ("card.yaml", "pack.h5"):
        shutil.copy(finished / name, folder / name)
    return folder / "card.yaml"


def tfperf(*arguments, module="tfperf", **options):
    command = [sys.executable, "-m", module, *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def killed(card, run, name, place, *more):
    """A run that kills itself in a write of a file with that name, tests.runs.kill_at."""
    process = tfperf(name, place, "fit", card, "-o", run, *more, module="tests.runs.kill_at")
    _, errors = process.communicate()
    assert process.returncode == -signal.SIGKILL, errors


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_run_killed_in_a_write_resumes_to_the_same_bits(finished, tmp_path, place):
    card, run = copy_inputs(finished, tmp_path), tmp_path / "run"
    killed(card, run, "checkpoints", place)
    result = fit(card, run, options=Options(resume=True))
    assert min(result.summary["resumed_from_steps"]) > 0
    same_bits(finished / "run", run)


def test_run_killed_in_the_write_of_its_results_resumes_to_the_same_bits(finished, tmp_path):
    """tests/workloads/translate/test_job.py kills one in the write of a checkpoint."""
    card, run = copy_inputs(finished, tmp_path), tmp_path / "run"
    killed(card, run, "results.h5", 1)
    assert {path.name for path in run.rglob("*.tmp")} == {".results.h5.tmp"} and not (run / "results.h5").exists()
    assert fit(card, run, options=Options(resume=True)).summary["resumed_from_steps"] == [120]
    same_bits(finished / "run", run)
    assert not list(run.rglob("*.tmp"))


@pytest.mark.slow
def test_run_killed_in_write_after_write_resumes_to_the_same_bits(finished, tmp_path):
    """Of a checkpoint, then, resumed, of the results: both are half there."""
    card, run = copy_inputs(finished, tmp_path), tmp_path / "run"
    killed(card, run, "checkpoints", 9)
    killed(card, run, "results.h5", 1, "--resume")
    assert {path.name for path in run.rglob("*.tmp")} >= {".results.h5.tmp"} and not (run / "results.h5").exists()
    result = fit(card, run, options=Options(resume=True))
    assert result.summary["resumed_from_steps"] == [40, 120]
    same_bits(finished / "run", run)
    assert not list(run.rglob("*.tmp"))


def interrupted(card, run, monkeypatch, step, overrides=()):
    """Run until a signal after the given step; not one of those that are timed before, whose loops are run alone."""
    train = Ensemble.run

    def run_and_signal(self, count, xla):
        train(self, count, xla)
        if self.step == step:
            os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(Ensemble, "run", run_and_signal)
        with pytest.raises(Interrupted) as stop:
            fit(card, run, overrides=overrides)
    assert stop.value.exit_code == 143


def test_run_stopped_by_a_signal_resumes_to_the_same_bits(finished, tmp_path, monkeypatch):
    card, run = copy_inputs(finished, tmp_path), tmp_path / "run"
    interrupted(card, run, monkeypatch, 70)  # no multiple of checkpoint_every
    result = fit(card, run, options=Options(resume=True))
    assert result.summary["resumed_from_steps"] == [70]
    same_bits(finished / "run", run)


@pytest.mark.parametrize("extra", [
    pytest.param("train.optimizer={name: Adam, use_ema: true, ema_overwrite_frequency: 15}", marks=pytest.mark.slow),
    pytest.param("model.trainable_exponents=true", marks=pytest.mark.slow),
])  # fmt: skip
def test_every_kind_of_state_resumes_to_the_same_bits(tmp_path, monkeypatch, extra):
    card, whole, run = make_card(tmp_path, replicas=2, steps=60), tmp_path / "whole", tmp_path / "run"
    overrides = [extra, "train.stopping.patience=60"]
    fit(card, whole, overrides=overrides)
    interrupted(card, run, monkeypatch, 30, overrides)
    fit(card, run, overrides=overrides, options=Options(resume=True))
    same_bits(whole, run)


class Killed(BaseException):
    """What nothing in the program catches, like a kill."""


def killed_at(card, run, monkeypatch, place, **options):
    """Carry out a run that ends at the n-th rename of any file; returns whether it came to that."""
    real, count = os.replace, 0

    def replace(source, target):
        nonlocal count
        count += 1
        if count == place:
            raise Killed
        real(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace)
        try:
            fit(card, run, **options)
        except Killed:
            return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["new", "t0", "extension"])
def test_run_killed_at_any_rename_resumes_to_the_same_bits(tmp_path, monkeypatch, kind):
    monkeypatch.setattr("tfperf.workloads.pdf.report.html.render_html", lambda *_: "")  # seconds; the file is written
    card = make_card(tmp_path, replicas=2, steps=40)
    overrides = ["data.t0=fit"] if kind == "t0" else []
    more = Options(replicas=(7, 8)) if kind == "extension" else Options()

    def begun(folder):
        if kind == "extension":
            fit(card, folder, overrides=overrides)
        return folder

    fit(card, begun(tmp_path / "whole"), overrides=overrides, options=more)
    for place in range(1, 100):
        run = begun(tmp_path / f"run{place}")
        if not killed_at(card, run, monkeypatch, place, overrides=overrides, options=more):
            break
        started = (run / "run.json").exists()
        again = Options(resume=started, replicas=more.replicas)
        pending = started and len(json.loads((run / "run.json").read_text())["parts"]) > (kind == "extension")
        fit(card, run, overrides=overrides, options=again if pending or not started else more)
        same_bits(tmp_path / "whole", run)
    assert place > 5


@pytest.mark.parametrize(
    "lost",
    [
        "optimizer/",
        *(pytest.param(p, marks=pytest.mark.slow) for p in ("model/", "stopping/", "kept/", "step", "history")),
    ],
)
def test_every_part_of_a_checkpoint_is_needed(finished, tmp_path, monkeypatch, lost):
    """A checkpoint without it would not bring the same bits: the comparison above can fail."""
    # weights that were lost cannot be drawn
    monkeypatch.setattr("tfperf.workloads.pdf.report.html.render_html", lambda *_: "")
    card, run = copy_inputs(finished, tmp_path), tmp_path / "run"
    restore, load = Loop.restore, Checkpoints.load
    interrupted(card, run, monkeypatch, 60)

    def emptied(self):
        arrays, warnings = load(self)
        return {k: v[:0] if k.startswith("history") and lost == "history" else v for k, v in arrays.items()}, warnings

    def forgetful(self, snapshot):
        own = self.snapshot()
        restore(self, {k: own[k] if k.startswith(lost) else v for k, v in snapshot.items()})

    monkeypatch.setattr(Loop, "restore", forgetful)
    monkeypatch.setattr(Checkpoints, "load", emptied)
    fit(card, run, options=Options(resume=True))
    with pytest.raises(AssertionError):
        same_bits(finished / "run", run)


def test_damaged_checkpoint_gives_way_to_the_one_before(finished, tmp_path, monkeypatch):
    card, run = copy_inputs(finished, tmp_path), tmp_path / "run"
    interrupted(card, run, monkeypatch, 90)
    old, new = sorted((run / "checkpoints").glob("*.ckpt"))
    data = bytearray(new.read_bytes())
    data[len(data) // 2] ^= 1
    new.write_bytes(data)
    result = fit(card, run, options=Options(resume=True))
    assert result.summary["resumed_from_steps"] == [int(old.stem.split("-")[1])]
    same_bits(finished / "run", run)


def test_run_with_only_damaged_checkpoints_is_not_begun_again_silently(finished, tmp_path, monkeypatch):
    card, run = copy_inputs(finished, tmp_path), tmp_path / "run"
    interrupted(card, run, monkeypatch, 90)
    for path in (run / "checkpoints").glob("*.ckpt"):
        path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(RunDirectoryError, match="every checkpoint is damaged"):
        fit(card, run, options=Options(resume=True))


def test_full_disk_leaves_the_old_checkpoint_and_the_run_goes_on(finished, tmp_path, monkeypatch):
    card, run = copy_inputs(finished, tmp_path), tmp_path / "run"
    real = Checkpoints.save

    def full(self, step, arrays):
        if step > 50:
            with write_atomically(self.folder / f"step-{step:012d}.ckpt"):
                raise OSError(28, "No space left on device")
        return real(self, step, arrays)

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "save", full)
        with pytest.raises(StorageError, match="no space left"):
            fit(card, run)
    result = fit(card, run, options=Options(resume=True))
    assert 0 < result.summary["resumed_from_steps"][0] <= 50
    same_bits(finished / "run", run)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow)]
)
def test_command_line_ends_with_the_signals_exit_code(tmp_path, finished, number, code):
    card, run = copy_inputs(finished, tmp_path), tmp_path / "run"
    process = tfperf("fit", card, "-o", run, "--set", "train.steps=1000000", "--set", "train.stopping.patience=1000000")
    deadline = time.monotonic() + 120
    while not list((run / "checkpoints").glob("*.ckpt")):
        assert time.monotonic() < deadline and process.poll() is None, process.communicate()
        time.sleep(0.1)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code
    assert "--resume" in errors and "Traceback" not in errors


def test_first_signal_is_kept_and_the_second_is_not_caught():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs are started with it ignored
    try:
        _two_interrupts()
    finally:
        signal.signal(signal.SIGINT, before)


def _two_interrupts():
    with Signals().listen() as signals:
        with signals.defer():
            os.kill(os.getpid(), signal.SIGINT)
        assert signals.received == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)


def test_state_of_the_run_is_written_before_the_first_step(finished, tmp_path, monkeypatch):
    card, run = copy_inputs(finished, tmp_path), tmp_path / "run"

    def die(self, *_):
        raise ZeroDivisionError

    monkeypatch.setattr("tfperf.train.trainer.Trainer.train", die)
    with pytest.raises(ZeroDivisionError):
        fit(card, run)
    choices = json.loads((run / "run.json").read_text())["parts"][0]["choices"]
    assert set(choices) >= {"xla", "steps_per_call", "threads"}
