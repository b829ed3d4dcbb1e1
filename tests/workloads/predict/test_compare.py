"""`tfperf compare` of two predictions: what differs is told, rows among it, and other records are refused."""

import json
import shutil

import h5py
import numpy as np
import pytest

from tests.report.prediction_records import make_log, make_report
from tests.workloads.predict.test_predict import make_files, run
from tfperf.errors import RunDirectoryError
from tfperf.infer.dispatch_records import BatchEvent
from tfperf.infer.output_file import OutputPlan, OutputSpec, create_output
from tfperf.report.compare import SAME, UNKNOWN
from tfperf.results.json_text import to_json
from tfperf.study.compare import compare_folders
from tfperf.workloads.predict import agreement
from tfperf.workloads.predict.agreement import OutputAgreement, compare_rows

RECORDS, WIDTH = 1000, 3
CARD = "workload: predict\nmodel: {file: /m.keras}\nsource: {npy: [/x.npy]}\nqueue: {batch: {records: BATCH}}\n"
IDENTITY = {
    "model": {"file": "a"}, "preprocess": None, "source": [["x.npy", "1"]], "columns": ["x"], "id": None,
    "output": ["float32"], "file": "predictions.h5", "window": 100,
}  # fmt: skip


def make_rows(seed=0):
    return np.random.default_rng(seed).normal(size=(RECORDS, WIDTH)).astype(np.float32)


def make_run(folder, rows=None, status=None, ids=None, batch=20, identity=(), **settings):
    """A finished run with rows of our own, and a report of events of our own."""
    folder.mkdir()
    report = make_report(folder, **{"log": make_log(1, 20.0), "workers": 1, "seconds": 20.0, **settings})
    rule = {"records": batch, "total_length": None, "is_sorted": True}
    tree = {"format": 1, "identity": IDENTITY | {"batch": rule} | dict(identity), "outputs": None}
    (folder / "prediction.json").write_text(json.dumps(tree))
    (folder / "report.json").write_text(to_json(report | {"batch": rule}))
    (folder / "card.yaml").write_text(CARD.replace("BATCH", str(batch)))
    ids = np.arange(RECORDS) if ids is None else np.asarray(ids)
    path = folder / "predictions.h5"
    create_output(path, OutputPlan(len(ids), (OutputSpec("output", (WIDTH,), "float32"),), ids.dtype.str))
    with h5py.File(path, "r+") as file:
        file["output"][:] = make_rows() if rows is None else rows
        file["status"][:] = 1 if status is None else status
        file["ids"][:], file["finished"][:] = ids, 1
    return folder


def compare(*folders):
    (found,) = compare_folders(folders)
    return {change.name: change for change in found.changes}, "\n".join(found.notes)


def test_a_run_is_the_same_as_itself(tmp_path):
    folder = make_run(tmp_path / "a", failed=2)
    changes, notes = compare(folder, folder)
    assert {one.verdict for one in changes.values()} == {SAME, UNKNOWN}
    assert changes["records/s"].amount == 1 and changes["records/s"].verdict == SAME
    assert changes["useful share"].amount == 0 and changes["records that raised"].amount == 0
    assert f"output of {RECORDS} records: all numbers are equal" in notes and "cards are the same" in notes


def test_rates_failures_and_batches_differ(tmp_path):
    old = make_run(tmp_path / "a", failed=2)
    new = make_run(tmp_path / "b", log=make_log(1, 10.0, ends=[8.0]), seconds=10.0, failed=5, batch=40)
    changes, notes = compare(old, new)
    rate = changes["records/s"]
    assert (rate.before, rate.now, rate.amount) == pytest.approx((50, 100, 2)) and rate.effect_measure == "ratio"
    busy = changes["records/s of a busy worker, gpu:0"]
    assert busy.amount == pytest.approx(20 / 8) and busy.verdict == UNKNOWN
    assert changes["useful share"].amount == pytest.approx(-0.2)
    assert changes["records that failed"].amount == changes["records that raised"].amount == 3
    assert "batches: at most 40 records, sorted by length; was at most 20 records" in notes
    assert "queue.batch.records: 40, was 20" in notes


