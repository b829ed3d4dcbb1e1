"""The report of a run on those replicas that its postfit has chosen."""

import json
import shutil

import h5py
import numpy as np
import pytest
from click.testing import CliRunner

import tfperf
from tests import reference
from tests.make_pack import make_card
from tfperf.cli import main
from tfperf.errors import RunDirectoryError
from tfperf.results.contents import RESULTS
from tfperf.workloads.pdf.cards import load_card
from tfperf.workloads.pdf.compare import compare_fits
from tfperf.workloads.pdf.data.selection import select
from tfperf.workloads.pdf.operators.problem import build_problem
from tfperf.workloads.pdf.results import store
from tfperf.workloads.pdf.results.lhapdf import export
from tfperf.workloads.pdf.survivors import write_survivor_report

pytestmark = pytest.mark.usefixtures("blank_pictures")
WEAK = ["positivity.threshold=1e6", "train.stopping.patience=60"]


@pytest.fixture(scope="module")
def fitted(tmp_path_factory, blank_pictures_of_module):
    folder = tmp_path_factory.mktemp("survivors")
    result = tfperf.fit(make_card(folder, steps=20, replicas=5), folder / "run", overrides=WEAK)
    return folder / "run", result


def test_mean_chi2_and_report_are_of_the_chosen_ones(fitted):
    run, result = fitted
    before = (run / RESULTS).read_bytes()
    said = CliRunner().invoke(main, ["postfit", str(run), "-n", "2"])
    assert said.exit_code == 0, said.output
    chosen = json.loads((run / "postfit.json").read_text())["chosen"]
    report = json.loads((run / "report.json").read_text())
    assert len(chosen) == 2 and report["postfit"] == {"chosen": 2, "replicas": chosen}
    assert "2 chosen by postfit" in " ".join(said.output.split())
    card = load_card(run / "card.yaml")
    problem = build_problem(card, select(card), card.replicas)
    mean = problem.observables.predict(result.pdf[np.isin(result.replicas.id, chosen)].mean(axis=0))
    residual, t0 = mean - problem.central, [d.t0 for d in problem.datasets]
    for key, covariance in (
        ("chi2", reference.covariance(problem.datasets, t0)), ("chi2_no_t0", reference.covariance(problem.datasets)),
    ):  # fmt: skip
        whole = reference.chi2(residual, covariance, np.ones(len(mean), bool)) / len(mean)
        assert report[f"{key}_per_point"] == pytest.approx(whole, rel=1e-9) != result.summary[f"{key}_per_point"]
        for name, rows in problem.sets.items():
            mask = np.isin(np.arange(len(mean)), np.arange(rows.start, rows.stop))
            want = reference.chi2(residual, covariance, mask) / mask.sum()
            assert report["chi2_per_dataset"][name][key] == pytest.approx(want, rel=1e-9), name
    page = (run / "report.html").read_text()
    assert "replicas chosen by postfit" in page and "2 replicas chosen by postfit" in page
    assert (run / RESULTS).read_bytes() == before
    lines: list[str] = []
    theory = {"order": "NLO", "alphas_mz": "0.118", "mc": "1.51", "mb": "4.92"}
    export(run, run.parent / "sets", "a_set", lines.append, theory)
    assert lines == ["2 of 5 replicas were chosen by postfit and are exported"]


def test_what_is_loaded_and_compared_afterwards_is_of_the_chosen_ones(fitted):
    run, result = fitted
    assert CliRunner().invoke(main, ["postfit", str(run), "-n", "2"]).exit_code == 0
    loaded = tfperf.load(run)
    assert loaded.selected.sum() == 2 and loaded.survivors is not None
    assert loaded.summary["chi2_per_point"] == json.loads((run / "report.json").read_text())["chi2_per_point"]
    changes, _ = compare_fits(run, run)
    (chi2,) = [one for one in changes if one.name == "training chi2 per replica"]
    assert chi2.now == pytest.approx(result.replicas.chi2_training[loaded.selected].mean())


def test_data_that_changed_since_the_fit_leave_the_report_as_it_is(fitted, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(fitted[0].parent, tmp_path, dirs_exist_ok=True)
    card = run / "card.yaml"
    card.write_text(card.read_text().replace(str(fitted[0].parent), str(tmp_path)))
    before = (run / "report.json").read_bytes()
    with h5py.File(tmp_path / "pack.h5", "r+") as file:
        file["AAA_F2/cv"][...] *= 1.5
    said = CliRunner().invoke(main, ["postfit", str(run), "-n", "2"])
    assert said.exit_code == 0 and "data.pack: not the file that the run was fitted to" in " ".join(said.output.split())
    assert (run / "report.json").read_bytes() == before


def test_a_run_without_postfit_has_no_survivors(fitted, tmp_path):
    _, result = fitted
    store.write(tmp_path / RESULTS, result)
    with pytest.raises(RunDirectoryError, match="postfit has chosen no replica"):
        write_survivor_report(tmp_path)
