"""Two ensembles side by side: pairs by number and seed, what broke, what is of another kind."""

import h5py
import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import ttest_ind, wilcoxon

from tfperf.cli import main
from tfperf.errors import RunDirectoryError
from tfperf.report.compare import SAME, UNKNOWN
from tfperf.results.json_text import to_json
from tfperf.results.state import Part, RunState, write_state
from tfperf.study.compare import compare_folders
from tfperf.workloads.keras.replicas import outcome
from tfperf.workloads.keras.replicas.compare import refuse_mixture
from tfperf.workloads.keras.replicas.outcome import EnsembleOutcome, ReplicaTable
from tfperf.workloads.replica_chunks import ReplicaChunk

CARD = "workload: keras\nreplicas: 10\nmodel: {build: 'm:b'}\ndata: {build: 'm:l'}\ntrain: {epochs: 3}\n"
EPOCHS = 3
CALIBRATION = {"kind": "numbers", "rms_error": 0.5, "rms_spread": 0.2}
BEST = "val_loss at the best epoch, median of 10 replicas"


def make_run(
    folder, losses, ids=None, seeds=None, broken=(), best=2, monitored="val_loss", done=True, data=None, parts=None,
    **report,
):  # fmt: skip
    """A finished run; losses (R): of the best epoch, which the others are above; data: digests; parts: their sizes."""
    folder.mkdir()
    ids = np.arange(1, len(losses) + 1) if ids is None else np.array(ids)
    seeds = 100 + ids if seeds is None else np.array(seeds)
    status = tuple("quarantined" if i in broken else "stopped" for i in ids)
    whole = np.full(len(ids), EPOCHS)
    table = ReplicaTable(ids, seeds, np.zeros_like(ids), np.full(len(ids), best), whole, status)
    above = np.array([[1.0], [0.0], [2.0]])
    history = {monitored: np.asarray(losses) + above, "mae": 2 * np.asarray(losses) + above}
    summary = {
        "monitored": monitored, "calibration": CALIBRATION, "ms_per_step": {"median": 2.0, "q1": 1.9, "q3": 2.1},
        **report,
    }  # fmt: skip
    weights = {"kernel": np.zeros((len(ids), 1), np.float32)}
    outcome.write(folder / "results.h5", EnsembleOutcome("made up", table, weights, history, b"", summary))
    chunks = [ReplicaChunk(some.tolist(), [0] * len(some)) for some in np.split(ids, np.cumsum(parts or [])[:-1])]
    every = [Part(chunk, "0" * 32, done=done) for chunk in chunks]
    write_state(folder / "run.json", RunState("0" * 64, data or {}, every, "1.0", "0" * 32))
    (folder / "report.json").write_text(to_json(summary))
    (folder / "card.yaml").write_text(CARD)
    return folder


def compare(*folders):
    (found,) = compare_folders(folders)
    return {change.name: change for change in found.changes}, found.notes


@pytest.fixture
def losses():
    return np.random.default_rng(5).normal(3, 1, size=10)


def test_a_run_is_the_same_as_itself(tmp_path, losses):
    run = make_run(tmp_path / "a", losses)
    found, notes = compare(run, run)
    assert found[BEST].before == np.median(losses) and {one.amount for one in found.values()} == {0.0}
    assert {one.verdict for one in found.values()} == {SAME, UNKNOWN} and "10 replicas are in both" in notes


def test_replicas_are_paired_by_number_and_seed(tmp_path, losses):
    """The order is another one, and two are not in both, or drew otherwise."""
    rng = np.random.default_rng(6)
    apart = 0.1 + 0.02 * rng.normal(size=10)
    seeds = 100 + np.arange(1, 13)
    seeds[11] = 7
    before = make_run(tmp_path / "a", np.append(losses, [50.0, 60.0]))
    now = make_run(
        tmp_path / "b", np.append(losses + apart, [-70.0]), ids=[*range(1, 11), 12], seeds=seeds[[*range(10), 11]]
    )
    found, notes = compare(before, now)
    change = found[BEST]
    assert change.before == np.median(losses) and change.now == pytest.approx(np.median(losses + apart))
    pairs = np.sort([(a + b) / 2 for i, a in enumerate(apart) for b in apart[i:]])
    assert change.amount == pytest.approx(np.median(pairs), rel=1e-9) and change.verdict == "higher"
    # the limits are where Wilcoxon's test just refuses at 5 %
    for limit, outside in ((change.low, -1e-6), (change.high, 1e-6)):
        assert wilcoxon(apart - (limit + outside)).pvalue < 0.05 < wilcoxon(apart - (limit - outside)).pvalue + 0.02
    assert found["mae at the best epoch, median of 10 replicas"].amount == pytest.approx(2 * change.amount)
    assert "10 replicas are in both" in notes


