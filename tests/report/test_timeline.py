"""The timeline of a profile's page: its data, its script and what the page lets run."""

import html
import json
import re
import shutil
import subprocess
from base64 import b64encode
from hashlib import sha256
from typing import Any

import pytest

from tests.report.test_browser import CHROMIUM
from tests.trace.profiles import us, write
from tfperf.report import timeline
from tfperf.report.page import POLICY, make_policy, render_page
from tfperf.report.profile import make_profile_record, merge_records
from tfperf.report.profile_account import WORDS
from tfperf.report.profile_page import render_profile_page
from tfperf.report.timeline import make_timeline_data, read_script
from tfperf.trace.attribution import read_attribution
from tfperf.trace.claims import CAUSES
from tfperf.trace.notes import parse_notes

EVIL = "</script><img src=x onerror=alert(1)>"
NODE = shutil.which("node")
CALLS = 6


def test_each_cause_has_its_words_and_a_colour_of_its_own():
    assert set(timeline.CAUSE_COLOURS) == set(WORDS) == set(CAUSES)
    assert len(set(timeline.CAUSE_COLOURS.values())) == len(CAUSES)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Calls of 100 us: an operation of 40, then a callback of 30 us; names would end the data's element."""
    python: list[Any] = [("train", 100 * i, 95, {"step_num": 0}) for i in range(CALLS)]
    python += [(f"tfperf.callback:{EVIL}", 100 * i + 50, 30) for i in range(CALLS)]
    main = [(f"{EVIL[:9]}/dense/MatMul:MatMul", 100 * i, 40) for i in range(CALLS)]
    ahead = [("Iterator::Root::Batch", 100 * i + 10, 20) for i in range(CALLS)]
    lines = {"python": us(*python), "tf_Compute/-12345": us(*main), "tf_data_x/1": us(*ahead)}
    path = write(tmp_path_factory.mktemp("p") / "vm.xplane.pb", {"/host:CPU": lines})
    return read_attribution(path, parse_notes({"own": True, "optimizers": [], "program": "keras"}))


@pytest.fixture(scope="module")
def page(found):
    return render_profile_page(found, merge_records([make_profile_record(found)]), "timeline")


def list_events(data, title):
    """(begin, length, name, kind's label) of a row, us."""
    (row,) = [row for row in data["rows"] if row["title"] == title]
    events = [row["events"][i : i + 4] for i in range(0, len(row["events"]), 4)]
    return [(b / 1e3, n / 1e3, data["names"][name], data["kinds"][kind][0]) for b, n, name, kind in events]


def test_rows_have_each_event_at_its_time(found):
    data, said = make_timeline_data(found)
    assert [row["title"] for row in data["rows"]] == ["steps", "causes", "callbacks", "Batch", "tf_Compute/2345"]
    assert list_events(data, "steps")[:2] == [(0, 40, "1", "step"), (100, 40, "2", "step")]
    assert list_events(data, "callbacks")[0] == (50, 30, EVIL, "host")
    operation = (100, 40, f"{EVIL[:9]}/dense/MatMul:MatMul", "forward")
    assert list_events(data, "tf_Compute/2345")[1] == operation
    causes = list_events(data, "causes")
    assert causes[:2] == [(0, 40, "operations run", "operations run"), (40, 10, *["a call is started or ended"] * 2)]
    assert causes[2] == (50, 30, "a callback runs", "a callback runs")
    assert sum(length for _, length, *_ in causes) == pytest.approx(500)  # up to the last call's first operation
    assert data["end"] == 595_000 and data["view"] == data["end"]
    assert said.startswith("Operations of all 6 steps. ")
    assert all(row["until"] is None for row in data["rows"] if row["title"] != "causes")


