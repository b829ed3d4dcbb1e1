"""A run from card to report, and what a second command in its directory may do."""

import json
import shutil

import h5py
import numpy as np
import pytest

import tfperf
from tests import reference
from tests.make_pack import make_card
from tests.runs.conftest import same_bits
from tfperf.errors import CardError, RunDirectoryError
from tfperf.results.rundir import RunDirectory
from tfperf.workloads.options import Options
from tfperf.workloads.pdf.cards import load_card
from tfperf.workloads.pdf.data.selection import select
from tfperf.workloads.pdf.operators.problem import build_problem
from tfperf.workloads.pdf.results import store
from tfperf.workloads.replica_chunks import ReplicaChunk


def copy(finished, folder):
    for name in ("card.yaml", "pack.h5"):
        shutil.copy(finished / name, folder / name)
    shutil.copytree(finished / "run", folder / "run")
    return folder / "card.yaml", folder / "run"


def test_report_has_what_it_promises(finished):
    report = json.loads((finished / "run" / "report.json").read_text())
    assert set(report) >= {
        "chi2_per_point", "chi2_no_t0_per_point", "chi2_per_dataset", "chi2_blocks_per_point", "replicas", "steps",
        "resumed_from_steps", "seconds", "ms_per_step", "peak_rss_bytes", "engine", "versions",
    }  # fmt: skip
    assert report["replicas"] == {"total": 3, "converged": 3, "failed": 0, "by_status": report["replicas"]["by_status"]}
    assert set(report["seconds"]) == {"import", "data", "build", "compile", "train", "write", "total"}
    assert sum(v for k, v in report["seconds"].items() if k != "total") <= report["seconds"]["total"]
    for name in ("card.yaml", "environment.json", "results.h5", "report.html", "events", "checkpoints"):
        assert (finished / "run" / name).exists()


def test_chi2_of_the_report_is_that_of_dense_covariances(finished):
    run = finished / "run"
    report, result = json.loads((run / "report.json").read_text()), store.read(run / "results.h5")
    card = load_card(finished / "card.yaml")
    problem = build_problem(card, select(card), card.replicas)
    mean = problem.observables.predict(result.pdf.mean(axis=0))
    every = np.ones(len(mean), bool)
    residual = mean - problem.central
    for key, t0 in (("chi2_per_point", [d.t0 for d in problem.datasets]), ("chi2_no_t0_per_point", None)):
        cov = reference.covariance(problem.datasets, t0)
        assert report[key] == pytest.approx(reference.chi2(residual, cov, every) / len(mean), rel=1e-10)
    cov = reference.covariance(problem.datasets, [d.t0 for d in problem.datasets])
    total = 0.0
    for dataset, rows in zip(problem.datasets, problem.sets.values(), strict=True):
        mask = np.zeros_like(every)
        mask[rows] = True
        want = reference.chi2(residual, cov, mask) / mask.sum()
        total += want * mask.sum()
        assert report["chi2_per_dataset"][dataset.name]["chi2"] == pytest.approx(want, rel=1e-10)
    assert report["chi2_blocks_per_point"] == pytest.approx(total / len(mean), rel=1e-12)
    for r in range(3):
        y = problem.observables.predict(result.pdf[r])
        mask = problem.training[r]
        for name, data, which in (
            ("chi2_training", problem.data[r], mask),
            ("chi2_validation", problem.data[r], ~mask),
            ("chi2_experimental", problem.central, every),
        ):
            want = reference.chi2(y - data, cov, which) / which.sum()
            assert getattr(result.replicas, name)[r] == pytest.approx(want, rel=1e-10)


def test_loading_the_package_does_not_load_tensorflow():
    import subprocess
    import sys

    code = "import sys, tfperf, tfperf.cli; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
    assert callable(tfperf.fit)


def test_used_directory_is_refused_with_the_ways_out(finished, tmp_path):
    card, run = copy(finished, tmp_path)
    with pytest.raises(RunDirectoryError, match="resume=True"):
        tfperf.fit(card, run)


def test_resuming_a_finished_run_changes_nothing(finished, tmp_path):
    card, run = copy(finished, tmp_path)

    def read_all():
        return {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and path.name != "run.log"}

    before = read_all()
    result = tfperf.fit(card, run, options=Options(resume=True))
    assert result.summary["chi2_per_point"] > 0
    assert before == read_all()


def test_changed_card_or_data_is_not_resumed(finished, tmp_path):
    card, run = copy(finished, tmp_path)
    with pytest.raises(RunDirectoryError, match=r"train\.steps: got 130, the run has 120"):
        tfperf.fit(card, run, overrides=["train.steps=130"], options=Options(resume=True))
    from tests.make_pack import make_pack

    make_pack(tmp_path / "pack.h5", seed=4)
    with pytest.raises(RunDirectoryError, match=r"data\.pack: not the file"):
        tfperf.fit(card, run, options=Options(resume=True))


