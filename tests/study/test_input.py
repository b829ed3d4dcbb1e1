"""Input studies over a made-up loader whose costs are known."""

import json
import subprocess
import sys
from functools import partial
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from tests.report.input_records import make_array_report, make_waiting_report
from tests.study.fake_input import CPU, WAIT
from tfperf.cli import main
from tfperf.errors import CardError, RunDirectoryError, Stopped, TrainingError
from tfperf.report.input_stages import get_free_cores
from tfperf.study import input as study_module
from tfperf.study.input import REPEATS, run_input_study
from tfperf.workloads.cards import load_checked_card

COMMAND = (sys.executable, "-m", "tests.study.fake_input")
CARD = """workload: keras
title: {title}
model: {{build: "nets.py:build"}}
data: {{build: "nets.py:load"}}
train: {{epochs: 1}}
"""
MOST = 3


def read_asked(folder):
    path = folder / "asked.txt"
    return path.read_text().split() if path.exists() else []


def run_study(folder, title="fine", code="", **options):
    (folder / "nets.py").write_text(f"def build(): ...\n\n\ndef load(): ...\n{code}")
    (folder / "card.yaml").write_text(CARD.format(title=title))
    for name, report in (("waiting", make_waiting_report(60.0)), ("arrays", make_array_report())):
        (folder / f"{name}.json").write_text(json.dumps(report["as_it_is"]))
    card = load_checked_card(folder / "card.yaml", ())
    cores = SimpleNamespace(cores=SimpleNamespace(value=2.0))
    settings = {"most": MOST, "seconds": 1.0, "command": COMMAND, "measure_cores": lambda: cores, **options}
    return run_input_study(card, folder / "out", lambda *_: None, **settings)


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_INPUT", str(tmp_path))
    monkeypatch.setattr(study_module, "count_cores", lambda: 2)
    return partial(run_study, tmp_path)


def read_report(folder):
    return json.loads((folder / "out" / "input.json").read_text())


def test_rates_are_predicted_from_one_worker_and_one_for_each_core(study, tmp_path):
    report = study()
    assert read_asked(tmp_path) == ["None", "1", "2", "2", "1"]
    rates = [one["rate"] for one in report["workers"]["predicted"]]
    # what waits hardly meets another one at a core
    assert rates == pytest.approx([n / (CPU + WAIT) for n in (1, 2, 3)], rel=0.01)
    assert report["workers"]["ram"] == {"workers": 2, "one": 503_000_000, "many": 506_000_000, "each": 3_000_000}
    assert read_report(tmp_path)["lines"] == report["lines"] and len(report["lines"]) > 3
    assert report["lines"][0] in (tmp_path / "out" / "report.html").read_text()


def test_what_was_measured_is_not_measured_again_and_a_sweep_is_added(study, tmp_path):
    first = json.loads(json.dumps(study()))
    again = study(measure_cores=lambda: pytest.fail("free cores were measured again"))
    assert json.loads(json.dumps(again)) == first and len(read_asked(tmp_path)) == 5
    swept = study(sweep=True)
    assert read_asked(tmp_path)[5:] == ["1", "2", "3", "3", "2", "1"]
    assert [len(one["rates"]) for one in swept["workers"]["sweep"]] == [REPEATS] * MOST
    assert {**swept["workers"], "sweep": None} == {**again["workers"], "sweep": None}
    assert study()["workers"]["sweep"] == swept["workers"]["sweep"]  # it is there, whether asked for or not
    assert len(read_asked(tmp_path)) == 11


def test_another_card_code_or_time_is_refused(study, tmp_path):
    study()
    for options, what in (({"title": "other"}, "card"), ({"code": "X = 1\n"}, "files"), ({"seconds": 2.0}, "seconds")):
        with pytest.raises(RunDirectoryError, match=rf"input\.json: measured with another {what}"):
            study(**options)
    assert len(read_asked(tmp_path)) == 5


def test_the_prediction_is_on_the_disk_before_the_sweep(study, tmp_path):
    """A program that is killed with the first trial of its sweep has left what it predicted."""
    program = (
        "from pathlib import Path; from tests.study.test_input import run_study; import tfperf.study.input as one; "
        f"one.count_cores = lambda: 2; run_study(Path({str(tmp_path)!r}), 'kill at 6', sweep=True)"
    )
    ended = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, timeout=60)
    assert ended.returncode == -9, ended.stderr
    assert read_asked(tmp_path) == ["None", "1", "2", "2", "1", "1"]
    found = read_report(tmp_path)
    assert [one["workers"] for one in found["workers"]["predicted"]] == [1, 2, 3] and found["workers"]["sweep"] is None
    assert found["lines"] and (tmp_path / "out" / "report.html").exists()
    report = study("kill at 6", sweep=True)  # which goes on: the seventh trial is not killed
    assert report["workers"]["predicted"] == found["workers"]["predicted"]
    assert len(read_asked(tmp_path)) == 12 and report["workers"]["sweep"]


