"""Runs and sweeps side by side."""

import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import ttest_ind, ttest_rel

from tests.make_result import make_result
from tests.study.sweeps import run, sweep_card
from tfperf.cli import main
from tfperf.errors import RunDirectoryError
from tfperf.report.compare import SAME, UNKNOWN
from tfperf.results.json_text import to_json
from tfperf.results.state import Part, RunState, write_state
from tfperf.study.compare import compare_folders
from tfperf.study.finished_trials import PROOF_FAILED, RESULTS, FinishedTrial, read_finished_trials
from tfperf.workloads.pdf.results import store
from tfperf.workloads.replica_chunks import ReplicaChunk
from tfperf.workloads.translate.state import VocabularyDigests


def make_run(folder, result=None, done=True, **report):
    """A finished run of six replicas, the second of which was quarantined."""
    result = result or make_result()
    folder.mkdir()
    ids = result.replicas.id.tolist()
    write_state(
        folder / "run.json",
        RunState("0" * 64, {}, [Part(ReplicaChunk(ids, [0] * len(ids)), "0" * 32, done=done)], "1.0", "0" * 32),
    )
    (folder / "report.json").write_text(to_json({**result.summary, **report}))
    store.write(folder / "results.h5", result)
    return folder


def changed(result, factor=1.1, seed=0):
    """The same replicas with a larger chi2, nearly as scattered."""
    noise = 1e-3 * np.random.default_rng(seed).normal(size=len(result.replicas.id))
    return replace(
        result, replicas=replace(result.replicas, chi2_training=factor * result.replicas.chi2_training + noise)
    )


def changes(*folders):
    found = compare_folders(folders)
    return [{change.name: change for change in comparison.changes} for comparison in found]


def test_a_run_is_the_same_as_itself(tmp_path):
    folder = make_run(tmp_path / "a")
    (found,) = changes(folder, folder)
    assert {c.amount for c in found.values()} == {0.0}
    assert {c.verdict for c in found.values()} == {SAME, UNKNOWN}
    assert found["chi2 of all points"].verdict == UNKNOWN and found["ms per step"].verdict == SAME


def test_the_same_replicas_are_compared_two_by_two(tmp_path):
    a = make_result(failed=2)  # one of them has a chi2
    b = changed(a)
    (found,) = changes(make_run(tmp_path / "a", a), make_run(tmp_path / "b", b))
    good = a.converged
    assert np.isfinite(a.replicas.chi2_training[~good]).any()
    x, y = a.replicas.chi2_training[good], b.replicas.chi2_training[good]
    change = found["training chi2 per replica"]
    want = ttest_rel(y, x).confidence_interval(0.95)
    assert (change.low, change.high) == (pytest.approx(want.low), pytest.approx(want.high))
    assert (change.before, change.now, change.verdict) == (pytest.approx(x.mean()), pytest.approx(y.mean()), "higher")
    assert ttest_ind(y, x).confidence_interval(0.95).low < change.low, "pairs tell more: the test shows it"
    assert found["validation chi2 per replica"].verdict == SAME


def test_other_replicas_are_compared_by_their_means(tmp_path):
    a, b = make_result(), changed(make_result(seed=2, replicas=8))
    (found,) = changes(make_run(tmp_path / "a", a), make_run(tmp_path / "b", b))
    change = found["training chi2 per replica"]
    values = [r.replicas.chi2_training[r.converged] for r in (b, a)]
    want = ttest_ind(*values, equal_var=False).confidence_interval(0.95)
    assert (change.low, change.high) == (pytest.approx(want.low), pytest.approx(want.high))


def test_another_seed_is_other_noise_under_the_same_numbers(tmp_path):
    a = make_result()
    b = changed(a)
    other = replace(b, replicas=replace(b.replicas, seed=b.replicas.seed + 1))
    pairs, means = (
        changes(make_run(tmp_path / f"a{i}", a), make_run(tmp_path / f"b{i}", run))[0]["training chi2 per replica"]
        for i, run in enumerate((b, other))
    )
    assert pairs.amount == pytest.approx(means.amount) and means.high - means.low > 3 * (pairs.high - pairs.low)


