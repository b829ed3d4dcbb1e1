"""Verdict, tables, page of input studies, from reports whose truth is known."""

import io
import json
import math

import pytest
from rich.console import Console

from tests.report.input_records import (
    insert_stage,
    make_array_report,
    make_decoding_report,
    make_figure,
    make_found,
    make_loader_report,
    make_problem,
    make_stage,
    make_time,
    make_waiting_report,
    make_workers,
)
from tfperf.inputs.bound import find_bound
from tfperf.report.input import conclude, make_input_tables
from tfperf.report.input_ahead import StoreGain
from tfperf.report.input_page import render_input
from tfperf.report.input_stages import format_calls, list_fixed_rates, list_stage_rows


def settle(report):
    conclude(report)
    return json.loads(json.dumps(report))  # as from the disk


def show(report):
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(make_input_tables(report))
    return console.export_text()


@pytest.mark.parametrize(
    ("figures", "cpu", "bound"),
    [
        ((100.0, 50.0, 49.0), (0.0, 0.02, 0.02), "input"),  # a device of its own
        ((100.0, 500.0, 99.0), (0.0, 0.002, 0.002), "model"),
        ((100.0, 100.0, 50.0), (0.0, 0.01, 0.01), "turns"),  # one after the other, cores free
        ((100.0, 400.0, 80.0), (0.02, 0.005, 0.025), "cores"),  # 2.5 CPU-s of 100 steps on 2 cores
        ((100.0, 60.0, 40.0), (0.02, 0.033, 0.05), "input"),  # they share cores, but the data alone are slower, too
        ((100.0, 97.0, 90.0), (0.0, 0.02, 0.02), "unknown"),
    ],
)  # fmt: skip
def test_who_waits_for_whom(figures, cpu, bound):
    spread = 0.06 if bound == "unknown" else 0.02
    model, data, both = figures
    assert find_bound(make_found(model, data, both, {}, cpu, spread), 2.0) == bound


def test_a_waiting_pipeline_has_a_verdict_in_three_lines():
    report = settle(make_waiting_report(step=100.0))
    who, workers, ahead = report["lines"][:3]
    assert who.startswith("input-bound: a step needs 10.0 ms") and "input delivers a batch in 40.0 ms" in who
    assert "the device waits 76% [74%, 78%] of the time" in who
    # 12.5 batches/s of a thread, 8 of them looked at: all would be needed for the step's 100
    assert (
        workers.startswith("8 threads give 100 steps/s, 100% of the step's rate; ")
        and "each takes 12.0 MB of RAM (in all 500.0 MB" in workers
    )
    assert "cores minus one says 1" in workers
    assert "storing is not advised" in ahead
    assert "more or faster devices are not advised: they would wait for the same input" in report["lines"]
    assert any(
        "fetch: AUTOTUNE took 2 calls at once; for the step's rate it needs at least 8" in x for x in report["lines"]
    )


def test_the_knee_tells_what_the_next_worker_adds():
    report = settle(make_waiting_report(step=50.0))
    assert report["lines"][1].startswith("4 threads give 50 steps/s, 100% of the step's rate, the fifth adds nothing: ")
    assert "limited by the step" in report["lines"][1]


def test_stages_that_no_pool_widens_are_named():
    report = settle(make_waiting_report(step=100.0, calls=None, kind="sequential_map"))
    told = "more threads give nothing, since the code says how many calls there are: fetch has 1 at a time"
    assert report["lines"][1].startswith(told)
    assert "with the code below 100 steps/s are expected" in report["lines"][1]


@pytest.mark.parametrize(("wait", "is_binding"), [(0.002, False), (0.005, True)])
def test_a_stage_of_one_call_is_named_where_the_data_wait_for_it(wait, is_binding):
    report = make_waiting_report(step=100.0)
    source = report["as_it_is"]["source"]
    insert_stage(source, 2, make_stage("map", "flip"), make_time(wait=wait, rate=200.0))
    told = settle(report)["lines"][1]
    assert told.startswith("more threads give nothing" if is_binding else "8 threads give")
    assert ("flip has 1 at a time" in told) == is_binding
    assert list_fixed_rates(list_stage_rows(source))[0][1] == pytest.approx(1 / (8 * wait))


def test_storing_pays_after_as_many_epochs_as_its_times_say():
    report = settle(make_decoding_report(random_at=2))
    # 800 elements at 200/s are 4 s; an epoch of 100 batches takes 100 / 24 s, stored as long as the step's 5 ms a batch
    gain = StoreGain(**report["ahead"])
    assert gain.preparation_seconds == pytest.approx(4.0) and gain.epoch_seconds == pytest.approx(100 / 24)
    assert gain.stored_epoch_seconds == pytest.approx(0.5)
    assert gain.epochs == pytest.approx(4.0 / (100 / 24 - 0.5))
    assert report["lines"][2].startswith(
        "storing what comes before change (0.2 MB, made in 4.00 s) pays after 2 epochs"
    )
    now, stored = gain.list_course(2, False), gain.list_course(2, True)
    assert now[0] == 0.0 and stored[0] == 4.0 and now[1] < stored[1] and now[2] > stored[2]


