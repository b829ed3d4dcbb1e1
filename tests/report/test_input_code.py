"""Code that an input study tells to write: it runs, does what it is for, and is advised where it helps."""

import math
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.report.input_records import (
    BATCH,
    make_decoding_report,
    make_loader_report,
    make_problem,
    make_source,
    make_stage,
    make_time,
    make_waiting_report,
)
from tfperf.inputs.pipeline import Pipeline
from tfperf.inputs.stages import read_stages
from tfperf.report.input import PROBLEMS, conclude, describe_cure
from tfperf.report.input_code import TEMPLATES
from tfperf.report.input_rates import ExpectedRates
from tfperf.report.input_stages import list_stage_rows


def settle(report):
    conclude(report)
    return {one["kind"]: one for one in report["cures"]}


def run(code, dataset=None, **names):
    """What the code makes of a dataset."""
    namespace = {"tf": tf, "keras": keras, "dataset": dataset, **names}
    exec(code, namespace)
    return namespace


def list_stages(code, dataset=None, **names) -> Pipeline:
    return read_stages(run(code, tf.data.Dataset.range(8) if dataset is None else dataset, **names)["dataset"])


def double(x):
    return 2 * x


def test_a_pool_is_as_large_as_the_knee_and_its_rate_is_the_predicted_one():
    report = make_waiting_report(step=50.0)
    cure = settle(report)["thread_pool_limits"]
    assert list_stages(cure["code"]).options.threads == report["workers"]["knee_with_step"] == 4
    assert cure["rate"] == pytest.approx(50.0, rel=1e-4) and not cure["is_limit"] and cure["stage"] == "fetch"
    assert "expected 50 steps/s, now 24.5" in describe_cure(cure, report)


def test_a_sequential_map_that_waits_gets_calls_and_a_pool():
    cure = settle(make_waiting_report(step=50.0, calls=None, kind="sequential_map"))["sequential_map"]
    found = list_stages(cure["code"], fetch=double)
    # 80 ms of waiting a batch, and 50 batches/s: four calls at once, at 95 %
    assert found.stages[-1].parallel == "auto" and found.stages[-1].name == "fetch" and found.options.threads == 4
    assert cure["rate"] == pytest.approx(50.0)


def test_a_number_of_calls_is_left_to_autotune():
    cure = settle(make_waiting_report(step=50.0, calls=2, kind="few_parallel_calls"))["few_parallel_calls"]
    assert list_stages(cure["code"], fetch=double).stages[-1].parallel == "auto"


def test_nothing_is_promised_beyond_cores_and_step():
    report = make_decoding_report(random_at=1)  # all cores are used up by decoding
    report["as_it_is"]["source"]["problems"] = [make_problem("thread_pool_limits", 1), make_problem("no_prefetch", 3)]
    assert settle(report) == {}
    rates = ExpectedRates(report, list_stage_rows(report["as_it_is"]["source"]))
    assert rates.predict(report["as_it_is"]["source"]["problems"]) <= 2 / 0.0818 + 1e-9


def test_a_map_that_could_take_batches_may_cost_nothing_then():
    report = make_waiting_report()
    stages = [make_stage("range"), make_stage("map", "scale", parallel="auto"), make_stage("batch", size=BATCH),
              make_stage("map", "decode", parallel="auto")]  # fmt: skip
    times = [
        make_time(rate=1e6),
        make_time(cpu=0.002, rate=300.0),
        make_time(rate=250.0),
        make_time(0.01, per_output=1.0),
    ]
    problem = make_problem("batch_after_map", 1, batch=float(BATCH))
    report["as_it_is"]["source"] = make_source(stages, times, [problem])
    cure = settle(report)["batch_after_map"]
    found = list_stages(cure["code"], scale=double)
    assert [one.kind for one in found.stages[-2:]] == ["batch", "map"] and found.stages[-2].size == BATCH
    # 16 of 26 CPU-ms a batch go: 25 batches/s become 65 at most
    assert cure["is_limit"] and cure["rate"] == pytest.approx(25 * 26 / 10)
    assert "expected at most 65 steps/s" in describe_cure(cure, report)


