"""A profile's report as files."""

import csv
import gzip
import json
import shutil
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # type: ignore[import-untyped]

from tests.report.test_browser import CHROMIUM, requests
from tests.trace.profiles import us, write
from tfperf.report.board import describe_profiles, find_log_directory
from tfperf.report.plots_profile import draw_timeline
from tfperf.report.profile import make_profile_record, make_profile_tables, merge_records
from tfperf.report.profile_account import WORDS
from tfperf.report.profile_files import find_report_folder, write_profile
from tfperf.report.tensorboard import FILE
from tfperf.trace.attribution import read_attribution
from tfperf.trace.notes import parse_notes

MARK = {"step_num": 0}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Two calls of two turns each, on two threads; the title and a name hold markup."""
    python: list[Any] = [("train", 200 * i, 150, MARK) for i in range(2)]
    python += [("tfperf.callback:Saver.on_train_batch_end", 160, 20)]
    main = [("while/<b>dense/MatMul:MatMul", 200 * i + 50 * j + 10, 30) for i in range(2) for j in range(2)]
    pool = [("gradient_tape/while/dense/MatMul:MatMul", 200 * i + 50 * j + 30, 20) for i in range(2) for j in range(2)]
    lines = {"python": us(*python), "tf_Compute/123456": us(*main), "tf_Compute/98765": us(*pool)}
    path = write(tmp_path_factory.mktemp("p") / "vm.xplane.pb", {"/host:CPU": lines})
    return read_attribution(path, parse_notes({"own": True, "optimizers": [], "calls": 2, "wanted": 2}))


@pytest.fixture(scope="module")
def folder(found, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    write_profile(folder, found, merge_records([make_profile_record(found)]), "a <i>title</i>")
    return folder


def test_json_and_csv_have_the_figures(folder):
    report = json.loads((folder / "report.json").read_text())
    assert report["step_ms"] == pytest.approx(0.045) and report["gap_ms"] == pytest.approx(0.11)
    assert report["phases"]["forward"] == pytest.approx(0.03) and report["unattributed_share"] == 0
    assert 0 <= report["inferred_share"] <= 1
    rows = list(csv.DictReader((folder / "phases.csv").read_text().splitlines()))
    forward = [float(row["ms"]) for row in rows if row["phase"] == "forward"]
    np.testing.assert_allclose(forward, [0.03] * 4)
    operations = list(csv.DictReader((folder / "operations.csv").read_text().splitlines()))
    assert {row["name"] for row in operations} == {
        "while/<b>dense/MatMul:MatMul", "gradient_tape/while/dense/MatMul:MatMul",
    }  # fmt: skip


def test_a_report_goes_to_the_folder_of_a_card_and_into_a_run(tmp_path):
    card, run, logs = Path("cards/mine.yaml"), tmp_path / "run", tmp_path / "logs"
    for folder in (run, logs):
        folder.mkdir()
    (run / "run.json").write_text("{}")
    assert find_report_folder(card, None, None) == (Path("mine_profile"), Path("mine_profile"))
    assert find_report_folder(card, Path("out"), None) == (Path("out"), Path("out"))
    assert find_report_folder(card, Path("out"), Path("log")) == (Path("log"), Path("out"))
    assert find_report_folder(run, None, None) == (run, run / "profile")
    assert find_report_folder(logs, None, None) == (logs, None)
    assert find_report_folder(logs, Path("out"), None) == (logs, Path("out"))


def test_the_page_escapes_names_and_asks_for_nothing(folder):
    page = (folder / "report.html").read_text()
    assert "<b>dense" not in page and "&lt;b&gt;dense" in page and "a &lt;i&gt;title" in page
    assert "http://" not in page and "https://" not in page


def test_the_picture_shows_each_operation_at_its_time(found):
    figure = draw_timeline(found)
    bars = [c for c in figure.axes[0].collections if c.get_paths()]
    spans = sorted(
        (round(float(x.min()), 3), round(float(x.max()), 3))
        for bar in bars for x in (np.asarray(p.vertices)[:, 0] for p in bar.get_paths())
    )  # fmt: skip
    # of the second call: forward from 0 and from 50 us, 30 us each; backward from 20 and from 70, 20 us each
    assert spans == [(0.0, 0.03), (0.02, 0.04), (0.05, 0.08), (0.07, 0.09)]


def test_names_that_look_like_markup_are_printed_as_they_are(tmp_path):
    name = "void f<int>() [clone .isra.0] [/b]"
    planes = {"/host:CPU": {"p": us(("train", 0, 50, MARK))}, "/device:GPU:0": {"Stream #1": us((name, 10, 20))}}
    record = make_profile_record(read_attribution(write(tmp_path / "vm.xplane.pb", planes)))
    console = Console(width=200, record=True, file=StringIO())
    console.print(make_profile_tables(record))
    assert name in console.export_text()


def test_chromes_trace_has_each_operation_at_its_time(folder, found):
    trace = json.loads(gzip.decompress((folder / "trace.json.gz").read_bytes()))
    events = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    steps = [e for e in events if e["name"].startswith("step ")]
    causes = [e for e in events if e["name"] in WORDS.values()]
    operations = [e for e in events if "cat" in e]
    # from 0 on 45 us of each 50 run, up to the first operation of the next call at 200
    assert sum(e["dur"] for e in causes) == pytest.approx(200) and min(e["ts"] for e in causes) == 0
    assert {e["name"] for e in causes} == {
        WORDS[cause] for cause in ("work", "between", "dispatch", "callback", "unexplained")
    }
    assert [(e["name"], e["ts"]) for e in steps] == [("step 1", 0), ("step 2", 50), ("step 3", 200), ("step 4", 250)]
    assert len(operations) == 8
    first = min(operations, key=lambda e: e["ts"])
    assert (first["ts"], first["dur"], first["cat"]) == (0, 30, "forward")
    names = {e["args"]["name"] for e in trace["traceEvents"] if e["ph"] == "M"}
    assert {"CPU", "steps", "causes", "tf_Compute/123456"} <= names
    lines = {e["args"]["name"]: (e["pid"], e["tid"]) for e in trace["traceEvents"] if e["name"] == "thread_name"}
    assert {"steps", "causes"} <= set(lines)
    calls = [e for e in events if (e["pid"], e["tid"]) == lines["callbacks"]]
    assert [(e["name"], e["ts"], e["dur"]) for e in calls] == [("Saver.on_train_batch_end", 150, 20)]


def test_tensorboard_reads_scalars_by_step_and_the_table(folder):
    events = EventAccumulator(str(folder / FILE)).Reload()
    assert {"step_ms", "gap_ms", "phase_ms/forward", "phase_ms/backward"} == set(events.Tags()["tensors"]) - {"profile"}
    values = [float(e.tensor_proto.float_val[0]) for e in events.Tensors("phase_ms/forward")]
    np.testing.assert_allclose(values, [0.03] * 4, rtol=1e-6)
    (text,) = events.Tensors("profile")
    assert b"| forward | 0.0300 ms |" in text.tensor_proto.string_val[0]


def test_board_takes_a_run_or_a_log_directory_and_says_what_is_missing(folder, tmp_path, monkeypatch):
    assert find_log_directory(folder) == folder
    run = tmp_path / "run"
    shutil.copytree(folder, run / "events")
    assert find_log_directory(run) == run / "events" and describe_profiles(run) == []
    (run / "events" / "vm.xplane.pb").write_bytes(b"")
    for there, words in ((None, "pip install tfperf[profile]"), (object(), "trace viewer works")):
        monkeypatch.setattr("importlib.util.find_spec", lambda name, there=there: there)
        (line,) = describe_profiles(run)
        assert words in line
    monkeypatch.undo()
    (tmp_path / "empty").mkdir()
    for wrong in ("none", "empty"):
        done = subprocess.run(
            [sys.executable, "-m", "tfperf", "board", str(tmp_path / wrong)], capture_output=True, text=True
        )
        assert done.returncode == 2 and wrong in done.stderr and "Traceback" not in done.stderr


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium, chromium-browser or google-chrome on the PATH")
def test_a_browser_shows_the_page_without_network(folder, tmp_path):
    shutil.copy(folder / "report.html", tmp_path)
    assert requests(tmp_path, "report.html") == []
    assert (tmp_path / "report.html.png").stat().st_size > 50_000
