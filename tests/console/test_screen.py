"""Tables and bars on terminals of all widths."""

import re

import pytest

from tests.console.fakes import Gone, drawn, on_terminal
from tfperf.cli import main
from tfperf.report.compare import TIMES, Change, Comparison
from tfperf.report.study_progress import show_progress
from tfperf.study import compare

CHANGES = [
    Change("HERA_NC_318GEV_EAVG_CHARM-SIGMARED", 1.9, 1.8, -0.1, -0.311, -0.0522),
    Change("engine.steps_per_call", 12.3, 11.1, 0.9, 0.855, 0.951, TIMES, "ratio"),
]
WHOLE = (
    "HERA_NC_318GEV_EAVG_CHARM-SIGMARED",
    "-0.311",
    "-0.0522",
    "engine.steps_per_call",
    "0.855",
    "faster",
)


def compared(monkeypatch, columns, comparison):
    """The lines that `tfperf compare` draws."""
    terminal = on_terminal(monkeypatch, "stdout", columns)
    monkeypatch.setattr(compare, "compare_folders", lambda _: [comparison])
    with pytest.raises(SystemExit) as end:
        main(["compare", "runs/first", "runs/second"])
    assert end.value.code == 0
    return drawn(terminal)


@pytest.mark.parametrize("columns", [40, 60, 80, 200])
def test_no_number_or_name_of_a_comparison_is_split(monkeypatch, columns):
    lines = compared(monkeypatch, columns, Comparison("runs/first", "runs/second", CHANGES, ["a note"]))
    assert max(map(len, lines)) <= columns
    words = re.split(r"[\s,|]+", " ".join(lines))
    assert {*WHOLE, "runs/first", "note"} <= {*words}


@pytest.mark.parametrize("columns", [40, 200])
def test_names_in_a_table_command_no_terminal(monkeypatch, columns):
    changes = [Change("\x1b]0;name\x9c", 1.0, 2.0, 1.0, None, None)]
    lines = compared(monkeypatch, columns, Comparison("\u202efirst", "second", changes, ["note\x1b=1"]))
    text = "\n".join(lines)
    assert r"\x1b]0;name\x9c" in text and r"\u202efirst" in text and r"note\x1b=1" in text


@pytest.mark.parametrize("columns", [20, 40, 60, 80, 200])
def test_a_study_shows_count_bar_and_time_first(monkeypatch, columns):
    terminal = on_terminal(monkeypatch, "stderr", columns)
    with show_progress() as show:
        show(0, 12, "starting")
        show(3, 12, "title=\x1b[2Ja\nb, repeat 1: failed")
        show(3, 12, "trial 4 of 12, 14 min left, " + "engine.precision=float32 " * 9)
    lines = drawn(terminal)
    assert max(map(len, lines)) <= columns and r"title=\x1b[2Ja" in "".join(lines)
    if columns >= 40:
        assert any(re.match(r" *3/12 done, ━+.* 0:00:00 so far *$", line) for line in lines)
        assert any(line.startswith("trial 4 of 12, 14 min left,") for line in lines)


@pytest.mark.parametrize("stream", [None, Gone(), Gone(BrokenPipeError())])
@pytest.mark.parametrize("live", [True, False])
def test_progress_of_a_study_that_nobody_sees_is_no_error(monkeypatch, stream, live):
    monkeypatch.setattr("sys.stderr", stream)
    if stream is not None:
        monkeypatch.setattr(stream, "isatty", lambda: live)
    with show_progress() as show:
        show(0, 2, "begins")
        show(2, 2, "ends")


def test_a_piped_line_of_a_study_is_one_line(capsys):
    with show_progress() as show:
        show(1, 2, "title=a\nb\x1b[2J")
    assert capsys.readouterr().err == "[1/2] title=a\\nb\\x1b[2J\n"
