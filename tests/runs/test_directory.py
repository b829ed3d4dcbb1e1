"""A run directory is one run's: what another one left, or leaves, there is never taken for its own."""

import inspect
import os
import re
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import tfperf
from tests.make_pack import make_card
from tests.runs.conftest import same_bits
from tests.runs.test_resume import copy_inputs, interrupted
from tfperf.cli import main
from tfperf.errors import Interrupted, LostError, RunDirectoryError, UserError
from tfperf.results.rundir import RunDirectory
from tfperf.runs.fit import fit
from tfperf.runs.flow import _list_own_files
from tfperf.train.ensemble import Ensemble
from tfperf.workloads.options import Options
from tfperf.workloads.pdf.results.store import read
from tfperf.workloads.registry import WORKLOADS
from tfperf.workloads.replica_chunks import ReplicaChunk

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("loss", [pytest.param("folder", marks=pytest.mark.slow), "lock"])
def test_a_run_whose_directory_is_taken_away_ends_and_writes_nothing_there(finished, tmp_path, monkeypatch, loss):
    card, run = copy_inputs(finished, tmp_path), tmp_path / "run"
    train = Ensemble.run

    def run_and_remove(self, count, xla):
        train(self, count, xla)
        if self.step == 70:
            shutil.rmtree(run) if loss == "folder" else (run / "lock").unlink()

    with monkeypatch.context() as patch:
        patch.setattr(Ensemble, "run", run_and_remove)
        with pytest.raises(LostError, match="removed or replaced while it was in use"):
            fit(card, run)
    assert not (run / "results.h5").exists()
    assert max((p.name for p in run.glob("checkpoints/*")), default="") < "step-000000000070"


@pytest.mark.slow
def test_checkpoints_of_another_run_are_not_gone_on_from(finished, tmp_path, monkeypatch):
    """The same replicas, attempts and shapes; another learning rate."""
    other = copy_inputs(finished, tmp_path), tmp_path / "other"
    interrupted(*other, monkeypatch, 100, ["train.optimizer.learning_rate=1e-4"])
    run = tmp_path / "run"
    interrupted(other[0], run, monkeypatch, 40)
    for path in (tmp_path / "other" / "checkpoints").iterdir():
        shutil.copy(path, run / "checkpoints")
    result = fit(other[0], run, options=Options(resume=True))
    assert result.summary["resumed_from_steps"] == [40]
    same_bits(finished / "run", run)


def test_results_of_another_run_are_not_added_to(finished, tmp_path):
    card, run = copy_inputs(finished, tmp_path), tmp_path / "run"
    shutil.copytree(finished / "run", run)
    fit(card, tmp_path / "other", overrides=["seed=99", "train.steps=20"])
    shutil.copy(tmp_path / "other" / "results.h5", run / "results.h5")
    for options in (Options(resume=True), Options(replicas=(7,))):
        with pytest.raises(RunDirectoryError, match="results of another run"):
            fit(card, run, options=options)


@pytest.mark.parametrize("fault", ["report.html", "report.json", "older"])
def test_a_report_that_is_missing_or_older_than_its_results_is_made_again(finished, tmp_path, fault):
    card, run = copy_inputs(finished, tmp_path), tmp_path / "run"
    shutil.copytree(finished / "run", run)
    before = (run / "results.h5").read_bytes()
    if fault == "older":
        os.utime(run / "report.html", (1, 1))
    else:
        (run / fault).unlink()
    fit(card, run, options=Options(resume=True))
    assert "</html>" in (run / "report.html").read_text() and (run / "report.json").stat().st_size > 1000
    assert (run / "report.html").stat().st_mtime > 1 and (run / "results.h5").read_bytes() == before


@pytest.mark.slow
def test_a_signal_while_the_report_is_written_ends_with_its_code(finished, tmp_path, monkeypatch):
    card, run = copy_inputs(finished, tmp_path), tmp_path / "run"

    def draw(*_):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)

    with monkeypatch.context() as patch:
        patch.setattr("tfperf.workloads.pdf.report.html.render_html", draw)
        with pytest.raises(Interrupted) as stop:
            fit(card, run)
    assert stop.value.exit_code == 143 and not (run / "report.html").exists()
    fit(card, run, options=Options(resume=True))
    assert (run / "report.html").exists() and not list(run.rglob("*.tmp"))
    same_bits(finished / "run", run)


def test_a_run_that_was_stopped_before_it_began_is_begun_by_resume(finished, tmp_path, monkeypatch):
    card, run = copy_inputs(finished, tmp_path), tmp_path / "run"

    def read(*_):
        os.kill(os.getpid(), signal.SIGHUP)
        time.sleep(60)

    with monkeypatch.context() as patch:
        patch.setattr("tfperf.workloads.pdf.job.read_inputs", read)
        with pytest.raises(Interrupted, match="go on with --resume") as stop:
            fit(card, run)
    assert stop.value.exit_code == 129
    fit(card, run, options=Options(resume=True))
    same_bits(finished / "run", run)


