"""Hadronic sets from a pack with channels to the report."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

import tfperf
from tests import make_hadronic as hadronic
from tests import reference
from tests.make_pack import make_card
from tfperf.cli import main
from tfperf.workloads.pdf.cards import load_card
from tfperf.workloads.pdf.data.closure import compute_toy_pdf
from tfperf.workloads.pdf.data.selection import select
from tfperf.workloads.pdf.operators.problem import build_problem

pytestmark = pytest.mark.usefixtures("blank_pictures")

OVERRIDES = ["engine.form=folded", "engine.check_every=20", "positivity.initial=1", "positivity.final=10"]


@pytest.fixture(scope="module", params=[pytest.param("exact", marks=pytest.mark.slow), "within a tolerance"])
def run(request, tmp_path_factory, blank_pictures_of_module):
    folder = tmp_path_factory.mktemp("hadronic")
    hadronic.make_pack(folder / "pack.h5")
    more = [] if request.param == "exact" else ["engine.tolerance=1e-3"]
    result = tfperf.fit(make_card(folder, steps=40), folder / "run", overrides=[*OVERRIDES, *more])
    card = load_card(folder / "card.yaml", OVERRIDES)
    return folder / "run", result, build_problem(card, select(card), card.replicas)


def test_numbers_of_each_dataset_are_those_of_all_flavours_and_dense_covariances(run):
    folder, result, problem = run
    report = json.loads((folder / "report.json").read_text())
    good = result.converged if result.converged.any() else slice(None)
    mean = hadronic.predictions(problem.datasets, result.pdf[good].mean(axis=0))
    residual = mean - problem.central
    t0 = [d.t0 for d in problem.datasets]
    for key, cov in (
        ("chi2", reference.covariance(problem.datasets, t0)), ("chi2_no_t0", reference.covariance(problem.datasets)),
    ):  # fmt: skip
        whole = reference.chi2(residual, cov, np.ones(len(mean), bool)) / len(mean)
        assert report[f"{key}_per_point"] == pytest.approx(whole, rel=1e-9)
        for name, rows in problem.sets.items():
            mask = np.isin(np.arange(len(mean)), np.arange(rows.start, rows.stop))
            want = reference.chi2(residual, cov, mask) / mask.sum()
            assert report["chi2_per_dataset"][name][key] == pytest.approx(want, rel=1e-9), name
            assert report["chi2_per_dataset"][name]["ndata"] == mask.sum()
    assert set(report["chi2_per_dataset"]) == set(hadronic.SYSTEMATICS)
    cov = reference.covariance(problem.datasets, t0)
    for r, pdf in enumerate(result.pdf):
        y = hadronic.predictions(problem.datasets, pdf)
        np.testing.assert_allclose(np.concatenate([d.predictions[r] for d in result.datasets]), y, rtol=1e-12)
        for name, mask in (("training", problem.training[r]), ("validation", ~problem.training[r])):
            want = reference.chi2(y - problem.data[r], cov, mask) / mask.sum()
            assert getattr(result.replicas, f"chi2_{name}")[r] == pytest.approx(want, rel=1e-9)
        penalty = sum(np.maximum(0, -hadronic.evaluate(p.table, pdf)).sum() for p in problem.pack.positivity)
        penalty += hadronic.sum_negative_denominators(problem.datasets, pdf, compute_toy_pdf(problem.pack.x))
        assert result.replicas.positivity[r] == pytest.approx(penalty, rel=1e-9, abs=1e-12)


def test_training_brings_chi2_down(run):
    _, result, _ = run
    assert (result.history.training[-1] < 0.5 * result.history.training[0]).all()


def test_report_shows_kinematics_by_their_names(run):
    folder, result, _ = run
    names = {d.name: d.kin_columns for d in result.datasets}
    assert names["DY"] == ("rapidity", "mass") and names["DIS"] == ("x", "Q2", "y")
    page = (folder / "report.html").read_text()
    assert all(name in page for name in hadronic.SYSTEMATICS)


def test_cuts_of_x_and_q2_leave_hadronic_sets_whole_and_are_refused_where_asked_for(tmp_path):
    hadronic.make_pack(tmp_path / "pack.h5")
    card = make_card(tmp_path)
    sizes = {d.name: len(d.cv) for d in select(load_card(card, ["data.cuts={q2_min: 60}"])).pack.datasets}
    assert (sizes["DY"], sizes["DY2"]) == (9, 7) and sizes["DIS"] < 17
    cuts = "data.sets=[{name: DIS}, {name: DY, cuts: {q2_min: 40}}]"
    for verb in (["check"], ["fit", "-o", str(tmp_path / "run")]):
        result = CliRunner().invoke(main, [verb[0], str(card), *verb[1:], "--set", cuts])
        assert result.exit_code == 2 and "Traceback" not in result.output
        assert "data.sets.1.cuts: got a mapping; the tables of DY are hadronic: it has no x and Q2" in result.output
    assert not (tmp_path / "run" / "results.h5").exists()


def test_any_set_is_cut_in_its_own_columns(tmp_path):
    hadronic.make_pack(tmp_path / "pack.h5")
    card = make_card(tmp_path)

    def choose(*overrides):
        return {d.name: d for d in select(load_card(card, list(overrides))).pack.datasets}

    every = choose()
    middle = float(np.median(every["DY"].kin[:, 1]))
    cut = choose(f"data.sets=[{{name: DY, cuts: {{columns: {{mass: [{middle}, null]}}}}}}, {{name: DIS}}]")
    keep = every["DY"].kin[:, 1] >= middle
    np.testing.assert_array_equal(cut["DY"].cuts, every["DY"].cuts[keep])
    np.testing.assert_array_equal(cut["DY"].tables[0].read_values(), every["DY"].tables[0].read_values()[keep])
    assert len(cut["DIS"].cv) == len(every["DIS"].cv)
    both = choose("data.cuts={columns: {mass: [60, null], Q2: [null, 60]}}")
    for name, dataset in both.items():
        is_high = every[name].kin[:, 1] >= 60
        assert len(dataset.cv) == (is_high if "mass" in dataset.kin_names else ~is_high).sum(), name
    for cuts, words in (
        ("columns: {y: [1, 2]}", "data.sets.0.cuts.columns.y: got [1, 2]; DY has no such column; allowed: rapidity"),
        ("columns: {mass: [70, 60]}", "must be [low, high] with low <= high"),
        ("columns: {mass: [1000, null]}", "no point of DY passes"),
    ):
        result = CliRunner().invoke(main, ["check", str(card), "--set", f"data.sets=[{{name: DY, cuts: {{{cuts}}}}}]"])
        assert result.exit_code == 2 and words in result.output, result.output
