"""TensorBoard started on a log directory: its profile tab lists the profile, its trace viewer shows the steps."""

import gzip
import importlib.util
import json
import re
import signal
import subprocess
import sys
from urllib.request import ProxyHandler, build_opener

import pytest

from tests.trace.profiles import us, write
from tfperf.report.board import PLUGIN

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(importlib.util.find_spec(PLUGIN) is None, reason="the extra `profile` is not installed"),
]


@pytest.fixture
def address(tmp_path):
    python = [("train", 100_000 * i, 60_000, {"step_num": i, "_r": 1}) for i in range(3)]
    main = [("dense/MatMul:MatMul", 100_000 * i + 1000, 50_000) for i in range(3)]
    session = tmp_path / "plugins" / "profile" / "2026_01_01_00_00_00"
    write(session / "vm.xplane.pb", {"/host:CPU": {"python": us(*python), "main": us(*main)}})
    command = [sys.executable, "-m", "tfperf", "board", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as board:
        assert board.stdout is not None and board.stderr is not None
        line = board.stdout.readline()
        found = re.match(r"http://127\.0\.0\.1:\d+/", line)
        assert found, line + (board.stderr.read() if board.poll() is not None else "")
        yield found[0]
        board.send_signal(signal.SIGINT)
        assert board.wait(30) == 0


def get(address, path):
    with build_opener(ProxyHandler({})).open(address + path, timeout=120) as answer:
        content = answer.read()
    return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content


def test_profile_tab_lists_the_run_and_its_trace_viewer_shows_steps(address):
    assert "profile" in json.loads(get(address, "data/plugins_listing"))
    assert json.loads(get(address, "data/plugin/profile/runs")) == ["2026_01_01_00_00_00"]
    trace = get(address, "data/plugin/profile/data?run=2026_01_01_00_00_00&tag=trace_viewer&host=vm")
    events = [e for e in json.loads(trace)["traceEvents"] if e.get("ph") == "X"]
    assert sum("MatMul" in e["name"] for e in events) >= 3
    assert sum("train" in e["name"] for e in events) >= 3
