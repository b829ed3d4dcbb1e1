"""The page of a prediction, and the report that it is made of."""

import re
from typing import Any

import numpy as np
import pytest

from tests.report.prediction_records import make_array, make_log, make_report
from tfperf.infer.event_log import EventLog
from tfperf.report import prediction_page, prediction_plots
from tfperf.report.prediction_page import render_prediction
from tfperf.report.prediction_plots import MOST_DEVICES, MOST_STEPS
from tfperf.report.style import apply_style

PLOTS: Any = prediction_plots  # what they return may be None, but not here
split_time: Any = prediction_page.split_time


def read_text(page):
    return re.sub("<[^>]*>", " ", page)


def check_page(page):
    """It is whole, and asks for nothing."""
    assert page.startswith("<!DOCTYPE html>") and page.endswith("</html>\n")
    assert not re.search(r'(?:src|href)="(?!data:image/png;base64,|#)', page)
    assert all(re.search(r'alt="[^"]{20,}"', one) for one in re.findall("<img[^>]*>", page))
    assert "nan" not in read_text(page).lower().split()


CASES: dict[str, tuple[dict[str, Any], str]] = {
    "one worker": ({"workers": 1}, "0 records failed"),
    "64 workers": ({"workers": 64, "devices": 16}, "worker 63 on gpu:15"),
    "two devices": ({"workers": 4, "devices": 2, "measured": True}, "sizes that were tried"),
    "half a second": ({"workers": 2, "seconds": 0.5}, "0.50 s"),
    "a day": ({"workers": 2, "seconds": 86_400.0}, "86400 s (1440.0 min)"),
    "all failed": ({"workers": 2, "log": EventLog(2), "records": 30, "failed": 30}, "Every record failed"),
    "interrupted": ({"workers": 2, "records": 5000, "done": 2000}, "Not finished: 3000 records are left"),
    "nothing": ({"workers": 2, "log": EventLog(2), "records": 30, "seconds": 0.0}, "No batch was done"),
    "some failed": ({"workers": 1, "failed": 3}, "ValueError: bad"),
    "lives": ({"workers": 1, "lives": 3}, "the last of 3 lives"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_page_is_sensible(tmp_path, name):
    settings, words = CASES[name]
    (tmp_path / "environment.json").write_text('{"cpu": "AMD"}')
    page = render_prediction(tmp_path, make_report(tmp_path, **settings))
    check_page(page)
    text = " ".join(read_text(page).split())
    assert (
        words in text
        and "A prediction" in text
        and "tensorflow" in text
        and "{&quot;cpu&quot;: &quot;AMD&quot;}" in text
    )


def test_the_rate_is_that_of_the_batches_by_device(tmp_path):
    report = make_report(tmp_path, workers=3, devices=2, seconds=30.0)
    found = PLOTS.sum_by_device(report)
    widths = np.diff(found.edges)
    assert len(widths) <= MOST_STEPS and found.edges[-1] == 30
    for device, workers in (("gpu:0", 2), ("gpu:1", 1)):
        assert np.sum(found.rates[device] * widths) == pytest.approx(workers * 50 * 20, rel=1e-5)
        np.testing.assert_allclose(
            found.rates[device], workers * 50 * 20 / 30, rtol=1e-4
        )  # even: batches follow each other


@pytest.mark.parametrize("seconds", [0.3, 1.0, 17.3, 3601.0])
def test_the_last_bin_ends_with_the_run(tmp_path, seconds):
    found = PLOTS.sum_by_device(make_report(tmp_path, workers=1, seconds=seconds))
    assert found.edges[-1] == pytest.approx(seconds, rel=0.02) and np.all(np.diff(found.edges) > 0)
    np.testing.assert_allclose(found.rates["gpu:0"], 1000 / seconds, rtol=0.05)


def test_many_devices_are_few_colours(tmp_path):
    report = make_report(tmp_path, workers=20, devices=20)
    found = PLOTS.sum_by_device(report)
    assert len(found.rates) == MOST_DEVICES and list(found.rates)[-1] == "13 other devices"
    total = sum(np.sum(rates * np.diff(found.edges)) for rates in found.rates.values())
    assert total == pytest.approx(20 * 1000, rel=1e-5)


def test_figures_show_what_the_report_has(tmp_path):
    report = make_report(tmp_path, log=make_log(2, 20.0, ends=[15.0, 19.0]), devices=2)
    with apply_style():
        (axis,) = PLOTS.draw_throughput(PLOTS.sum_by_device(report)).axes
        assert [one.get_text() for one in axis.get_legend().get_texts()] == ["gpu:0", "gpu:1"]
        (axis,) = PLOTS.draw_tail(report["workers"], report["idle_tail"]).axes
        assert [bar.get_width() for bar in axis.patches] == pytest.approx([5.0, 1.0])
        assert [one.get_text() for one in axis.get_yticklabels()] == ["worker 0 on gpu:0", "worker 1 on gpu:1"]
        left, right = PLOTS.draw_units(report["units"], 20.0).axes
        assert max(right.lines[0].get_ydata()) == 5 and max(left.lines[0].get_ydata()) == pytest.approx(1.9, rel=0.06)


def test_the_end_is_told_by_workers(tmp_path):
    report = make_report(tmp_path, log=make_log(2, 20.0, ends=[15.0, 19.0]))
    assert report["idle_tail"] == pytest.approx({"seconds": 5.0, "commit_seconds": 1.0})
    assert [one["idle_seconds"] for one in report["workers"]] == pytest.approx([5.0, 1.0])
    parts = split_time(report)
    assert sum(parts.values()) == pytest.approx(1)
    assert parts["idle at the end"] == pytest.approx(6 / 40) and parts["computing batches"] == pytest.approx(34 / 40)
    page = read_text(render_prediction(tmp_path, report))
    assert "no more work for 5.00 s, 25.0 % of the run; the last one for 1.00 s" in page


def test_a_worker_that_never_had_work_is_told_so(tmp_path):
    log = make_log(1, 10.0)
    log.totals.append(EventLog(1).totals[0])
    wide = EventLog(2)
    wide.totals, wide.units = log.totals, log.units
    wide.course.values[:, :1] = log.course.values
    wide.course.seconds = log.course.seconds
    report = make_report(tmp_path, workers=2, log=wide, seconds=10.0)
    assert [one["idle_seconds"] for one in report["workers"]] == [pytest.approx(0.0), None]
    assert report["idle_tail"]["seconds"] == pytest.approx(0.0)
    assert split_time(report)["before its first unit"] == pytest.approx(0.5)
    check_page(render_prediction(tmp_path, report))


def test_an_interrupted_run_has_no_end(tmp_path):
    report = make_report(tmp_path, records=5000, done=2000)
    assert report["idle_tail"] is None and {one["idle_seconds"] for one in report["workers"]} == {None}


def test_useful_share_and_start_are_of_the_events(tmp_path):
    report = make_report(tmp_path, log=make_log(2, 20.0, ends=[10.0, 20.0]))
    # worker 0 would have done 100 batches in 20 s, worker 1 did all of its 50
    assert report["useful_share"] == pytest.approx(100 / 150)
    assert report["startup_seconds"] == 3.0 and report["rate"] == pytest.approx(2000 / 20)
    assert make_array(report, "records").shape[0] == 2
    for key, total in (("records", 2000), ("cost", 2000), ("busy_seconds", 30)):
        assert make_array(report, key).sum() == pytest.approx(total, rel=1e-5)
    units = report["units"]
    assert units["count"] == 20 and units["batches"] == {"low": 5.0, "median": 5.0, "high": 5.0}