def test_input_and_step_that_take_turns_get_a_prefetch():
    report = make_waiting_report(step=100.0)
    report["as_it_is"]["source"] = make_source(
        [make_stage("range"), make_stage("map", "work")], [make_time(rate=1e6), make_time(0.0, 0.008, 120.0, 1.0)],
        [make_problem("no_prefetch", 1)], inject_prefetch=False,
    )  # fmt: skip
    report["as_it_is"]["data"]["rate"] = {"value": 120.0, "low": 118.0, "high": 122.0}
    report["as_it_is"]["both"]["rate"] = {"value": 55.0, "low": 54.0, "high": 56.0}
    report["as_it_is"]["waits"] = {"value": 0.45, "low": 0.43, "high": 0.47}
    cure = settle(report)["no_prefetch"]
    assert report["bound"] == "turns" and "they do not overlap" in report["lines"][0]
    assert list_stages(cure["code"]).stages[-1].kind == "prefetch" and cure["rate"] == pytest.approx(100.0)


def test_what_no_change_would_give_by_the_same_figures_is_no_gain():
    report = make_decoding_report(random_at=2)
    # together they were slower than the data alone, as chance may have it; the first stage costs next to nothing
    report["as_it_is"]["both"]["rate"] = {"value": 20.0, "low": 19.0, "high": 21.0}
    report["as_it_is"]["both"]["processor_seconds"] = 0.05
    report["as_it_is"]["source"]["ahead"]["position"] = 0
    assert "cache" not in settle(report)


def test_what_is_the_same_in_each_pass_can_be_cached():
    report = make_decoding_report(random_at=2)
    cure = settle(report)["cache"]
    assert list_stages(cure["code"]).stages[-1].kind == "cache" and "800 elements" in cure["code"]
    assert cure["rate"] == pytest.approx(200.0)  # the step's
    for free, is_offered in ((5e7, True), (3.9e7, False), (None, False)):  # 20 MB are half of what is free, or more
        report["as_it_is"]["source"]["ahead"] |= {"element_bytes": 25_000, "available_bytes": free}
        assert ("cache" in settle(report)) == is_offered


def test_a_cache_does_not_keep_one_order_for_all_passes():
    report = make_decoding_report(random_at=2)
    stages = report["as_it_is"]["source"]["pipeline"]["stages"]
    stages[0]["kind"] = "shuffle"
    code = settle(report)["cache"]["code"]
    assert [one.kind for one in list_stages(code).stages[-2:]] == ["cache", "shuffle"]
    orders = [list(run(code, tf.data.Dataset.range(800))["dataset"].as_numpy_iterator()) for _ in range(2)]
    assert orders[0] != orders[1]
    stages[1]["kind"] = "batch"  # samples would come together as they did in the first pass
    report["as_it_is"]["source"]["ahead"]["position"] = 1
    assert "cache" not in settle(report)


def test_a_number_of_files_at_once_is_changed_where_files_are_read():
    report = make_waiting_report(step=50.0, calls=2, kind="few_parallel_calls")
    report["as_it_is"]["source"]["pipeline"]["stages"][1]["kind"] = "interleave"
    code = settle(report)["few_parallel_calls"]["code"]
    assert list_stages(code, fetch=tf.data.Dataset.from_tensors).stages[-1].kind == "interleave"


def test_a_buffer_that_is_larger_than_memory_may_be_is_told():
    report = make_waiting_report(step=50.0)
    source = report["as_it_is"]["source"]
    source["problems"] = [make_problem("small_shuffle", 1, elements=100_000.0)]
    source["pipeline"]["stages"][1]["element_bytes"] = 150_000
    assert "holds 15.00 GB" in settle(report)["small_shuffle"]["code"]
    source["pipeline"]["stages"][1]["element_bytes"] = 8
    assert "holds" not in settle(report)["small_shuffle"]["code"]


def test_several_changes_that_limit_each_other_are_told_together():
    report = make_waiting_report(step=100.0, calls=None, kind="sequential_map")
    source = report["as_it_is"]["source"]
    source["pipeline"]["stages"][0] = make_stage("map", "read")
    source["times"]["stages"][0] = make_time(wait=0.01, rate=100.0)
    source["problems"].append(make_problem("sequential_map", 0))
    cures = settle(report)
    assert cures["together"]["stage"] == "fetch, read" and cures["together"]["rate"] > 90.0
    found = list_stages(cures["together"]["code"], fetch=double, read=double)
    assert [one.name for one in found.stages[-2:]] == ["fetch", "read"]