def test_a_signal_keeps_what_was_measured(study, tmp_path):
    with pytest.raises(Stopped):
        study("stop at 3")
    assert read_asked(tmp_path) == ["None", "1", "2"]
    assert sorted(read_report(tmp_path)["trials"]) == ["1 workers", "as it is"]
    study("stop at 3")
    assert read_asked(tmp_path)[3:] == ["2", "2", "1"]


@pytest.mark.parametrize(("place", "what"), [(1, "the card as it is"), (3, "its data by 2 workers")])
def test_a_trial_that_fails_says_which_and_why(study, place, what):
    with pytest.raises(TrainingError, match=f"input: {what}: its process ended with 1: ValueError: the data are wrong"):
        study(f"fault at {place}")
    study(f"fault at {place}")  # it is tried again


def test_a_trial_that_takes_too_long_is_ended(study):
    with pytest.raises(TrainingError, match="timeout: not done after 1 s"):
        study("hang at 1", timeout=1)


def test_samples_in_memory_have_no_workers(study, tmp_path):
    report = study("arrays", sweep=True)
    assert report["workers"] is None and read_asked(tmp_path) == ["None"]
    assert (tmp_path / "out" / "report.html").exists()


def test_free_cores_are_measured_once_where_there_are_no_workers(study):
    cores = SimpleNamespace(cores=SimpleNamespace(value=1.5))
    report = study("arrays", measure_cores=lambda: cores)
    assert report["free_cores"] == get_free_cores(report) == 1.5 and report["cores"] == 2
    again = study("arrays", measure_cores=lambda: pytest.fail("free cores were measured again"))
    assert again["free_cores"] == 1.5


def test_a_card_that_only_a_trial_can_refuse_leaves_nothing(study, tmp_path):
    with pytest.raises(CardError, match="made up"):
        study("refuse")
    assert not (tmp_path / "out").exists()


def test_folders_of_runs_and_damaged_files_are_refused(study, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "run.json").write_text("{}")
    with pytest.raises(RunDirectoryError, match="holds a run"):
        study()
    (tmp_path / "out" / "run.json").unlink()
    (tmp_path / "out" / "input.json").write_text("{")
    with pytest.raises(RunDirectoryError, match="damaged"):
        study()


def call(*arguments):
    return CliRunner().invoke(main, ["input", *map(str, arguments)])


def test_the_command_prints_what_the_study_found(study, tmp_path, monkeypatch):
    report = study()
    default = study_module.run_input_study.__kwdefaults__
    monkeypatch.setitem(default, "command", COMMAND)
    monkeypatch.setitem(default, "most", MOST)
    said = call(tmp_path / "card.yaml", "-o", tmp_path / "out", "--seconds", "1", "-q")
    assert said.exit_code == 0, said.output
    words = " ".join(said.output.split())
    assert all(line in words for line in report["lines"][:3]) and "private_threadpool_size" in words
    assert words.endswith("report.html") and "\x1b" not in said.output
    assert len(read_asked(tmp_path)) == 5


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--seconds", "0"], "--seconds"),
        (["--timeout", "nan"], "--timeout"),
        (["--set", "train.epoch=1"], "train.epoch"),
        (["--set", "data.build=nowhere.py:load"], "nowhere.py"),
    ],
)
def test_wrong_options_end_with_2(tmp_path, arguments, told):
    (tmp_path / "nets.py").write_text("def build(): ...\n\n\ndef load(): ...\n")
    (tmp_path / "card.yaml").write_text(CARD.format(title="x"))
    said = call(tmp_path / "card.yaml", "-o", tmp_path / "out", *arguments)
    assert said.exit_code == 2 and told in said.output and "Traceback" not in said.output
    assert not (tmp_path / "out").exists()


def test_a_card_without_an_input_that_could_be_measured_is_refused(tmp_path):
    (tmp_path / "card.yaml").write_text("replicas: 2\ndata: {pack: x}\ntrain: {steps: 1}\n")
    said = call(tmp_path / "card.yaml", "-o", tmp_path / "out")
    assert said.exit_code == 2 and "input" in said.output and not (tmp_path / "out").exists()
