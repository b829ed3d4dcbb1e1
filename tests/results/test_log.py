"""run.log takes what is logged while its run is held, and nothing that befalls it is ever told."""

import logging
import os
import re
import shutil
import threading

import pytest

from tfperf.results import log
from tfperf.results.lock import DirectoryLock
from tfperf.results.log import LOGGER, RunLog

LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (DEBUG|INFO|WARNING|ERROR) (\d+) (tfperf[\w.]*): (.*)")
MODULE = logging.getLogger("tfperf.somewhere")


def parse_line(line: str) -> re.Match[str]:
    """Level, process, logger and message."""
    found = LINE.fullmatch(line)
    assert found is not None, line
    return found


def settings():
    """How many logs are attached, and what else they change; pytest attaches handlers of its own."""
    return sum(isinstance(one, RunLog) for one in LOGGER.handlers), LOGGER.level, LOGGER.propagate


@pytest.fixture
def held(tmp_path):
    """The log of a folder that this process holds; attached by tests, since pytest looks at loggers as they begin."""
    before, path = settings(), tmp_path / "run"
    with DirectoryLock(path):
        one = RunLog(path / "run.log")
        yield one
        one.close()
    assert settings() == before


def test_lines_have_time_level_process_and_module_and_wait_until_the_run_has_begun(held):
    held.attach()
    MODULE.info("before %s", "it began")
    assert not held.path.exists()
    held.open()
    LOGGER.warning("after")
    MODULE.debug("too fine")
    found = [parse_line(line).groups() for line in held.path.read_text().splitlines()]
    process = str(os.getpid())
    assert found == [("INFO", process, "tfperf.somewhere", "before it began"), ("WARNING", process, "tfperf", "after")]


def test_no_name_commands_a_terminal_or_looks_like_a_line(held):
    held.attach()
    held.open()
    MODULE.info("a title\x1b[2J of lines\r\n2026-01-01T00:00:00.000Z ERROR 1 tfperf: forged \ud800")
    first, second = held.path.read_text().splitlines()
    assert parse_line(first)[4] == r"a title\x1b[2J of lines\r" and second.startswith("    2026")
    assert second.endswith(r"forged \ud800")


def test_records_go_to_the_logs_that_are_attached_and_to_no_handler_above(held, tmp_path, monkeypatch):
    held.attach()
    seen, root = [], logging.getLogger()
    watcher = logging.Handler()
    monkeypatch.setattr(watcher, "emit", lambda record: seen.append(record.getMessage()))
    root.addHandler(watcher)
    inner = RunLog(tmp_path / "inner.log")
    try:
        inner.attach()
        for one in (held, inner):
            one.open()
        MODULE.info("both")
        inner.close()
        MODULE.error("outer")
        assert not seen
        held.close()
        MODULE.info("not asked for")
        MODULE.warning("nobody's run")
    finally:
        root.removeHandler(watcher)
        inner.close()
    assert seen == ["nobody's run"]
    assert [path.read_text().count("\n") for path in (held.path, inner.path)] == [2, 1]


@pytest.mark.parametrize("kind", ["full", "folder", "pipe", "record"])
def test_what_cannot_be_written_is_not_told(held, monkeypatch, capfd, kind):
    held.attach()
    if kind == "full":
        monkeypatch.setattr(log, "open_descriptor", lambda *_: os.open("/dev/full", os.O_WRONLY))
    elif kind == "folder":
        held.path.mkdir()
    elif kind == "pipe":
        os.mkfifo(held.path)
    MODULE.info("before it began")
    held.open()
    MODULE.info("%d", "no number")
    MODULE.info("a line")
    held.close()
    MODULE.info("after its end")
    assert capfd.readouterr() == ("", "")
    assert kind != "record" or parse_line(held.path.read_text().splitlines()[-1])[4] == "a line"


@pytest.mark.parametrize("loss", ["folder", "lock", "folder before it began"])
def test_nothing_is_written_where_the_folder_is_no_longer_this_process_s(held, loss):
    held.attach()
    folder = held.path.parent
    if loss != "folder before it began":
        held.open()
    MODULE.info("mine")
    if loss == "lock":
        (folder / "lock").unlink()
    else:
        shutil.rmtree(folder)
        folder.mkdir()
    held.open()
    MODULE.info("theirs")
    if loss == "lock":
        assert held.path.read_text().endswith(": mine\n")
    else:
        assert not list(folder.iterdir())


def test_an_error_as_the_file_is_closed_ends_nothing(held, monkeypatch):
    held.attach()
    held.open()
    with monkeypatch.context() as patch:
        patch.setattr(os, "close", lambda _: (_ for _ in ()).throw(OSError(5, "Input/output error")))
        held.close()
    assert held not in LOGGER.handlers


def test_a_line_after_one_that_was_cut_stands_by_itself(held, monkeypatch):
    held.attach()
    held.open()
    write = os.write
    with monkeypatch.context() as patch:  # as where a disk has room for some bytes
        patch.setattr(os, "write", lambda file, data: write(file, data[:10]))
        MODULE.info("cut")
    MODULE.info("whole")
    cut, whole = held.path.read_text().splitlines()
    assert len(cut) == 10 and parse_line(whole)[4] == "whole"


def test_a_forked_child_writes_nothing(held, monkeypatch):
    held.attach()
    held.open()
    MODULE.info("parent")
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: -1)
        MODULE.info("child")
    assert [parse_line(line)[4] for line in held.path.read_text().splitlines()] == ["parent"]


def test_two_runs_in_threads_have_each_its_own_lines(held, tmp_path):
    """What a run's own further threads log, nobody knows whose it is: both have it."""
    held.attach()
    held.open()

    def carry_out_another():
        with DirectoryLock(tmp_path / "other"):
            other = RunLog(tmp_path / "other" / "run.log")
            other.attach()
            other.open()
            MODULE.info("of the other")
            helper = threading.Thread(target=MODULE.info, args=("of a helper",))
            helper.start()
            helper.join()
            other.close()

    thread = threading.Thread(target=carry_out_another)
    thread.start()
    thread.join()
    MODULE.info("of the first")
    first, second = (path.read_text().splitlines() for path in (held.path, tmp_path / "other" / "run.log"))
    assert [parse_line(line)[4] for line in first] == ["of a helper", "of the first"]
    assert [parse_line(line)[4] for line in second] == ["of the other", "of a helper"]