def test_what_repeats_is_stored_once_and_an_epoch_is_the_trainings():
    report = make_decoding_report(random_at=2)
    source = report["as_it_is"]["source"]
    stages, times = source["pipeline"]["stages"], source["times"]["stages"]
    insert_stage(source, 1, make_stage("repeat", cardinality=3 * stages[0]["cardinality"]), times[0])
    for one in stages[2:]:
        one["cardinality"] *= 3
    report["as_it_is"]["source"]["ahead"]["position"] = 2
    report["as_it_is"]["source"]["steps_per_epoch"] = 50
    gain = StoreGain(**settle(report)["ahead"])
    assert gain.elements == 800 and gain.preparation_seconds == pytest.approx(4.0)
    assert gain.epoch_seconds == pytest.approx(50 / 24)


def test_a_rate_that_scatters_is_told_and_what_is_left_where_nothing_helps():
    report = make_decoding_report(random_at=1)
    lines = settle(report)["lines"]
    assert not any("unsteady" in one for one in lines)
    assert any("what could be made cheaper first is decode (80 ms" in one for one in lines)
    report["as_it_is"]["data"]["rate"]["high"] = 40.0
    (told,) = [one for one in settle(report)["lines"] if "unsteady" in one]
    assert "the rate of the data is" in told


def test_what_beginning_a_pass_costs_is_told_where_it_is_notable():
    report = make_waiting_report(step=1000.0)  # 100 batches at 25 a second
    source = report["as_it_is"]["source"]
    source["begin_seconds"] = 1.0
    (told,) = [one for one in settle(report)["lines"] if "beginning a pass" in one]
    assert told.startswith("beginning a pass takes 1.00 s, 20% of the time of its 100 batches") and "repeat()" in told
    for begin, cardinality in ((0.1, 100.0), (1.0, math.inf), (1.0, None)):
        source["begin_seconds"], source["pipeline"]["stages"][-1]["cardinality"] = begin, cardinality
        assert not any("beginning a pass" in one for one in settle(report)["lines"])


def test_storing_what_python_made_rests_on_its_giving_the_same():
    report = make_decoding_report(random_at=2)
    told = settle(report)["lines"][2]
    report["as_it_is"]["source"]["pipeline"]["stages"][1]["function"]["python"] = ["EagerPyFunc"]
    assert settle(report)["lines"][2] == (
        f"{told}; that holds if Python in decode always gives the same, as it did in two passes"
    )
    report["as_it_is"]["source"]["ahead"] = None
    assert "decode calls Python, and no stage behind it" in settle(report)["lines"][2]


def test_what_is_drawn_is_not_stored():
    report = settle(make_decoding_report(random_at=1))
    assert (
        report["ahead"] is None
        and "storing does not pay: what comes before decode, the first random" in report["lines"][2]
    )


def test_input_is_not_blamed_where_both_share_the_cores():
    # the step takes 20 ms of its own and 40 CPU-ms, a batch 10 ms of 2 cores: together 30 ms
    report = make_decoding_report()
    report["as_it_is"] |= make_found(50.0, 100.0, 33.0, report["as_it_is"]["source"], (0.04, 0.02, 0.06))
    report = settle(report)
    assert report["bound"] == "cores" and report["lines"][0].startswith("short of cores: ")
    assert "CPU ms: step 40, batch 20, both 60" in report["lines"][0]
    assert "input-bound" not in report["lines"][0] and not any(
        "devices are not advised" in one for one in report["lines"]
    )
    assert all(one["kind"] == "cache" for one in report["cures"])  # less work helps, more workers do not


def test_where_the_model_bounds_nothing_is_advised_for_speed():
    report = make_waiting_report(step=5.0)
    report["as_it_is"]["source"]["problems"].append(
        make_problem("small_shuffle", 0, share=None, buffer=10, elements=800.0)
    )
    report = settle(report)
    assert report["lines"][0].startswith("compute-bound: ") and report["lines"][0].endswith(
        "input waits for the device"
    )
    assert report["lines"][2] == "nothing to prepare ahead: the device does not wait"
    assert [one["kind"] for one in report["cures"]] == ["small_shuffle"]  # what is learnt, not how fast
    assert any("nothing is advised for speed" in one for one in report["lines"])
    assert not any("devices" in one for one in report["lines"])


def test_arrays_and_loaders_of_one_thread_have_no_workers():
    lines = settle(make_array_report())["lines"]
    assert lines[1] == "samples are in memory: no workers make them" and "nothing to prepare" in lines[2]
    report = {**make_loader_report("iterable"), "workers": None, "free_cores": 2.0}
    report = settle(report)
    assert "one thread makes all batches" in report["lines"][1] and report["cures"][0]["kind"] == "one_worker"