def test_of_a_long_profile_whole_steps_are_shown_and_it_is_said(found, monkeypatch):
    monkeypatch.setattr(timeline, "BINS", 10)
    left = CALLS + CALLS + CALLS + 10  # steps, callbacks, stages, parts
    monkeypatch.setattr(timeline, "MOST", left + 2 * (1 + 5) + 1)  # of a step an operation and five moments
    data, said = make_timeline_data(found)
    assert said.startswith("Operations of the first 2 of 6 steps. Behind these steps causes are those that have most")
    assert [begin for begin, *_ in list_events(data, "tf_Compute/2345")] == [0, 100]
    assert {row["title"]: row["until"] for row in data["rows"]}["tf_Compute/2345"] == 200_000
    behind = [event for event in list_events(data, "causes") if event[0] >= 200]
    assert len(behind) <= 6 and {name for _, _, name, _ in behind} == {"operations run", "a callback runs"}
    assert sum(length for _, length, *_ in behind) == pytest.approx(300)
    assert sum(len(row["events"]) // 4 for row in data["rows"]) <= timeline.MOST


def test_of_a_step_with_too_many_operations_the_longest_are_shown(found, monkeypatch):
    monkeypatch.setattr(timeline, "BINS", 2)
    monkeypatch.setattr(timeline, "MOST", CALLS * 3 + 2)
    data, said = make_timeline_data(found)
    assert "the first 1 of 6 steps" in said and "Causes are those that have most of each 0.3 ms" in said
    assert sum(len(row["events"]) // 4 for row in data["rows"]) <= timeline.MOST


def test_rows_with_many_events_say_how_busy_the_host_is(found, monkeypatch):
    monkeypatch.setattr(timeline, "MOST_OF_ROW", 5)
    data, said = make_timeline_data(found)
    # parts of 119 us with 30, 30, 37, 49 and 34 us of callbacks; of the stage with 29, 31 and 20 to 40
    assert list_events(data, "callbacks") == [(0, 595, "callbacks", "25 to 50 %")]
    assert list_events(data, "Batch")[:2] == [
        (0, 119, "Batch", "busy up to 25 %"), (119, 119, "Batch", "25 to 50 %"),
    ]  # fmt: skip
    assert "say how busy the host is in each 0.12 ms" in said


def test_no_name_ends_the_data_or_begins_an_element(page):
    block = re.search(r'<script type="application/json" id="timeline-data">(.*?)</script>', page)
    assert block is not None and "<" not in block[1] and "&" not in block[1]
    assert EVIL in json.loads(block[1])["names"]
    assert "<img src=x" not in page and page.count("</script>") == 2


def test_the_policy_has_the_hash_of_the_very_script_and_nothing_more(page):
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert policy is not None and scripts == [read_script()]
    hashed = b64encode(sha256(scripts[0].encode()).digest()).decode()
    assert policy[1] == f"{POLICY}; script-src 'sha256-{hashed}'" and policy[1].startswith("default-src 'none';")
    assert "<!--" not in read_script() and not re.search(r"https?:|innerHTML|fetch|import|eval", read_script())
    assert "http://" not in page and "https://" not in page


def test_a_page_without_script_lets_none_run():
    assert make_policy() == POLICY and "script" not in POLICY
    assert "<script" not in render_page("a", "", ())


# what of a browser the script uses; what it draws is kept
FAKE = """
const drawn = [], handlers = {};
const pen = new Proxy({}, {get: (_, name) => name === "measureText" ? (text) => ({width: 6 * text.length})
  : (...told) => { if (name === "fillText") drawn.push(told[0]); }, set: () => true});
const make = (name) => ({
  name, style: {}, hidden: true, offsetTop: 0, offsetWidth: 10, clientWidth: 900, lastElementChild: {append() {}},
  append() {}, getContext: () => pen, setPointerCapture() {}, textContent: name === "data" ? DATA : "",
  addEventListener: (kind, handler) => { handlers[`${name} ${kind}`] = handler; },
});
const elements = {};
const find = (id) => elements[id] = elements[id] || make(id.replace("timeline-", ""));
globalThis.window = {addEventListener() {}};
globalThis.document = {getElementById: find, createElement: make, activeElement: null};
globalThis.requestAnimationFrame = (draw) => draw();
const press = (key) => handlers["canvas keydown"]({key, preventDefault() {}});
const point = (offsetX, offsetY) => handlers["canvas pointermove"]({offsetX, offsetY});
"""
USE = """
const tip = find("timeline-tip"), out = {live: !find("timeline-live").hidden, first: [...drawn]};
point(250, 50); out.cause = tip.textContent;
press("ArrowDown"); press("ArrowDown"); out.row = tip.textContent;
press("."); press("."); out.event = tip.textContent;
drawn.length = 0; press("+"); press("+"); press("+"); out.zoomed = [...drawn].slice(-40);
press("toString"); press("0"); handlers["few click"]();
console.log(JSON.stringify(out));
"""


@pytest.mark.skipif(NODE is None, reason="no node on the PATH")
def test_the_script_draws_rows_and_answers_keys_and_pointer(found, tmp_path):
    data = json.dumps(json.dumps(make_timeline_data(found)[0]))
    (tmp_path / "a.js").write_text(FAKE.replace("DATA", data) + read_script() + USE, encoding="utf-8")
    done = subprocess.run(["node", str(tmp_path / "a.js")], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    out = json.loads(done.stdout)
    assert out["live"] and {"steps", "causes", "callbacks", "Batch", "0"} <= set(out["first"])
    # of 710 pixels for 595 us the 60th: 50.3 us
    assert out["cause"] == "a callback runs · 30.00 µs · causes, from 50.00 µs on"
    assert out["row"] == "training thread callbacks: 6 events"
    assert out["event"] == f"{EVIL} · 30.00 µs · host · callbacks, from 0.1500 ms on"
    assert "0.3 ms" in out["zoomed"]


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium, chromium-browser or google-chrome on the PATH")
def test_a_browser_runs_the_script_and_no_other(page, tmp_path):
    use = """
      const inner = frame.contentDocument, canvas = inner.getElementById('timeline-canvas');
      const box = canvas.getBoundingClientRect(), view = frame.contentWindow;
      canvas.dispatchEvent(new view.PointerEvent('pointermove', {clientX: box.left + 250, clientY: box.top + 50}));
      const cut = inner.createElement('script');
      cut.textContent = 'document.title = "ran"';
      inner.body.append(cut);
      document.body.textContent = JSON.stringify({
        live: !inner.getElementById('timeline-live').hidden, still: inner.getElementById('timeline-still').open,
        tip: inner.getElementById('timeline-tip').textContent, title: inner.title,
        flame: inner.querySelectorAll('svg rect').length,
      });
    """
    frame = f'<iframe id="frame" width="1300" height="900" srcdoc="{html.escape(page)}"></iframe>'
    script = f"window.onload = () => {{const frame = document.getElementById('frame');{use}}}"
    outer = f'<!DOCTYPE html><meta charset="utf-8"><body>{frame}<script>{script}</script>'
    (tmp_path / "outer.html").write_text(outer, encoding="utf-8")
    assert CHROMIUM is not None
    done = subprocess.run(
        [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'browser'}",
         "--dump-dom", (tmp_path / "outer.html").as_uri()], check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    body = re.search(r"<body>(\{.*\})", done.stdout.decode())
    assert body is not None
    out = json.loads(html.unescape(body[1]))
    assert out["live"] and not out["still"] and out["title"] == "timeline" and out["flame"] >= 3
    assert out["tip"].endswith(" on") and "µs" in out["tip"]