def make_uneven_log(factor, seed, batches=200):
    """One worker whose batches take 10 % more or less time, by chance."""
    log = make_log(1, 1.0, 0)
    spans = factor * 0.1 * (1 + 0.1 * np.random.default_rng(seed).normal(size=batches))
    for end, span in zip(np.cumsum(spans), spans, strict=True):
        log.add_batch(BatchEvent(0, float(end), float(span), 5, 20.0))
        log.add_end(0, float(end))
    return log, float(spans.sum())


@pytest.mark.parametrize(
    ("factor", "verdict"), [(1.0, SAME), (0.8, "faster, one run each"), (1.3, "slower, one run each")]
)
def test_the_interval_is_of_the_scatter_within_the_runs(tmp_path, factor, verdict):
    runs = []
    for number, one in enumerate((1.0, factor)):
        log, seconds = make_uneven_log(one, number)
        runs.append(make_run(tmp_path / str(number), log=log, seconds=seconds, done=RECORDS, records=RECORDS))
    changes, notes = compare(*runs)
    rate = changes["records/s"]
    assert rate.verdict == verdict and rate.low < rate.amount < rate.high and "over 24 and 24 parts" in notes
    # blocks of 8 batches that scatter by 10 %: by 3.5 %; their means by 0.72 %; the ratio, of 24 blocks each, by 1.0 %
    half = np.log(rate.high / rate.low) / 2
    assert 0.4 < half / (2.01 * 0.01) < 2.0