def test_one_pool_for_several_stages_is_told_once():
    report = make_waiting_report(step=50.0)
    report["as_it_is"]["source"]["problems"].append(make_problem("thread_pool_limits", 0))
    conclude(report)
    assert [(one["kind"], one["stage"]) for one in report["cures"]] == [("thread_pool_limits", "fetch, numbers")]


def test_a_name_that_is_no_name_of_python_is_quoted_and_not_called():
    report = make_waiting_report(step=50.0, calls=None, kind="sequential_map")
    report["as_it_is"]["source"]["pipeline"]["stages"][1]["name"] = 'read "it"\n# now'
    cure = settle(report)["sequential_map"]
    compile(cure["code"], "cure", "exec")
    assert "dataset.map(function," in cure["code"]


WORDS = {"name": '"mix"', "function": "double", "threads": 3, "size": 4, "elements": 8, "workers": 2,
         "processes": False, "queue": 4, "held": "1 kB", "batch": 4, "note": ""}  # fmt: skip


@pytest.mark.parametrize("kind", sorted(TEMPLATES))
def test_every_template_runs(kind):
    def make_dataset(x):
        return tf.data.Dataset.from_tensors(x)

    function = make_dataset if kind == "sequential_interleave" else double
    names = {"double": function, "count": 3, "make_batch": lambda number: np.full((4,), number)}
    found = run(TEMPLATES[kind].format(**WORDS), tf.data.Dataset.range(8), **names)
    if kind == "python_generator":
        assert len(found["data"]) == 3 and found["data"].workers == 2 and found["data"][2][0] == 2
        return
    stages, options = read_stages(found["dataset"]).stages, found["dataset"].options()
    truths = {
        "cache_of_endless": stages[-1].cardinality == math.inf, "small_shuffle": stages[-1].buffer == 8,
        "sequential_interleave": (stages[-1].parallel, stages[-1].size) == ("auto", 3),
        "order_kept": options.deterministic is False,
        "thread_pool_limits": options.threading.private_threadpool_size == 3,
        "cache_after_random": stages[-1].kind == "cache", "cache": stages[-1].kind == "cache",
        "cache_and_shuffle": stages[-1].kind == "shuffle",
    }  # fmt: skip
    assert truths.get(kind, stages[-1].parallel == "auto" or stages[-1].kind == "prefetch")


def test_every_problem_has_words_and_code():
    assert {*PROBLEMS} == {*TEMPLATES, "one_worker"} - {"cache", "cache_and_shuffle"}


@pytest.mark.parametrize(
    ("costs", "processes", "workers"),
    [
        ((0.001, 0.02), False, 8),  # waits: threads do, as many as were looked at
        ((0.02, 0.02), True, 2),  # computes: threads share the lock, processes the cores
    ],
)
def test_a_pydataset_gets_workers(costs, processes, workers):
    cure = settle(make_loader_report(costs=costs))["one_worker"]

    class Photos(keras.utils.PyDataset):
        pass

    data = Photos()
    run(cure["code"], data=data)
    assert (data.workers, data.use_multiprocessing, data.max_queue_size) == (workers, processes, max(4, 2 * workers))
    assert cure["rate"] == pytest.approx(2 / 0.0201 if processes else 8 / 0.02, rel=0.05)
    assert cure["stage"] == "Photos"


def test_a_data_loader_and_a_generator_get_their_own_code():
    called = {}

    torch = SimpleNamespace(utils=SimpleNamespace(data=SimpleNamespace()))
    torch.utils.data.DataLoader = lambda dataset, **options: called.update(options)
    cure = settle(make_loader_report("DataLoader", costs=(0.02, 0.02)))["one_worker"]
    run(cure["code"], torch=torch)
    assert called == {"batch_size": BATCH, "num_workers": 2, "prefetch_factor": 2, "persistent_workers": True}
    report = {**make_loader_report("iterable"), "workers": None, "free_cores": 2.0}
    cure = settle(report)["one_worker"]
    found = run(cure["code"], count=3, make_batch=lambda number: np.full((4,), number))
    assert found["data"].use_multiprocessing and cure["is_limit"]
    report = {**make_loader_report("iterable"), "cores": 64, "workers": None, "free_cores": 2.5}
    assert "workers=3" in settle(report)["one_worker"]["code"]  # a process for each core that is free


def test_enough_workers_are_not_told_to_be_more():
    assert settle(make_loader_report("DataLoader", workers=8, costs=(0.02, 0.02), are_processes=True)) == {}