@pytest.mark.parametrize(
    ("quartiles", "verdict"),
    [((5.5, 5.3, 6.0), SAME), ((9.0, 8.5, 9.5), "slower, one run each"), ((2.0, 1.9, 2.1), "faster, one run each")],
)
def test_steps_differ_where_the_quartiles_of_calls_do(tmp_path, quartiles, verdict):
    ms = dict(zip(("median", "q1", "q3"), quartiles, strict=True))
    before, now = make_run(tmp_path / "a"), make_run(tmp_path / "b", ms_per_step=ms)  # the first has 5.25, 5.5, 6.125
    (found,) = changes(before, now)
    change = found["ms per step"]
    assert change.verdict == verdict and change.amount == quartiles[0] - 5.5
    assert (change.low, change.high) == (quartiles[1] - 6.125, quartiles[2] - 5.25)


def test_each_run_is_set_against_the_first(tmp_path):
    folders = [make_run(tmp_path / name, make_result(failed=failed)) for name, failed in (("a", 0), ("b", 1), ("c", 3))]
    first, second = changes(*folders)
    assert first["share of replicas converged"].amount == pytest.approx(-1 / 6)
    assert second["share of replicas converged"].amount == pytest.approx(-3 / 6)
    assert first["share of replicas converged"].verdict == SAME


def make_sweep(folder, factor=1.0, repeats=3, titles=("a", "b"), spread=0.01):
    """A finished sweep with times of our own: 2 ms a step, times the factor for title b."""
    folder.mkdir()
    run(sweep_card(folder, titles, repeats=repeats), folder / "out")
    lines = []
    for i, row in enumerate(
        sorted(read_finished_trials(folder / "out"), key=lambda row: (row.repeat, row.values["title"]))
    ):
        ms = 2.0 * (factor if row.values["title"] == "b" else 1.0) * (1 + spread * (i % 3 - 1))
        lines.append(FinishedTrial(row.values, row.repeat, 1.0, {"ms_per_step": {"median": ms}}).format_line() + "\n")
    (folder / "out" / RESULTS).write_text("".join(lines))
    return folder / "out"


def test_points_of_sweeps_are_compared_by_ratios(tmp_path):
    (found,) = changes(make_sweep(tmp_path / "a"), make_sweep(tmp_path / "b", factor=1.5))
    same, slower = found["title=a replicas=1"], found["title=b replicas=1"]
    assert same.verdict == SAME and same.low < 1 < same.high
    assert slower.amount == pytest.approx(1.5) and slower.verdict == "slower"
    logs = [np.log(2 * factor * np.array([0.99, 1.0, 1.01])) for factor in (1.5, 1)]
    want = ttest_ind(*logs, equal_var=False).confidence_interval(0.95)
    assert (slower.low, slower.high) == (pytest.approx(np.exp(want.low)), pytest.approx(np.exp(want.high)))
    (back,) = changes(tmp_path / "b" / "out", tmp_path / "a" / "out")
    b = back["title=b replicas=1"]
    assert b.verdict == "faster" and b.amount == pytest.approx(1 / 1.5)


def test_one_repeat_has_no_interval(tmp_path):
    (found,) = changes(make_sweep(tmp_path / "a", repeats=1), make_sweep(tmp_path / "b", repeats=1, factor=3))
    assert {c.verdict for c in found.values()} == {UNKNOWN}


def test_points_that_are_in_one_sweep_alone_are_named(tmp_path):
    a, b = make_sweep(tmp_path / "a"), make_sweep(tmp_path / "b", titles=("b", "c"))
    (comparison,) = compare_folders([a, b])
    assert [c.name for c in comparison.changes] == ["title=b replicas=1"]
    assert (
        f"only in {a}: title=a replicas=1" in comparison.notes
        and f"only in {b}: title=c replicas=1" in comparison.notes
    )
    c = make_sweep(tmp_path / "c", titles=("x",))
    with pytest.raises(RunDirectoryError, match="has no point of"):
        compare_folders([a, c])


def test_other_batches_and_failed_proofs_are_not_compared(tmp_path):
    a, b = make_sweep(tmp_path / "a"), make_sweep(tmp_path / "b")
    for folder, batches in ((a, "one"), (b, "two")):
        lines = []
        for row in read_finished_trials(folder):
            record = {"ms_per_step": {"median": 2.0}}
            if row.values["title"] == "a":
                lines.append(
                    FinishedTrial(row.values, row.repeat, 1.0, record | {"work": {"batches": batches}}).format_line()
                )
            else:
                error = f"{PROOF_FAILED}b" if folder == b and row.repeat == 1 else ""
                lines.append(FinishedTrial(row.values, row.repeat, 1.0, {} if error else record, error).format_line())
        (folder / RESULTS).write_text("\n".join(lines) + "\n")
    (found,) = compare_folders([a, b])
    assert found.changes == [] or not list(found.changes)
    assert "not the same batches in both: title=a replicas=1" in found.notes
    assert "not measured in both, or not proved: title=b replicas=1" in found.notes