def test_run_may_be_moved_with_its_data(finished, tmp_path):
    card, run = copy(finished, tmp_path)
    tfperf.fit(card, run, options=Options(resume=True))


def test_two_runs_do_not_share_a_directory(finished, tmp_path):
    card, run = copy(finished, tmp_path)
    with RunDirectory(run, ReplicaChunk) as other:
        other.acquire()
        with pytest.raises(RunDirectoryError, match="another process"):
            tfperf.fit(card, run, options=Options(resume=True))


def test_folder_of_something_else_is_never_cleared(tmp_path):
    card = make_card(tmp_path)
    precious = tmp_path / "run" / "thesis.tex"
    precious.parent.mkdir()
    precious.write_text("years of work")
    for options in (Options(), Options(force=True)):
        with pytest.raises(RunDirectoryError, match="not empty"):
            tfperf.fit(card, tmp_path / "run", options=options)
    assert precious.read_text() == "years of work"


def test_force_begins_again_to_the_same_bits(finished, tmp_path):
    card, run = copy(finished, tmp_path)
    (run / "results.h5").unlink()
    tfperf.fit(card, run, options=Options(force=True))
    same_bits(finished / "run", run)


def test_more_replicas_extend_a_finished_run_and_leave_the_others_as_they_are(finished, tmp_path):
    card, run = copy(finished, tmp_path)
    old = store.read(run / "results.h5")
    with pytest.raises(RunDirectoryError, match="replica 3 is there already"):
        tfperf.fit(card, run, options=Options(replicas=(3, 4)))
    result = tfperf.fit(card, run, options=Options(replicas=(4, 5)))
    assert result.replicas.id.tolist() == [1, 2, 3, 4, 5]
    np.testing.assert_array_equal(result.pdf[:3], old.pdf)
    np.testing.assert_allclose(result.replicas.chi2_training[:3], old.replicas.chi2_training, rtol=1e-12)
    assert result.summary["replicas"]["total"] == 5
    # a replica that is added is the one that a run of its own would have had, up to the rounding of another stack
    card = load_card(card, ["replicas=4-5"])
    alone = tfperf.fit(card, tmp_path / "alone")
    assert alone.replicas.best_step.tolist() == result.replicas.best_step[3:].tolist()
    np.testing.assert_array_equal(alone.pdf, result.pdf[3:])


def test_failed_replicas_are_retried_from_new_weights(tmp_path, monkeypatch):
    from tfperf.workloads.pdf.model import PDF

    card, run = make_card(tmp_path, replicas=3, steps=40), tmp_path / "run"
    initialize = PDF.initialize

    def broken(self, seed, ids, attempts):
        initialize(self, seed, ids, attempts)
        kernel = self.hidden[0].kernel
        value = kernel.numpy()
        for row, (replica, attempt) in enumerate(zip(ids, attempts, strict=True)):
            if (replica, attempt) == (2, 0):
                value[row] = np.nan
        kernel.assign(value)

    monkeypatch.setattr(PDF, "initialize", broken)
    first = tfperf.fit(card, run)
    assert first.replicas.status[1] == "quarantined" and first.summary["replicas"]["failed"] == 1
    again = tfperf.fit(card, run, options=Options(retry_failed=True))
    assert again.summary["replicas"]["failed"] == 0 and again.replicas.attempt.tolist() == [0, 1, 0]
    np.testing.assert_array_equal(again.pdf[[0, 2]], first.pdf[[0, 2]])


@pytest.mark.slow
def test_t0_of_a_run_and_of_a_fit_made_first(tmp_path):
    card = make_card(tmp_path, replicas=2, steps=40)
    made = tfperf.fit(card, tmp_path / "made", overrides=["data.t0=fit"])
    assert store.read(tmp_path / "made" / "t0" / "results.h5").replicas.id.tolist() == list(range(1, 21))
    named = tfperf.fit(card, tmp_path / "named", overrides=[f"data.t0={tmp_path / 'made' / 't0'}"])
    np.testing.assert_array_equal(made.pdf, named.pdf)
    plain = tfperf.fit(card, tmp_path / "plain", overrides=["data.t0=none"])
    assert plain.summary["chi2_per_point"] == plain.summary["chi2_no_t0_per_point"] != made.summary["chi2_per_point"]


def test_fault_found_late_leaves_the_old_run_as_it_was(finished, tmp_path):
    card, run = copy(finished, tmp_path)
    for override in ("data.exclude=[CCC]", f"data.t0={run}", "data.cuts={x_min: 0.99}"):
        with pytest.raises(CardError):
            tfperf.fit(card, run, overrides=[override], options=Options(force=True))
        assert (run / "results.h5").exists()


def test_results_of_another_run_are_never_taken_up(finished, tmp_path):
    card, run = copy(finished, tmp_path)
    (run / "run.json").unlink()
    for options in (Options(), Options(force=True)):
        with pytest.raises(RunDirectoryError, match="is not empty and holds no run"):
            tfperf.fit(card, run, overrides=["replicas=2", "seed=99"], options=options)
    same_bits(finished / "run", run)


