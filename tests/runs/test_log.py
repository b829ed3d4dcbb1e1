"""run.log of fits: what every command on a run did, and how it ended."""

import logging
import os
import re
import shutil
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from tests.results.test_log import parse_line, settings
from tests.runs.test_resume import copy_inputs, interrupted
from tfperf.cli import main
from tfperf.errors import RunDirectoryError, StorageError
from tfperf.results import log
from tfperf.runs.fit import fit
from tfperf.runs.fit_log import log_fit
from tfperf.workloads.options import Options


def read_messages(run):
    """Level, module and message of each line."""
    lines = (run / "run.log").read_text().splitlines()
    found = [parse_line(line) for line in lines if not line.startswith("    ")]
    return [(one[1], one[3], one[4]) for one in found]


def find(messages, *patterns):
    """Assert that messages match the patterns, one after the other."""
    rest = iter(messages)
    for pattern in patterns:
        assert any(re.search(pattern, message) for _, _, message in rest), pattern


@pytest.fixture
def copied(finished, tmp_path):
    """A card, and a finished run of it."""
    shutil.copytree(finished / "run", tmp_path / "run")
    return copy_inputs(finished, tmp_path), tmp_path / "run"


def test_a_fit_tells_what_it_did(finished):
    messages = read_messages(finished / "run")
    size = max((finished / "run" / "checkpoints").iterdir()).stat().st_size
    find(
        messages, "^begin: tfperf .*, Python .*: fit of workload pdf in .*/run$", "^stage: reading data$",
        "^run [0-9a-f]{32} is begun; digest of card and files: [0-9a-f]{64}$", "^1 of 1 parts are left$",
        r"^TensorFlow [\d.]+ is started with \d+ threads for \d+ stacks$", "^choices .*: form .*, steps by .* a call",
        "^stage: training$", rf"^checkpoint of step 120: {size - 65} bytes in \d", "^stage: writing results",
        r"^seconds: .*data \d.*, train \d.*, total \d", "^end: exit code 0$",
    )  # fmt: skip
    assert {level for level, _, _ in messages} == {"INFO"} and messages[-1][2] == "end: exit code 0"


def damage(path):
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def test_a_resumed_run_has_the_lines_of_both_commands(finished, tmp_path, monkeypatch):
    card, run = copy_inputs(finished, tmp_path), tmp_path / "run"
    interrupted(card, run, monkeypatch, 70)
    first = (run / "run.log").read_text()
    damage(run / "checkpoints" / "step-000000000070.ckpt")
    fit(card, run, options=Options(resume=True))
    assert (run / "run.log").read_text().startswith(first)
    messages = read_messages(run)
    find(
        messages, "^begin: ", "is begun", "^checkpoint of step 40: ", "^signal 15 came$", "^checkpoint of step 70: ",
        "^stopped by signal 15 at step 70; go on with --resume$", "^end: exit code 143$", "^begin: .*/run --resume$",
        "^run .* goes on; ", "^choices of run.json: ", "^warning: .*damaged", "^going on from step 60$",
        "^checkpoint of step 120: ", "^end: exit code 0$",
    )  # fmt: skip
    assert [message.split()[0] for level, _, message in messages if level == "WARNING"] == ["stopped", "warning:"]


@pytest.mark.parametrize("error", [StorageError("disk: full"), ZeroDivisionError("nobody expects it")])
def test_an_error_leaves_its_traceback_in_the_log_alone(finished, tmp_path, monkeypatch, capfd, error):
    card, run = copy_inputs(finished, tmp_path), tmp_path / "run"

    def fail(*_):
        raise error

    monkeypatch.setattr("tfperf.workloads.pdf.report.html.render_html", fail)
    if isinstance(error, StorageError):
        done = CliRunner().invoke(main, ["fit", str(card), "-o", str(run), "--set", "train.steps=20"])
        assert done.exit_code == 2 and "error: disk: full" in done.output and "Traceback" not in done.output
    else:
        with pytest.raises(ZeroDivisionError):
            fit(card, run, overrides=["train.steps=20"])
    assert "Traceback" not in "".join(capfd.readouterr())
    text = (run / "run.log").read_text()
    assert "\n    Traceback (most recent call last):\n" in text and f"{type(error).__name__}: {error}\n" in text
    kind, code = ("that the user can mend", 2) if isinstance(error, StorageError) else ("", 1)
    find(read_messages(run), f"^ended by an .*error.*{kind}$", "^seconds: ", f"^end: exit code {code}$")
    assert settings()[0] == 0


def test_many_fits_in_a_process_leave_nothing_behind(copied, capfd, monkeypatch):
    card, run = copied
    monkeypatch.setattr("tfperf.runs.fit.release_memory", lambda: None)  # takes most of such a fit's time
    before, lines = (*settings(), len(os.listdir("/proc/self/fd"))), len(read_messages(run))
    for _ in range(5):
        fit(card, run, options=Options(resume=True))
    assert before == (0, logging.NOTSET, True, len(os.listdir("/proc/self/fd"))) and settings() == before[:3]
    ends = [message for _, _, message in read_messages(run)[lines:] if message.startswith("end: ")]
    assert ends == ["end: exit code 0"] * 5 and capfd.readouterr() == ("", "")


def test_a_full_disk_ends_no_run(copied, monkeypatch, capfd):
    card, run = copied
    monkeypatch.setattr(log, "open_descriptor", lambda *_: os.open("/dev/full", os.O_WRONLY))
    before = (run / "run.log").read_bytes()
    assert len(fit(card, run, options=Options(resume=True)).replicas.id) > 0
    assert (run / "run.log").read_bytes() == before and capfd.readouterr() == ("", "")


def test_a_forced_run_begins_its_log_anew_and_a_refused_command_leaves_it(copied):
    card, run = copied
    before = (run / "run.log").read_text()
    with pytest.raises(RunDirectoryError, match="holds a run"):
        fit(card, run)
    assert (run / "run.log").read_text() == before
    fit(card, run, options=Options(force=True), overrides=["train.steps=20"])
    text = (run / "run.log").read_text()
    assert text.count("begin: ") == 1 and "--force" in text and before.splitlines()[0] not in text


@pytest.mark.parametrize(
    ("error", "code"),
    [(SystemExit(3), 3), (SystemExit(), 0), (SystemExit("why"), 1), (KeyboardInterrupt(), 130), (StorageError("x"), 2)],
)
def test_the_code_in_the_log_is_the_one_that_the_program_ends_with(caplog, error, code):
    session = SimpleNamespace(
        options=Options(), run=SimpleNamespace(path="run"), watch=SimpleNamespace(sum_seconds=dict)
    )

    def fail():
        raise error

    with caplog.at_level(logging.INFO, "tfperf"), pytest.raises(type(error)):
        log_fit(session, "made-up", fail)  # type: ignore[arg-type]
    assert caplog.messages[-1] == f"end: exit code {code}"