def test_records_that_become_shorter_are_no_scatter(tmp_path):
    """A run computes as much all of the time, of ever more records."""
    log = make_log(1, 1.0, 0)
    for number in range(200):
        log.add_batch(BatchEvent(0, 0.1 * (number + 1), 0.1, 1 + number // 10, 20.0))
        log.add_end(0, 0.1 * (number + 1))
    folder = make_run(tmp_path / "a", log=log, seconds=20.0, done=RECORDS, records=RECORDS)
    rate = compare(folder, folder)[0]["records/s"]
    assert 1 <= rate.high < 1.01


def test_too_few_batches_tell_no_interval(tmp_path):
    old = make_run(tmp_path / "a", log=make_log(1, 20.0, batches=10), records=RECORDS, done=RECORDS)
    changes, notes = compare(old, old)
    assert changes["records/s"].verdict == UNKNOWN and "too short to tell" in notes


def test_rows_that_differ_are_found_in_any_block(tmp_path, monkeypatch):
    monkeypatch.setattr(agreement, "BLOCK_BYTES", 50 * 8 * WIDTH)
    rows = make_rows()
    other = rows.copy()
    other[777, 1] += np.float32(0.5)
    other[3, 0] *= np.float32(1 + 1e-3)
    status = np.ones(RECORDS, np.uint8)
    status[10] = 2
    other[10] = np.nan
    other[500, 2] = np.inf
    found = compare_rows(
        make_run(tmp_path / "a", rows) / "predictions.h5", make_run(tmp_path / "b", other, status) / "predictions.h5"
    )
    mine = found.outputs["output"]
    both = np.delete(np.arange(RECORDS), [10, 500])
    apart = np.abs(rows[both].astype(float) - other[both])
    larger = np.maximum(np.abs(rows[both]), np.abs(other[both]))
    assert (found.both, found.before, found.now, mine.unlike, mine.record) == (RECORDS - 1, 1, 0, 1, 777)
    assert mine.absolute == apart.max() and mine.relative == pytest.approx((apart / larger).max(), rel=1e-12)
    assert mine.largest == max(larger.max(), np.abs(np.delete(rows[500], 2)).max())
    _, notes = compare(tmp_path / "a", tmp_path / "b")
    assert "(record 777)" in notes and "1 records are done in the first run only" in notes
    assert "1 values are no numbers in one of them only" in notes


def test_values_that_are_no_numbers_in_both_agree():
    found = OutputAgreement()
    odd = np.array([[np.nan, np.inf, -np.inf, 1.0]])
    found.add(odd, odd, [0])
    assert (found.absolute, found.unlike, found.largest) == (0.0, 0, 1.0)
    found.add(odd, odd[:, ::-1], [5])
    assert found.unlike == 4


def test_rows_where_nothing_is_done_in_both_are_told_so(tmp_path):
    status = np.full(RECORDS, 3, np.uint8)
    _, notes = compare(make_run(tmp_path / "a"), make_run(tmp_path / "b", status=status))
    assert "no record is done in both" in notes


def refuse(before, now, words):
    with pytest.raises(RunDirectoryError, match=words):
        compare_folders([before, now])


def test_other_records_are_refused(tmp_path):
    a = make_run(tmp_path / "a")
    refuse(a, make_run(tmp_path / "b", records=999, ids=np.arange(999), rows=make_rows()[:999]), "has 999 records")
    refuse(a, make_run(tmp_path / "c", identity={"source": [["x.npy", "2"]]}), "its files are others.*name source.id")
    ids = np.arange(RECORDS)
    ids[901] = 7
    refuse(a, make_run(tmp_path / "d", ids=ids), "record 901 has the id 7, was 901: other records")
    refuse(a, make_run(tmp_path / "e", ids=np.arange(RECORDS).astype("S4")), "ids are of another type")


def test_records_of_the_same_ids_may_come_from_other_files(tmp_path):
    ids = np.arange(RECORDS).astype("S6")
    runs = [
        make_run(tmp_path / name, ids=ids, identity={"id": "id", "source": [["x.npy", name]]}) for name in ("a", "b")
    ]
    assert "source: other files; all ids are the same" in compare(*runs)[1]


def test_runs_that_are_not_finished_damaged_or_of_another_kind_are_refused(tmp_path):
    a = make_run(tmp_path / "a")
    refuse(a, make_run(tmp_path / "b", records=2000, done=1000), "is not finished")
    shutil.copytree(a, tmp_path / "c")
    with h5py.File(tmp_path / "c" / "predictions.h5", "r+") as file:
        file["finished"][:] = 0
    refuse(a, tmp_path / "c", "is not finished")
    for name, content in (("report.json", "{}"), ("prediction.json", "{}"), ("predictions.h5", "x")):
        shutil.copytree(a, tmp_path / name)
        (tmp_path / name / name).write_text(content)
        refuse(a, tmp_path / name, f"{name}: (damaged|cannot be read)")
    (tmp_path / "none").mkdir()
    refuse(a, tmp_path / "none", "allowed: what `tfperf fit`, `tfperf predict`")


@pytest.mark.slow
def test_two_real_runs_are_compared(tmp_path):
    make_files(tmp_path)
    for workers in (1, 2):
        words = ("--set", f"queue.workers_per_device={workers}", "--set", f"queue.batch.tokens={64 * workers}")
        run("predict", tmp_path / "card.yaml", "-o", tmp_path / f"run-{workers}", "-q", *words)
    said = run("compare", tmp_path / "run-1", tmp_path / "run-2")
    assert "records/s of a busy worker, cpu:0" in said and "useful share" in said
    assert "output of 400 records" in said and "queue.batch.tokens: 128, was 64" in said
    page = (tmp_path / "run-2" / "report.html").read_text()
    report = json.loads((tmp_path / "run-2" / "report.json").read_text())
    assert "worker 1 on cpu:0" in page and report["startup_seconds"] > 0 and len(report["lives"]) == 1
    assert sum(map(sum, report["course"]["records"])) == pytest.approx(400, rel=1e-4)
    assert report["units"]["count"] > 2 and report["idle_tail"]["seconds"] >= report["idle_tail"]["commit_seconds"] >= 0
    assert report["versions"]["tensorflow"] and report["machine"]["cpu"]["cores"] >= 1
