"""`tfperf predict --sample`: what is measured, what is printed, what is kept when it is stopped."""

import json
import os
import signal

import numpy as np
import pytest

from tests.infer.programs import make_preparer, make_worker
from tests.workloads.predict.test_predict import make_files, run
from tfperf.infer.dispatch_records import Slot
from tfperf.infer.micro_batches import BatchRule
from tfperf.report import sample_page
from tfperf.workloads.cards import load_checked_card
from tfperf.workloads.predict import sample_plan, sample_report, sampling
from tfperf.workloads.predict.folders import SAMPLE, SAMPLE_PAGE
from tfperf.workloads.predict.sample_plan import (
    SampleTask,
    draw_records,
    draw_sample,
    draw_windows,
    make_slots_of,
    set_unit,
)
from tfperf.workloads.predict.sample_report import (
    choose_batch,
    estimate_rate_of_parts,
    summarise_sample,
)

RECORDS = 400
KEYS = ["sample.records=60", "sample.replicates=2", "sample.total=1000000"]


def load(folder, *more):
    words = [word for key in (*KEYS, *more) for word in ("--set", key)]
    return load_checked_card(folder / "card.yaml", [*KEYS, *more]), words


def make_test_slots(workers):
    worker = make_worker(of_batch=0.002, seconds=1e-5)
    return [Slot(f"worker {place} on cpu:0", worker, device="cpu:0") for place in range(workers)]


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A card whose model and records are small programs; the folder."""
    make_files(tmp_path)
    monkeypatch.setattr(sample_plan, "WORKERS", (1, 2))
    monkeypatch.setattr(sample_plan, "UNITS", (10,))
    monkeypatch.setattr(sampling, "make_slots_of", lambda card, workers: make_test_slots(workers))
    monkeypatch.setattr(sampling, "make_slots", lambda card: make_test_slots(1))
    spec = make_preparer(RECORDS, 64)
    monkeypatch.setattr(sampling, "open_source", lambda card, show: (spec, spec.open_reader()))
    return tmp_path


def test_a_sample_says_what_is_fast_and_how_long_all_records_take(small):
    said = run("predict", small / "card.yaml", "-o", small / "run", "--sample", "-q", *load(small)[1])
    report = json.loads((small / "run" / SAMPLE).read_text())
    kinds = [(one["kind"], one["words"]) for one in report["groups"]]
    assert kinds[0] == ("batch", "single records") and ("batch", "a length of 64 in all") in kinds
    assert kinds[-6:] == [
        ("alone", "one process"), ("prepare", "reading and preparing"), ("own", "as the card says"), ("workers", "1"),
        ("workers", "2"), ("unit", "10 records"),
    ]  # fmt: skip
    assert all(len(one["rates"]) == 2 for one in report["groups"] if one["kind"] != "batch")
    assert not any(one["errors"] for one in report["groups"])
    assert report["workers"] == 1 and report["total"] == 1_000_000 and report["sampled"] == 60  # as the card says
    own, preparing = (next(one for one in report["groups"] if one["kind"] == kind) for kind in ("own", "prepare"))
    assert report["rate"]["value"] == min(own["mean"], preparing["mean"])
    assert report["seconds"]["value"] == pytest.approx(1e6 / report["rate"]["value"])
    assert report["seconds"]["low"] < report["seconds"]["value"] < report["seconds"]["high"]
    assert "1000000 records take" in said and "one process without a queue: " in said
    page = (small / "run" / SAMPLE_PAGE).read_text()
    assert page.count("<img") == 3 and "a length of 64 in all" in page


@pytest.mark.slow
def test_what_was_measured_is_not_measured_again(small, monkeypatch):
    words = "predict", small / "card.yaml", "-o", small / "run", "--sample", "-q", *load(small)[1]
    passes, measure = [], sampling.SampleStudy._measure

    def measure_some(study, task, *more):
        passes.append(task)
        if len(passes) == 5:
            os.kill(os.getpid(), signal.SIGINT)
        return measure(study, task, *more)

    monkeypatch.setattr(sampling.SampleStudy, "_measure", measure_some)
    assert "the same command goes on" in run(*words, code=130)
    run(*words)
    assert len(passes) == 1 + len({(one.kind, json.dumps(one.value), one.replicate) for one in passes})
    said = run(*words[:-2], "--set", "sample.total=7", code=2)
    assert "has a sample with another card" in said
    (small / "texts-9.txt").write_text("longer\n")
    assert "has a sample with another source" in run(*words, code=2)


@pytest.mark.slow
def test_another_end_of_a_model_is_told_and_the_others_are_measured(small, monkeypatch):
    monkeypatch.setattr(
        sampling, "make_slots_of",
        lambda card, workers: make_test_slots(1) if workers == 1 else
        [Slot("worker 0 on gpu:0", make_worker(dict.fromkeys(range(RECORDS), "crashed")))],
    )  # fmt: skip
    said = run("predict", small / "card.yaml", "-o", small / "run", "--sample", "-q", *load(small)[1])
    assert "workers per device: 2: queue: nothing comes out" in said and "1000000 records take" in said


def test_only_one_of_the_options_is_allowed(small):
    words = "predict", small / "card.yaml", "-o", small / "run", "-q"
    assert "only one of them is allowed" in run(*words, "--sample", "--resume", code=2)
    assert not (small / "run").exists()


def test_replicates_are_other_records_and_the_same_whenever_they_are_drawn(small):
    card, _ = load(small)
    spec = make_preparer(RECORDS, 64)
    first, again, other = (draw_sample(card, spec, replicate) for replicate in (0, 0, 1))
    ids = [one.open_reader().read(0, 60)[1] for one, _ in (first, again, other)]
    np.testing.assert_array_equal(ids[0], ids[1])
    assert not np.array_equal(ids[0], ids[2]) and first[1] == 60


def test_a_large_sample_is_not_kept_in_memory(small, monkeypatch):
    card, _ = load(small)
    monkeypatch.setattr(sample_plan, "HELD_BYTES", 10)
    spec, count = draw_sample(card, make_preparer(RECORDS, 64), 0)
    assert type(spec.open_reader()).__name__ == "SampledRecords" and spec.open_reader().records == count == 60


def test_units_smaller_than_a_batch_are_smaller_batches():
    rule = BatchRule(total_length=512)
    assert set_unit(rule, 1, 20.0) == (BatchRule(records=1, total_length=512), 1)
    assert set_unit(rule, 1000, 20.0) == (rule, 50)


def test_slownesses_follow_their_devices(tmp_path):
    make_files(tmp_path)
    more = "queue.devices=[cpu:0, cpu:0]", "queue.slowness=[1, 5]", "queue.workers_per_device=1"
    slots = make_slots_of(load(tmp_path, *more)[0], 2)
    assert [one.spec.slowness for one in slots] == [1, 1, 5, 5]


def test_a_device_that_is_listed_twice_is_one_device(tmp_path):
    make_files(tmp_path)
    slots = make_slots_of(load(tmp_path, "queue.devices=[cpu:0, cpu:0]", "queue.workers_per_device=1")[0], 4)
    assert len(slots) == 4


def make_rows(kind, values, rates):
    return [
        {"kind": kind, "value": value, "replicate": replicate, "rate": rate, "devices": ["cpu:0"] * 2,
         "slot_rates": [None if rate is None else rate / 2] * 2, "useful_share": None, "failed": 0, "error": None}
        for value, mine in zip(values, rates, strict=True) for replicate, rate in enumerate(mine)
    ]  # fmt: skip


RULE = {"records": 8, "total_length": None, "is_sorted": True}


def summarise(folder, own, workers, preparing=(1e6, 1e6), records=RECORDS):
    make_files(folder)
    card, _ = load(folder, "queue.workers_per_device=auto")
    rows = [
        *make_rows("own", [None], [own]), *make_rows("prepare", [None], [preparing]),
        *make_rows("workers", list(workers), list(workers.values())),
    ]  # fmt: skip
    report = summarise_sample(card, records, rows, RULE, 1.0)
    sample_page.render_sample(report)
    return report, sample_page.list_sample_lines(report)


def test_time_is_that_of_the_card_and_faster_workers_are_named(tmp_path):
    report, lines = summarise(tmp_path, (50.0, 50.2), {1: (50, 52), 2: (99, 101), 4: (103, 102)})
    assert report["advice"] == {"workers": 2, "times": pytest.approx(100 / 50.1)} and report["workers"] == 2
    [device] = report["devices"]
    assert device["device"] == "cpu:0" and device["mean"] == pytest.approx(50.1)
    assert lines[0].startswith("cpu:0: 50.1 records/s while it computes, standard deviation 0.14")
    assert lines[-2].startswith("1000000 records take 5.5 h [") and "by 2 workers, as the card says" in lines[-2]
    assert lines[-1].startswith("2 workers on each device are 2.00 times as fast: queue.workers_per_device: 2, each")
    assert "all but the sizes of batches were measured with batches of 8 records" in lines


def test_workers_are_not_advised_where_chance_may_have_made_them_faster(tmp_path):
    report, _ = summarise(tmp_path, (40.0, 60.0), {2: (60, 90)})
    assert report["advice"] is None


def test_preparation_that_is_slower_is_what_all_records_wait_for(tmp_path):
    report, lines = summarise(tmp_path, (50.0, 50.2), {2: (99, 101)}, preparing=(40.0, 40.2))
    assert report["rate"]["value"] == pytest.approx(40.1, rel=1e-4) and report["advice"] is None
    assert "reading and preparing, in one process, is slower" in lines[-1]


def test_limits_are_those_of_what_may_be_slower(tmp_path, monkeypatch):
    """Workers are slower by their means, and preparation may be slower than them by its scatter."""
    monkeypatch.setattr(sample_report, "count_cores", lambda: 16)
    report, _ = summarise(tmp_path, (50.0, 50.2), {1: (50, 50)}, preparing=(40.0, 70.0))
    [own] = [one for one in report["groups"] if one["kind"] == "own"]
    [preparing] = [one for one in report["groups"] if one["kind"] == "prepare"]
    assert report["limit"] == "own" and report["rate"]["value"] == own["mean"] < preparing["mean"]
    assert report["rate"]["low"] == preparing["low"] < own["low"] and report["rate"]["high"] == own["high"]


def test_preparation_takes_time_of_workers_on_the_same_cores(tmp_path, monkeypatch):
    for cores, low in ((2, 100 / (100 / 50 + 100 / 2 / 200)), (16, None)):
        monkeypatch.setattr(sample_report, "count_cores", lambda count=cores: count)
        report, _ = summarise(tmp_path, (50.0, 50.0), {1: (50, 50)}, preparing=(200.0, 200.0))
        assert report["rate"]["value"] == 50 and report["rate"]["low"] == pytest.approx(low or 50)


def test_all_parts_of_a_source_take_their_own_time():
    found = estimate_rate_of_parts([50.0, 100.0, 100.0])
    assert found.value == pytest.approx(3 / (1 / 50 + 2 / 100))
    assert (found.low or np.inf) < found.value < (found.high or 0.0)
    assert (estimate_rate_of_parts([10.0, 1000.0, 1000.0]).low or 0.0) > 0


@pytest.mark.parametrize("records", [1000, 170, 64])
def test_preparation_is_timed_in_all_parts_of_a_source(small, records):
    card, _ = load(small, "queue.window=64", "sample.replicates=4")
    found = [draw_windows(card, records, replicate) for replicate in range(4)]
    windows, whole = -(-records // 64), max(1, records // 64)
    for replicate, (warm, timed) in enumerate(found):
        assert timed in range(whole) and warm == (timed + 1) % windows
        assert whole < 4 or timed in range(whole * replicate // 4, whole * (replicate + 1) // 4)


def test_neighbours_are_drawn_where_batches_are_made_of_neighbours(small):
    card, _ = load(small, "queue.sort=false", "sample.records=600")
    found = [draw_records(card, 10_000, replicate) for replicate in (0, 0, 1)]
    np.testing.assert_array_equal(found[0], found[1])
    assert (
        len(found[0]) == 512 and int((np.diff(found[0]) == 1).sum()) == 510 and not np.array_equal(found[0], found[2])
    )
    assert len(draw_records(card, 1000, 0)) == 600  # too few for groups
    assert int((np.diff(draw_records(load(small, "sample.records=600")[0], 10_000, 0)) == 1).sum()) < 100


def test_failures_and_records_that_are_not_there_are_told(tmp_path):
    _, lines = summarise(tmp_path, (50.0, 50.2), {1: (50, 50)}, records=60)
    assert any(one.startswith("a sample is all 60 records that there are") for one in lines)
    assert not any("failed" in one for one in lines)
    rows = [{**one, "failed": 7} for one in make_rows("own", [None], [(50.0, 50.2)])]
    report = summarise_sample(load(tmp_path)[0], RECORDS, rows, RULE, 1.0)
    assert "7 of 60 records of a sample failed" in sample_page.list_sample_lines(report)


def test_passes_with_other_batches_do_not_count(tmp_path):
    make_files(tmp_path)
    old = [{**one, "rule": {**RULE, "records": 1}} for one in make_rows("own", [None], [(10.0, 10.2)])]
    new = [{**one, "rule": RULE} for one in make_rows("own", [None], [(50.0, 50.2)])]
    report = summarise_sample(load(tmp_path)[0], RECORDS, [*old, *new], RULE, 1.0)
    assert report["rate"]["value"] == pytest.approx(50.1)


@pytest.mark.slow
def test_records_that_fail_cost_a_sample_their_time(small, monkeypatch):
    """Batches that are run record by record count, and the failures of one time through the sample are told."""
    bad = dict.fromkeys(range(0, RECORDS, 20), "raised")

    def make_slots(workers):
        return [Slot(f"worker {n} on cpu:0", make_worker(bad, of_batch=0.004), device="cpu:0") for n in range(workers)]

    monkeypatch.setattr(sampling, "make_slots_of", lambda card, workers: make_slots(workers))
    monkeypatch.setattr(sampling, "make_slots", lambda card: make_slots(1))
    monkeypatch.setattr(sampling, "list_further_tasks", lambda card: [SampleTask("own", None, 0)])
    more = "sample.records=200", "sample.replicates=2", "queue.batch={records: 10}", "queue.unit=20"
    said = run("predict", small / "card.yaml", "-o", small / "run", "--sample", "-q", *load(small, *more)[1])
    report = json.loads((small / "run" / SAMPLE).read_text())
    [own] = [one for one in report["groups"] if one["kind"] == "own"]
    card = load(small, *more)[0]
    failed, other = (sum(int(one) in bad for one in draw_records(card, RECORDS, replicate)) for replicate in (0, 1))
    assert own["failed"] == failed > 0 and f"{max(failed, other)} of 200 records of a sample failed" in said
    # a batch takes 4 ms, and one in which a record fails 4 ms for each of its other records, too
    batches = 20 * 0.004 + failed * 9 * 0.004
    assert 0.4 < own["mean"] / (200 / batches) < 1.3


def test_nothing_is_told_where_nothing_was_measured(tmp_path):
    report, lines = summarise(tmp_path, (None, None), {1: (None, None)})
    assert report["seconds"] is None and report["rate"] is None
    assert lines[-1] == "how long all records take cannot be told"
    assert "workers as the card says: too few batches" in "".join(lines)


def test_batches_are_chosen_by_all_replicates():
    rules = [{"records": n, "total_length": None, "is_sorted": True} for n in (1, 8)]
    rows = make_rows("batch", rules, [(10, 10), (9, 12)])
    assert choose_batch(rows) == BatchRule(records=1)
    assert SampleTask("batch", rules[0], 1).words == "batches of single records, replicate 2"
