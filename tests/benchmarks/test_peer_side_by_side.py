"""The comparison's bookkeeping, with small scripts in the place of both sides."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.peer import process, side_by_side
from benchmarks.peer.side_by_side import POINTS, PeerPoint, make_row, select_points
from benchmarks.registry import REGISTRY
from tfperf.errors import UserError

ROOT = Path(__file__).parents[2]
VERSIONS = {"nnpdf": "1", "tensorflow": "2"}


def record(ms, cpu=1.0, rss=1.0, first=1.0):
    spread = [ms, 0.0, 99.0]
    return {"ms_step": spread, "cpu_ms_step": cpu, "peak_rss_mb": rss, "first_step_s": first, "versions": VERSIONS}


def script(path, body):
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def test_a_row_has_medians_over_rounds_and_ratios():
    found = make_row(
        PeerPoint("dis", 10, 1, 1, 3),
        [record(30, 40, 900, 9), record(20, 36, 1000, 7), record(90, 50, 950, 8)],
        [record(0.5, 0.8, 300, 2), record(0.4, 0.6, 310, 1), record(0.6, 0.9, 290, 3)],
    )
    ratios = {name: found.pop(name) for name in [*found] if name.startswith("ratio")}
    # of the rounds 60, 50 and 150; their logarithms scatter by 0.58875; Student's t of two degrees is 4.30265
    middle, half = 450000 ** (1 / 3), 1.46254
    assert ratios["ratio_ms"] == pytest.approx(middle)
    assert ratios["ratio_ms_low"] == pytest.approx(middle * math.exp(-half), rel=1e-4)
    assert ratios["ratio_ms_high"] == pytest.approx(middle * math.exp(half), rel=1e-4)
    assert ratios["ratio_cpu_ms"] == pytest.approx((50 * 60 * 500 / 9) ** (1 / 3))
    assert found == {
        "problem": "dis", "replicas": 10, "peer_ms": 30, "tfperf_ms": 0.5,
        "peer_cpu_ms": 40, "tfperf_cpu_ms": 0.8, "peer_peak_rss_mb": 1000,
        "tfperf_peak_rss_mb": 310, "peer_first_step_s": 8, "tfperf_first_step_s": 2, "rounds": 3,
        "peer": "nnpdf 1, tensorflow 2",
    }  # fmt: skip


def test_points_can_be_chosen():
    assert select_points(None) == POINTS
    assert [p.name for p in select_points("dis")] == ["dis:1", "dis:10", "dis:100"]
    assert [p.name for p in select_points("global:1, dis:10")] == ["dis:10", "global:1"]
    with pytest.raises(UserError, match=r"got 'dis:7'; must be some of dis, global, dis:1,"):
        select_points("global,dis:7")


def test_the_sides_take_turns(tmp_path, monkeypatch):
    """Peer first, then tfperf, in each round, each as its own process with its own arguments."""
    answer = json.dumps(record(2.0))
    for name in ("peer", "ours"):
        script(tmp_path / name, f"echo {name} $* >> {tmp_path}/log; echo noise; echo '{answer}'")
    monkeypatch.setenv("TFPERF_CACHE", str(tmp_path))
    monkeypatch.setenv(process.PEER_PYTHON, str(tmp_path / "peer"))
    monkeypatch.setattr(side_by_side, "POINTS", (PeerPoint("dis", 10, 7, 11, 2),))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "ours"))
    (found,) = REGISTRY["peer"].measure("dis:10")
    assert found["ratio_ms"] == 1.0 == found["ratio_ms_high"] and found["rounds"] == 2
    check, *lines = (tmp_path / "log").read_text().splitlines()
    assert check.startswith("peer -c import n3fit")
    problem = f"--problem {tmp_path}/dis-1.npz --replicas 10 --steps 7"
    turns = [
        f"peer -m benchmarks.peer.n3fit_side {problem}",
        "ours -m benchmarks.peer.ours --size dis --replicas 10 --steps 11",
    ]
    assert lines == turns * 2


@pytest.mark.parametrize(
    "body, message",
    [
        ("echo why it failed >&2; exit 3", r"(?s)exit code 3.*why it failed"),
        ("true", "printed no JSON object"),
        ("echo '{}'; echo done", r"(?s)printed no JSON object.*done"),
        ("echo 3", "printed no JSON object"),
    ],
)
def test_a_side_that_fails_says_so(tmp_path, body, message):
    with pytest.raises(process.SubprocessError, match=message):
        process.run_module(script(tmp_path / "python", body), "any.module")


def test_an_interpreter_without_the_peer_is_refused(tmp_path, monkeypatch):
    for given in (script(tmp_path / "python", "exit 1"), tmp_path / "none"):
        monkeypatch.setenv(process.PEER_PYTHON, str(given))
        with pytest.raises(UserError, match=f"{process.PEER_PYTHON}={given}: must be a Python interpreter"):
            process.prepare_peer_python()


def test_the_peers_environment_is_made_once(tmp_path, monkeypatch):
    """A script for Python: `-m venv` copies it into place, `-m pip` marks the peer as installed, `-c` asks for it."""
    fake = script(
        tmp_path / "python",
        f'echo "$*" >> {tmp_path}/log\n'
        f'if [ "$2" = venv ]; then mkdir -p "$4/bin" && cp "$0" "$4/bin/python"; fi\n'
        f'if [ "$2" = pip ]; then touch {tmp_path}/installed; fi\n'
        f'if [ "$1" = -c ]; then test -f {tmp_path}/installed; fi',
    )
    monkeypatch.delenv(process.PEER_PYTHON, raising=False)
    monkeypatch.setenv("TFPERF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "executable", str(fake))
    python = process.prepare_peer_python()
    assert process.prepare_peer_python() == python == tmp_path / "cache" / "peer-nnpdf-4.1.5" / "bin" / "python"
    venv, pip, *asked = (tmp_path / "log").read_text().splitlines()
    assert venv.startswith("-m venv --clear ") and pip == "-m pip install --quiet nnpdf==4.1.5 lhapdf-management==0.6"
    assert all(line.startswith("-c ") for line in asked)


@pytest.mark.parametrize(
    "name, only, message",
    [("peer", "dos", "got 'dos'"), ("stacking", "dis", "--only: this benchmark does not take it")],
)
def test_a_part_that_is_not_there_ends_with_code_2(name, only, message):
    command = [sys.executable, "-m", "benchmarks", "run", name, "--only", only]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr
