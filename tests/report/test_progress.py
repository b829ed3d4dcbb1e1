"""Progress of a training on terminals of all widths, and on none."""

import re
from dataclasses import replace

import numpy as np
import pytest

from tests.console.fakes import Gone, drawn, on_terminal
from tfperf.console.stages import open_stages
from tfperf.report.progress import make_status_display
from tfperf.train.trainer import EnsembleProgress
from tfperf.workloads.pdf.progress import describe_chunk, describe_replicas
from tfperf.workloads.translate.progress import describe_progress
from tfperf.workloads.translate.trainer import TranslationProgress

REPLICAS = EnsembleProgress(15000, 17000, 100, 123.4, np.full(100, 1.234))
TRANSLATION = TranslationProgress(15000, 17000, 12.3, 4567.0, 2.345, None)
LEFT = {describe_replicas: "16 s", describe_progress: "3 min"}
CASES = pytest.mark.parametrize(
    ("words", "status"), [*zip(LEFT, (REPLICAS, TRANSLATION), strict=True)], ids=["replicas", "translation"]
)


@CASES
@pytest.mark.parametrize("columns", [20, 40, 60, 80, 200])
def test_steps_bar_and_time_left_are_whole_and_first(monkeypatch, columns, words, status):
    terminal = on_terminal(monkeypatch, "stderr", columns)
    with open_stages() as progress:
        show = make_status_display(progress, words, describe_chunk(12, 34))
        show(replace(status, step=0))
        show(status)
    lines = drawn(terminal)
    assert max(map(len, lines)) <= columns
    if columns >= 40:
        assert any(re.match(rf"15000/17000 steps ━+[╸╺]?━* {LEFT[words]} left *$", line) for line in lines)
    if columns == 200:
        assert f"chunk 12 of 34, {words(status)}" in lines


@CASES
def test_a_piped_line_has_steps_and_time_left_before_the_words(monkeypatch, capsys, words, status):
    monkeypatch.setattr("tfperf.console.stages.PLAIN_SECONDS", 0)
    with open_stages() as progress:
        show = make_status_display(progress, words)
        show(status)
        show(replace(status, step=17000))
    first, last = capsys.readouterr().err.splitlines()
    assert first == f"0:00:00 step 15000/17000, at most {LEFT[words]} left, {words(status)}"
    assert last == f"0:00:00 step 17000/17000, {words(status)}", "nothing is left when it is over"


@CASES
def test_a_piped_training_says_little(capsys, words, status):
    with open_stages() as progress:
        show = make_status_display(progress, words)
        for step in range(0, 17001, 1000):
            show(replace(status, step=step))
    assert len(capsys.readouterr().err.splitlines()) == 1, "the last alone: it took no ten seconds"


@CASES
@pytest.mark.parametrize("stream", [None, Gone(), Gone(BrokenPipeError()), Gone(ValueError("closed"))])
@pytest.mark.parametrize("live", [True, False])
def test_progress_that_nobody_sees_ends_nothing(monkeypatch, stream, live, words, status):
    monkeypatch.setattr("sys.stderr", stream)
    if stream is not None:
        monkeypatch.setattr(stream, "isatty", lambda: live)
    with open_stages() as progress:
        progress.show_stage("compiling", 1, 3)
        show = make_status_display(progress, words)
        show(status)
        show(replace(status, step=17000))
        progress.show_stage("writing")