def test_card_is_not_overwritten_by_the_run_that_it_starts(tmp_path):
    (folder := tmp_path / "cards").mkdir()
    make_card(tmp_path)
    shutil.copy(tmp_path / "card.yaml", folder / "card.yaml")
    with pytest.raises(RunDirectoryError, match="not empty"):
        tfperf.fit(folder / "card.yaml", folder, overrides=["data.pack=../pack.h5"])


def test_extra_covariance_cannot_vanish_from_a_run(tmp_path):
    card = make_card(tmp_path, replicas=2, steps=20)
    problem = build_problem(load_card(card), select(load_card(card)), (1,))
    n = len(problem.central)
    with h5py.File(tmp_path / "extra.h5", "w") as file:
        file["covmat"] = 1e-4 * np.outer(problem.central, problem.central)
        file["sets"] = [d.name for d in problem.datasets for _ in d.cuts]
        file["rows"] = np.concatenate([d.cuts for d in problem.datasets])
    extra = ["covariance.extra=extra.h5"]
    with_extra = load_card(card, extra)
    plain = load_card(card, [*extra, "covariance.sample_extra=false"])
    both = [build_problem(c, select(c), (1, 2)) for c in (load_card(card), plain)]
    sampled = build_problem(with_extra, select(with_extra), (1, 2))
    assert np.all(sampled.data != both[1].data) and np.array_equal(sampled.training, both[1].training)
    for name in (d.name for d in both[0].datasets):  # the same noise and splits, in whatever order the sets come
        rows = [p.sets[name] for p in both]
        np.testing.assert_array_equal(both[0].data[:, rows[0]], both[1].data[:, rows[1]])
        np.testing.assert_array_equal(both[0].training[:, rows[0]], both[1].training[:, rows[1]])
    assert n == len(both[1].central)
    tfperf.fit(card, tmp_path / "run", overrides=extra)
    with pytest.raises(RunDirectoryError, match=r"covariance\.extra: not the file"):
        tfperf.fit(card, tmp_path / "run", options=Options(replicas=(4, 5)))


@pytest.mark.parametrize("damage", ["", "[1, 2]", "a: [", "data: 3"])
def test_damaged_run_is_told_without_a_traceback(finished, tmp_path, damage):
    card, run = copy(finished, tmp_path)
    (run / "card.yaml").write_text(damage)
    with pytest.raises(RunDirectoryError, match="card"):
        tfperf.fit(card, run, options=Options(resume=True))
    (run / "run.json").write_text(damage)
    with pytest.raises(RunDirectoryError, match="damaged"):
        tfperf.fit(card, run, options=Options(resume=True))


@pytest.mark.parametrize("options", [Options(resume=True, force=True), Options(retry_failed=True, replicas=(7,))])
def test_contradictory_wishes_are_refused(finished, tmp_path, options):
    card, run = copy(finished, tmp_path)
    with pytest.raises(CardError):
        tfperf.fit(card, run, options=options)


def test_resuming_with_replicas_that_the_run_does_not_have_is_refused(finished, tmp_path):
    card, run = copy(finished, tmp_path)
    with pytest.raises(RunDirectoryError, match="replicas: got 8-9"):
        tfperf.fit(card, run, options=Options(resume=True, replicas=(8, 9)))


def test_run_leaves_nothing_when_no_directory_is_asked_for(tmp_path):
    result = tfperf.fit(make_card(tmp_path, replicas=2, steps=20))
    assert result.summary["replicas"]["total"] == 2
    assert {p.name for p in tmp_path.iterdir()} == {"card.yaml", "pack.h5"}


def test_weights_after_the_last_step_can_be_the_best(tmp_path):
    result = tfperf.fit(
        make_card(tmp_path, replicas=3, steps=1), overrides=["train.steps_per_call=1", "positivity.sets=none"]
    )
    assert result.replicas.best_step.tolist() == [1, 1, 1]


def test_weight_of_a_set_stays_out_of_the_history(tmp_path):
    card = make_card(tmp_path, replicas=2, steps=2)
    one, four = (
        tfperf.fit(card, overrides=["train.steps_per_call=1", f"data.sets=[{{name: DDD_SMN, weight: {w}}}]"])
        for w in (1, 4)
    )
    # the first update barely moves the weights: the rows would differ by a factor of four
    np.testing.assert_allclose(one.history.training[0], four.history.training[0], rtol=0.1)


def test_pack_without_t0_is_refused_with_the_way_out(tmp_path):
    card = make_card(tmp_path)
    with h5py.File(tmp_path / "pack.h5", "a") as file:
        del file["AAA_F2/t0"]
    with pytest.raises(CardError, match=r"data\.t0: .*AAA_F2.*none, fit"):
        tfperf.fit(card, tmp_path / "run")
