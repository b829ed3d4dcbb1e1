"""Runs that tfperf 0.1.0 left, in run-0.1.0: finished ones stay readable by every verb, unfinished ones are refused.

Runs of later versions that called their workload otherwise go on.
"""

import hashlib
import json
import shutil
from pathlib import Path

import h5py
import pytest
from click.testing import CliRunner

from tests.make_pack import make_card
from tests.runs.test_resume import copy_inputs
from tfperf.cli import main
from tfperf.report.board import find_log_directory
from tfperf.results.hdf5 import encode_texts
from tfperf.results.reading import hash_file
from tfperf.runs.fit import fit
from tfperf.runs.unchanged import digest_inputs
from tfperf.workloads.options import Options
from tfperf.workloads.pdf.cards import load_card
from tfperf.workloads.pdf.kind import KIND
from tfperf.workloads.pdf.results import store

OLD = Path(__file__).parent / "run-0.1.0"


@pytest.fixture
def old(tmp_path):
    """A card, and the folder of its run: two replicas of the small problem, 20 steps."""
    card, run = make_card(tmp_path, replicas=2, steps=20), tmp_path / "run"
    shutil.copytree(OLD, run)
    state = json.loads((run / "run.json").read_text())
    state["inputs"]["data.pack"] = hash_file(tmp_path / "pack.h5")
    (run / "run.json").write_text(json.dumps(state))
    (run / "events").mkdir()
    (run / "events" / "events.out.tfevents.0.tfperf").touch()
    (run / "report.html").write_text("<html>")
    return card, run


def carry_out(*arguments):
    done = CliRunner().invoke(main, [str(a) for a in arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


def test_verbs_that_read_results_read_those_of_the_first_version(old, tmp_path):
    card, run = old
    assert carry_out("postfit", run)[0] == 0
    theory = [word for one in ("order=NLO", "alphas_mz=0.118", "mc=1.51", "mb=4.92") for word in ("--theory", one)]
    assert carry_out("export-lhapdf", run, "-o", tmp_path / "set", "--name", "old", *theory)[0] == 0
    assert carry_out("compare", run, run)[0] == 0
    assert find_log_directory(run) == run / "events"
    for key in ("data.t0", "closure.law"):
        code, said = carry_out("check", card, "--set", f"{key}={run}")
        assert code == 0 and "\nok\n" in said, said


def test_a_finished_run_is_left_as_it_is(old):
    card, run = old
    before = (run / "results.h5").read_bytes()
    for name in ("report.html", "report.json"):
        (run / name).touch()
    code, said = carry_out("fit", card, "-o", run, "--resume")
    assert code == 0 and "nothing left to do" in said
    assert (run / "results.h5").read_bytes() == before and (run / "report.html").read_text() == "<html>"


def test_nothing_is_added_to_a_run_of_the_first_version(old):
    card, run = old
    code, said = carry_out("fit", card, "-o", run, "--replicas", "7-8")
    assert code == 2 and "made by tfperf 0.1.0" in said


def test_an_unfinished_run_is_refused_by_its_version_and_may_be_begun_again(old):
    card, run = old
    state = json.loads((run / "run.json").read_text())
    state["parts"][0]["done"] = False
    (run / "run.json").write_text(json.dumps(state))
    code, said = carry_out("fit", card, "-o", run, "--resume")
    assert code == 2 and "begun by tfperf 0.1.0 and not finished" in said.replace("\n", " ")
    assert carry_out("compare", run, run)[0] == 2
    assert store.read(run / "results.h5").replicas.id.tolist() == [1, 2]


def test_a_run_that_began_before_its_workload_was_renamed_goes_on(finished, tmp_path):
    card, run = copy_inputs(finished, tmp_path), tmp_path / "run"
    shutil.copytree(finished / "run", run)
    content = json.loads((run / "run.json").read_text())
    old = (run / "card.yaml").read_text().replace("workload: pdf", "workload: replicas")
    (run / "card.yaml").write_text(old)
    content["digest"] = digest_inputs(load_card(card), KIND, content["inputs"], "replicas")
    rest = {key: value for key, value in content.items() if key not in ("format", "sha256")}
    content["sha256"] = hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()
    (run / "run.json").write_text(json.dumps(content))
    with h5py.File(run / "results.h5", "r+") as file:
        file.attrs["digest"] = encode_texts(content["digest"])
    assert fit(card, run, options=Options(replicas=(7,))).summary["replicas"]["total"] == 4