def test_cores_that_are_not_free_are_not_counted_where_there_are_no_workers():
    report = {**make_array_report(), "cores": 64, "free_cores": 1.0}
    report["as_it_is"] = make_found(100.0, 100.0, 50.0, report["as_it_is"]["source"], (0.01, 0.01, 0.02))
    report = settle(report)
    assert report["bound"] == "cores" and " 1 free cores" in report["lines"][0]


def test_a_pipeline_is_shown_stage_by_stage():
    text = show(settle(make_waiting_report()))
    row = next(line for line in text.splitlines() if line.startswith("| fetch"))
    assert [cell.strip() for cell in row.strip("|").split("|")] == [
        "fetch", "map", "0", "80", "25 [24.5, 25.5]", "AUTOTUNE: 2", "", "2.5 kB", "0.4 kB", "",
    ]  # fmt: skip
    assert "private_threadpool_size" in text and "expected" in text


def test_more_calls_are_not_missed_where_workers_share_something():
    report = make_waiting_report(step=100.0)
    report["workers"] = make_workers((1, 0.001, 12.5), (2, 0.001, 13.0), 100.0)
    report = settle(report)
    assert "what one of them has at a time" in report["lines"][1]
    assert not any("AUTOTUNE took" in one for one in report["lines"])


def test_calls_say_who_set_them():
    rows = list_stage_rows(make_waiting_report()["as_it_is"]["source"])
    assert format_calls(rows[1]) == "AUTOTUNE: 2" and format_calls(rows[0]) == "1"
    source = make_waiting_report(calls=3)["as_it_is"]["source"]
    assert format_calls(list_stage_rows(source)[1]) == "3"
    source["pipeline"]["stages"][1]["parallel"] = None
    source["times"]["stages"][1]["tuning"]["parallelism"] = 2.0
    row = list_stage_rows(source)[1]
    assert format_calls(row) == "1, run as 2" and row.is_parallelized and not row.is_sequential


def test_stages_of_an_unknown_number_of_elements_are_shown_without_figures():
    report = make_waiting_report()
    report["as_it_is"]["source"]["times"]["stages"][0] |= {"per_output": None, "tuning": None}
    report["as_it_is"]["source"]["pipeline"]["stages"][0]["cardinality"] = math.inf
    report = settle(report)
    assert "n/a" in show(report) and "<img" in render_input(report)


def test_the_page_has_what_was_found():
    report = make_decoding_report(random_at=2)
    report["workers"]["sweep"] = [{"workers": n, "rates": [12.0 * min(n, 2), 12.5 * min(n, 2)]} for n in range(1, 9)]
    report = settle(report)
    page = render_input(report)
    assert page.count("<img") == 3 and all(f'id="{one}"' for one in ("rates", "stages", "workers", "write", "ahead"))
    for line in report["lines"][:3]:
        assert line.partition("'")[0] in page
    assert "dataset = dataset.cache()" in page and "24 25" in page  # the sweep's two rates of two workers
    ratio = {"value": 2.5, "low": 2.25, "high": 2.75}
    applied = {
        "changed": [{"key": "data.input.threads", "before": None, "after": 8, "ratio": ratio}], "ratio": ratio,
        "ratio_device": None, "busy": {"before": make_figure(0.3), "after": make_figure(0.9)},
    }  # fmt: skip
    with_applied = render_input({**report, "applied": applied})
    assert with_applied.count("<img") == 4 and "data.input.threads" in with_applied
    assert with_applied.count("2.50 [2.25, 2.75]") == 2
    assert "Nothing was changed" in render_input({**report, "applied": {"changed": [], "ratio": None}})


@pytest.mark.parametrize("make", [make_array_report, make_loader_report, make_waiting_report, make_decoding_report])
def test_every_kind_has_a_page_and_tables(make):
    report = settle(make())
    assert render_input(report).startswith("<!DOCTYPE html>") and report["lines"][0] in " ".join(show(report).split())


def test_how_busy_the_device_is_stands_in_lines_and_on_the_page():
    report = make_waiting_report()
    use = {"device": "GPU:0", "seconds": 2.0, "busy": 0.6, "copies_alone": 0.1, "shares": [0.5, 0.7],
           "copies": {"mbyte": 3.0, "seconds": 0.2, "beside": 0.0, "alone": 0.1, "verdict": "wait"}}  # fmt: skip
    report["as_it_is"]["device"] = {"devices": [use], "nvml": [], "unknown": None}
    conclude(report)
    told = [line for line in report["lines"] if line.startswith("GPU:0")]
    assert "kernels run for 60.0%" in told[0] and "copies and steps wait for each other" in told[1]
    assert "under TensorFlow" in render_input(report)
    report["as_it_is"]["device"] = {"devices": [], "nvml": [], "unknown": "no step was seen"}
    conclude(report)
    assert "device busy: n/a: no step was seen" in report["lines"] and "profiler." not in render_input(report)