def cut(folder):
    lines = (folder / RESULTS).read_text().splitlines(keepends=True)
    (folder / RESULTS).write_text("".join(lines[:-1]))


def test_unfinished_and_damaged_sweeps_are_refused(tmp_path):
    a = make_sweep(tmp_path / "a")
    b = make_sweep(tmp_path / "b")
    cut(b)
    with pytest.raises(RunDirectoryError, match="not finished, 5 of 6 trials are done"):
        compare_folders([a, b])
    (b / "sweep.json").write_text("{")
    with pytest.raises(RunDirectoryError, match="damaged"):
        compare_folders([a, b])


def test_unfinished_and_damaged_runs_are_refused(tmp_path):
    a = make_run(tmp_path / "a")
    with pytest.raises(RunDirectoryError, match="the run is not finished"):
        compare_folders([a, make_run(tmp_path / "b", done=False)])
    for name, file in (("c", "report.json"), ("d", "results.h5"), ("e", "run.json")):
        broken = make_run(tmp_path / name)
        (broken / file).write_text("[")
        with pytest.raises(RunDirectoryError, match=f"{file}: damaged"):
            compare_folders([a, broken])


def test_what_cannot_be_compared_is_refused(tmp_path):
    a = make_run(tmp_path / "a")
    with pytest.raises(RunDirectoryError, match="is no run, no sweep and no memory study"):
        compare_folders([a, tmp_path])
    with pytest.raises(RunDirectoryError, match="no such folder"):
        compare_folders([a, tmp_path / "none"])
    with pytest.raises(RunDirectoryError, match=r"is a sweep, .* is a fit of replicas; two of the same kind"):
        compare_folders([a, make_sweep(tmp_path / "s")])


def test_the_command_prints_each_change(tmp_path):
    folders = [str(make_run(tmp_path / "a")), str(make_run(tmp_path / "b", changed(make_result())))]
    found = CliRunner().invoke(main, ["compare", *folders])
    assert found.exit_code == 0 and "higher" in found.output and SAME in found.output
    assert CliRunner().invoke(main, ["compare", folders[0]]).exit_code == 2
    assert CliRunner().invoke(main, ["compare", folders[0], str(tmp_path)]).exit_code == 2
    assert json.loads((tmp_path / "a" / "report.json").read_text())["steps"] == 10000


def make_translation(folder, **report):
    """A finished translation, as far as it is compared."""
    folder.mkdir()
    part = Part(VocabularyDigests(), "0" * 32, done=True)
    write_state(folder / "run.json", RunState("0" * 64, {}, [part], "1.0", "0" * 32))
    (folder / "card.yaml").write_text("workload: translate\n")
    whole = {
        "ms_per_step": {"median": 10.0, "q1": 9.0, "q3": 11.0}, "loss": {"validation_best": 2.0, "training_last": 1.5},
        "scores": {"greedy": {"bleu": 20.0, "chrf": 40.0}, "beam": None},
    }  # fmt: skip
    (folder / "report.json").write_text(json.dumps(whole | report))
    return folder


def test_translations(tmp_path):
    a = make_translation(tmp_path / "a")
    b = make_translation(tmp_path / "b", ms_per_step={"median": 20.0, "q1": 19.0, "q3": 21.0})
    (found,) = compare_folders([a, b])
    changes = {change.name: change for change in found.changes}
    assert changes["ms per step"].verdict == "slower, one run each"
    assert (changes["BLEU, greedy"].before, changes["BLEU, greedy"].verdict) == (20.0, UNKNOWN)
    assert "BLEU, beam search" not in changes
    assert changes["lowest validation loss per label"].amount == 0.0
    with pytest.raises(RunDirectoryError, match=r"is a fit of replicas, .* is a translation"):
        compare_folders([a, make_run(tmp_path / "c")])
    (b / "report.json").write_text("{}")
    with pytest.raises(RunDirectoryError, match="damaged or of another kind: ms_per_step"):
        compare_folders([a, b])
