"""The stages of a command on a terminal, in a pipe, and for who wants quiet."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.console.fakes import drawn, on_terminal
from tfperf.console import stages as module
from tfperf.console.stages import open_stages
from tfperf.console.words import say

ROOT = Path(__file__).parents[2]
# native code's words are held back inside; Python's are not
HELD = """
import os, sys
from tfperf.console.stages import open_stages
from tfperf.measure.quiet import drop_native_logs
with open_stages() as progress:
    with drop_native_logs():
        os.write(2, b"I0000 00:00:17.1 chatter\\nnative words\\n")
        progress.show_stage("importing")
        progress.say("a warning")
        sys.stdout.write(sys.stdin.readline())
print(os.readlink(f"/proc/self/fd/2") == os.readlink(f"/proc/self/fd/{sys.stderr.fileno()}"))
"""


def show_some(progress):
    progress.show_stage("reading data")
    progress.show_stage("compiling", 1, 3)
    progress.show_stage("compiling", 2, 3)
    progress.say("warning: something")
    progress.show_stage("writing\nresults\x1b[2J")


def test_a_pipe_gets_a_line_for_each_stage_with_the_time(capsys):
    with open_stages() as progress:
        show_some(progress)
    clock = r"0:00:0\d "
    assert [re.sub(f"^{clock}", "", line) for line in capsys.readouterr().err.splitlines()] == [
        "reading data", "compiling 1 of 3", "warning: something", r"writing\nresults\x1b[2J"
    ]  # fmt: skip


def test_a_pipe_hears_of_a_stage_again_after_a_while(monkeypatch, capsys):
    monkeypatch.setattr(module, "COUNT_SECONDS", 0)
    with open_stages() as progress:
        show_some(progress)
    assert "compiling 2 of 3" in capsys.readouterr().err


def test_the_clock_counts_hours():
    progress = module.Stages()
    progress._start -= 3605
    assert progress.format_elapsed() == "1:00:05"


def test_quiet_is_silent(capfd):
    with open_stages(quiet=True) as progress:
        show_some(progress)
        progress.show_steps(1, 1, lambda: pytest.fail("asked for words"), None)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("columns", [20, 40, 200])
def test_a_terminal_shows_the_stage_after_the_clock(monkeypatch, columns):
    terminal = on_terminal(monkeypatch, "stderr", columns)
    with open_stages() as progress:
        show_some(progress)
        progress.show_steps(5, 10, lambda: "fast", 3.0)
        say("said beside it")
        progress.show_steps(10, 10, lambda: "slow", None)
        progress.show_stage("writing " + "results " * 30)
    lines = drawn(terminal)
    assert max(map(len, lines)) <= columns and "said beside it" in lines
    if columns >= 40:
        assert r"0:00:00 writing\nresults\x1b[2J" in lines and "0:00:00 compiling 2 of 3" in lines
        assert "0:00:00 step 10/10, slow" in lines, "what a training came to stays"
        assert not any("fast" in line and "step" in line for line in lines)


def test_the_line_of_a_terminal_ticks_by_itself(monkeypatch):
    terminal = on_terminal(monkeypatch, "stderr", 80)
    with open_stages() as progress:
        progress.show_stage("importing")
        progress._start -= 100
        while "0:01:4" not in terminal.getvalue():
            pass


def test_words_arrive_while_those_of_native_code_are_held_back():
    settings = os.environ | {"PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-c", HELD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env=settings,
    )  # fmt: skip
    assert process.stderr is not None
    assert process.stderr.readline().endswith(" importing\n") and process.stderr.readline() == "a warning\n"
    out, err = process.communicate("go on\n", timeout=60)
    assert (process.returncode, out, err) == (0, "go on\nTrue\n", "native words\n")


def test_words_of_native_code_do_not_tear_the_line_of_a_terminal():
    ours, its = pty.openpty()
    settings = os.environ | {"PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "80"}
    done = subprocess.run(
        [sys.executable, "-c", HELD], input="", stdout=subprocess.PIPE, stderr=its, text=True, env=settings, timeout=60,
        check=False,
    )  # fmt: skip
    os.close(its)
    seen = b""
    try:
        while part := os.read(ours, 65536):
            seen += part
    except OSError:
        pass  # its end
    os.close(ours)
    lines = re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", seen).replace(b"\r", b"\n").split(b"\n")
    assert done.returncode == 0 and b"native words" in lines and b"a warning" in lines and b"0:00:00 importing" in lines
    assert b"chatter" not in seen