def test_resume_begins_nothing_where_no_run_was(finished, tmp_path):
    card = copy_inputs(finished, tmp_path)
    (tmp_path / "empty").mkdir()
    for name in ("empty", "none"):
        with pytest.raises(RunDirectoryError, match="holds no run; leave --resume out"):
            fit(card, tmp_path / name, options=Options(resume=True))
    assert not (tmp_path / "none").exists() and not list((tmp_path / "empty").iterdir())


def test_the_readme_names_the_files_of_a_finished_run(finished):
    table = README.partition("leaves in `runs/pdf_dis`\n")[2].partition("\n\nStop it")[0]
    cells = dict(re.findall(r"^\| (`.*?) \| (.*) \|$", table, re.M))
    every = [cell for cell, text in cells.items() if not text.startswith("only where asked for")]
    named = {name for cell in every for name in re.findall("`(.*?)`", cell)}
    assert named == {path.name + "/" * path.is_dir() for path in (finished / "run").iterdir()}


def test_the_readmes_python_reads_a_finished_run(finished, monkeypatch, capsys):
    found = re.search(r"```python\n(import tfperf\n.*?)```", README, re.S)
    assert found is not None
    code = found[1]

    def read(*given, **options):
        inspect.signature(fit).bind(*given, **options)
        return fit(finished / "card.yaml", finished / "run", options=Options(resume=True))

    monkeypatch.setattr("tfperf.api.fitting.fit", read)
    exec(code, {})
    chi2, shape = capsys.readouterr().out.split(maxsplit=1)
    assert float(chi2) > 0 and shape == "(3, 8, 16)\n"


def test_a_finished_run_is_loaded_as_its_fit_returned_it(finished, tmp_path):
    found = tfperf.load(finished / "run")
    assert repr(found).startswith("FitResult(converged=") and len(repr(found)) < 100
    assert found.to_pandas()["id"].tolist() == [1, 2, 3]
    again = read(found.save(tmp_path / "copy.h5"))
    np.testing.assert_array_equal(again.pdf, found.pdf)
    with pytest.raises(RunDirectoryError, match="is neither a run nor a sweep"):
        tfperf.load(tmp_path)


def test_a_faulty_pack_leaves_no_directory(tmp_path):
    card = make_card(tmp_path)
    (tmp_path / "pack.h5").write_bytes(b"no pack")
    with pytest.raises(UserError, match=r"pack\.h5"):
        fit(card, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_folder_of_something_else_gets_no_lock(tmp_path):
    card, other = make_card(tmp_path), tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").touch()
    with pytest.raises(RunDirectoryError, match="not empty"):
        fit(card, other)
    assert [p.name for p in other.iterdir()] == ["thesis.tex"]


def test_force_removes_nothing_where_something_may_not_be_removed(finished, tmp_path):
    card, run = copy_inputs(finished, tmp_path), tmp_path / "run"
    shutil.copytree(finished / "run", run)
    shutil.rmtree(run / "checkpoints")
    (run / "checkpoints").symlink_to(tmp_path)  # with the card and the pack in it
    with pytest.raises(RunDirectoryError, match="is not this run's"):
        fit(card, run, options=Options(force=True))
    same_bits(finished / "run", run)


@pytest.mark.slow
def test_checkpoints_may_be_kept_on_another_disk(finished, tmp_path):
    card, run = copy_inputs(finished, tmp_path), tmp_path / "run"
    (tmp_path / "scratch").mkdir()
    run.mkdir()
    (run / "checkpoints").symlink_to(tmp_path / "scratch")
    for options in (Options(), Options(force=True)):
        fit(card, run, options=options)
        assert (run / "checkpoints").is_symlink() and list((tmp_path / "scratch").glob("step-*.ckpt"))
        same_bits(finished / "run", run)


@pytest.mark.parametrize("name", ["run.json", "card.yaml", "lock"])
def test_a_pipe_in_a_run_directory_holds_nothing_up(finished, tmp_path, name):
    card, run = copy_inputs(finished, tmp_path), tmp_path / "run"
    shutil.copytree(finished / "run", run)
    (run / name).unlink()
    os.mkfifo(run / name)
    done = CliRunner().invoke(main, ["fit", str(card), "-o", str(run), "--resume"])
    assert done.exit_code == 2 and "it is a pipe; must be a regular file" in done.output and name in done.output


def test_a_loop_of_links_as_output_gives_no_traceback(finished, tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    done = CliRunner().invoke(main, ["fit", str(copy_inputs(finished, tmp_path)), "-o", str(tmp_path / "loop")])
    assert done.exit_code == 2 and isinstance(done.exception, SystemExit), done.exception


def test_a_run_of_another_workload_is_removed_with_what_only_that_has(tmp_path):
    run = tmp_path / "run"
    for name in ("vocabularies", "t0", "mine"):
        (run / name).mkdir(parents=True)
    for name, text in (("run.json", "{}"), ("card.yaml", "workload: translate\n"), ("postfit.json", "{}")):
        (run / name).write_text(text)
    made = _list_own_files(run, WORKLOADS.get("pdf"))
    with RunDirectory(run, ReplicaChunk, made) as directory:
        directory.acquire()
        directory.make_room(force=True)
    assert sorted(path.name for path in run.iterdir() if path.is_dir()) == ["mine"]
    assert not list(run.glob("*.json")) and not list(run.glob("*.yaml"))
