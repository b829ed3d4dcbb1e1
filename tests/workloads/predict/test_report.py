"""The report of a prediction over several lives: the last one's figures, and what the others came to."""

import json
import time

import pytest

from tests.report.prediction_records import make_folder, make_log, make_slots
from tfperf.infer.prediction import PredictionResult
from tfperf.workloads.predict.report import EarlierReport, list_lives, read_earlier, write_report

LIFE = {"seconds": 10.0, "rate": 100.0, "useful_share": 0.9, "startup_seconds": 3.0}
ENVIRONMENT = {"versions": {"numpy": "2"}, "platform": "x", "cpu": {}, "memory_bytes": 1, "gpus": [], "variables": {}}


def write(folder, done, records, seconds=10.0):
    """A life that did so many records, of which so many are done after it, of 2000."""
    (folder / "environment.json").write_text(json.dumps(ENVIRONMENT))
    now = time.monotonic()
    result = PredictionResult()
    if records:
        log = make_log(2, seconds, batches=records // 40)
        result = PredictionResult(log, seconds, records, now - seconds)
    return write_report(make_folder(folder, 2000, done), result, make_slots(2), [], now - seconds - 3)


def test_lives_are_kept_and_those_that_were_killed_are_known_by_their_records(tmp_path):
    write(tmp_path, 400, 400)
    summary = write(tmp_path, 1600, 1000)  # 200 are of a life that was killed
    report = json.loads((tmp_path / "report.json").read_text())
    assert [one["records"] for one in report["lives"]] == [400, 200, 1000]
    assert [one["rate"] for one in report["lives"]] == [40.0, None, 100.0]
    assert report["records_of_this_life"] == 1000 and summary["rate"] == report["rate"] == 100.0
    assert report["startup_seconds"] == pytest.approx(3.0, abs=0.01) and report["seconds_in_all"] >= 13
    page = (tmp_path / "report.html").read_text()
    assert "Not finished: 400 records are left" in page and "the last of 3 lives" in page


@pytest.mark.parametrize("done", [2000, 400])
def test_a_life_that_did_nothing_leaves_the_report_as_it_is(tmp_path, done):
    write(tmp_path, done, done)
    texts = [(tmp_path / name).read_bytes() for name in ("report.json", "report.html")]
    summary = write(tmp_path, done, 0)
    assert [(tmp_path / name).read_bytes() for name in ("report.json", "report.html")] == texts
    assert summary["rate"] is None and summary["committed"] == done


def test_a_life_with_nothing_to_do_after_a_kill_writes_what_is_known(tmp_path):
    write(tmp_path, 2000, 0)
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["is_finished"] and report["rate"] is None and report["useful_share"] is None
    assert [one["records"] for one in report["lives"]] == [2000, 0]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"is_finished": true, "lives": [3]}'])
def test_a_damaged_report_of_before_is_none(tmp_path, text):
    (tmp_path / "report.json").write_text(text)
    assert read_earlier(tmp_path) == EarlierReport(is_finished=False)
    summary = {**LIFE, "records_of_this_life": 50, "committed": 80}
    assert [one.records for one in list_lives(read_earlier(tmp_path), summary)] == [30, 50]


def test_sizes_that_were_tried_stay_with_the_folder(tmp_path):
    (tmp_path / "report.json").write_text('{"is_finished": false, "batches_tried": [{"records": 1, "rate": 20.0}]}')
    assert write(tmp_path, 400, 400)["batches_tried"] == [{"records": 1, "rate": 20.0}]