def test_replicas_that_broke_are_in_no_pair(tmp_path, losses):
    before = make_run(tmp_path / "a", losses, broken=[3])
    now = make_run(tmp_path / "b", np.where(np.arange(10) == 4, np.nan, losses + 1))
    found, _ = compare(before, now)
    change = found["val_loss at the best epoch, median of 8 replicas"]
    assert change.amount == pytest.approx(1) and change.before == np.median(np.delete(losses, [2, 4]))
    broken = found["share of replicas that broke"]
    assert (broken.before, broken.now) == (0.1, 0.0)


def test_without_pairs_all_are_compared(tmp_path, losses):
    other = losses[:7] + 0.5
    before, now = make_run(tmp_path / "a", losses), make_run(tmp_path / "b", other, seeds=np.arange(7))
    found, notes = compare(before, now)
    change = found["val_loss at the best epoch, mean of 10 and 7 replicas"]
    limits = ttest_ind(other, losses, equal_var=False).confidence_interval(0.95)
    assert (change.low, change.high) == pytest.approx((limits.low, limits.high), rel=1e-9)
    assert any("Welch" in note for note in notes)


def test_other_losses_are_named(tmp_path, losses):
    before, now = make_run(tmp_path / "a", losses), make_run(tmp_path / "b", losses, monitored="loss")
    found, notes = compare(before, now)
    assert not any("val_loss" in name for name in found)
    assert "best epochs are by val_loss before, by loss now" in notes


def test_errors_of_the_mean_are_compared_of_one_kind(tmp_path, losses):
    before = make_run(tmp_path / "a", losses)
    now = make_run(tmp_path / "b", losses, calibration={**CALIBRATION, "rms_error": 0.25})
    none = make_run(tmp_path / "c", losses, calibration={"n/a": "told where samples validate"})
    assert compare(before, now)[0]["error of the mean (rms)"].amount == -0.25
    assert not any("mean (rms)" in name for name in compare(before, none)[0])


def test_what_cannot_be_compared_is_refused(tmp_path, losses):
    run = make_run(tmp_path / "a", losses)
    open_run = make_run(tmp_path / "b", losses, done=False)
    with pytest.raises(RunDirectoryError, match="not finished"):
        compare(run, open_run)
    alone = make_run(tmp_path / "c", losses)
    with h5py.File(alone / "results.h5", "w") as file:
        file.attrs["kind"] = "another"
    for pair in ((run, alone), (alone, run)):
        done = CliRunner().invoke(main, ["compare", *map(str, pair)])
        assert done.exit_code == 2 and "c: is of a model alone" in done.output


@pytest.mark.parametrize("key", ["the arrays of data", "data.build"])
def test_replicas_of_other_data_are_not_paired(tmp_path, losses, key):
    before = make_run(tmp_path / "a", losses, data={key: "0" * 64})
    now = make_run(tmp_path / "b", losses + 1, data={key: "1" * 64})
    found, notes = compare(before, now)
    change = found["val_loss at the best epoch, mean of 10 and 10 replicas"]
    assert change.amount == pytest.approx(1) and {one.verdict for one in found.values()} == {UNKNOWN}
    assert "the data are others" in notes[0] and not any("in both" in note for note in notes)
    printed = CliRunner().invoke(main, ["compare", str(before), str(now)]).output
    assert printed.startswith("warning: the data are others")


def test_a_stream_with_other_arguments_is_other_data(tmp_path, losses):
    before, now = make_run(tmp_path / "a", losses), make_run(tmp_path / "b", losses)
    (now / "card.yaml").write_text(CARD.replace("{build: 'm:l'}", "{build: 'm:l', arguments: {size: 3}}"))
    assert "the data are others" in compare(before, now)[1][0]


def test_replicas_of_another_model_are_paired(tmp_path, losses):
    same = {"the arrays of data": "0" * 64}
    before = make_run(tmp_path / "a", losses, data={**same, "model.build": "0" * 64, "data.build": "0" * 64})
    now = make_run(tmp_path / "b", losses + 1, data={**same, "model.build": "1" * 64, "data.build": "1" * 64})
    assert compare(before, now)[0][BEST].verdict == "higher"


def test_steps_of_other_numbers_of_replicas_are_not_compared(tmp_path, losses):
    whole, fewer = make_run(tmp_path / "a", losses), make_run(tmp_path / "b", losses[:6])
    added = make_run(tmp_path / "c", losses, parts=[6, 4])
    assert "ms per step" in compare(whole, whole)[0]
    for one, other, told in ((whole, fewer, "10 replicas"), (whole, added, "6 and 4 now"), (added, added, "6 and 4")):
        found, notes = compare(one, other)
        assert "ms per step" not in found and any(told in note for note in notes)


def test_a_run_without_whole_results_is_told_apart_from_a_model_alone(tmp_path):
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "results.h5").write_bytes(b"half a file")
    (tmp_path / "killed").mkdir()
    for name, said in (("killed", "is not finished"), ("damaged", "damaged")):
        with pytest.raises(RunDirectoryError, match=said):
            refuse_mixture(tmp_path / name, tmp_path / "damaged")
