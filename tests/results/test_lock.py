"""A folder is one process's alone, and it notices when it is so no more."""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tfperf.errors import LostError, RunDirectoryError
from tfperf.results.files import append, make_folder, write_atomically
from tfperf.results.lock import LOCK, DirectoryLock


@pytest.fixture
def held(tmp_path):
    with DirectoryLock(tmp_path / "run") as lock:
        yield lock


def test_a_second_one_is_refused_until_the_first_lets_go(held):
    with pytest.raises(RunDirectoryError, match="another process is running here"):
        DirectoryLock(held.path).acquire()
    held.release()
    with DirectoryLock(held.path) as other:
        assert other.held and not held.held


@pytest.mark.parametrize("loss", ["folder", "lock", "both replaced", "moved"])
def test_nothing_is_written_to_a_folder_that_is_no_more_ones_own(held, loss):
    path = held.path
    if loss == "lock":
        (path / LOCK).unlink()
    elif loss == "moved":
        path.rename(path.with_name("elsewhere"))
    else:
        shutil.rmtree(path)
    if loss == "both replaced":
        path.mkdir()
        (path / LOCK).touch()
    writes = (
        lambda: write_atomically(path / "results.h5").__enter__(), lambda: append(path / "lines", "one\n"),
        lambda: make_folder(path / "events"),
    )  # fmt: skip
    for write in writes:
        with pytest.raises(LostError, match="removed or replaced while it was in use"):
            write()
    assert not path.exists() or {p.name for p in path.iterdir()} <= {LOCK}


def test_a_folder_lost_in_the_middle_of_a_write_keeps_what_its_new_owner_has(held):
    target = held.path / "checkpoints" / "file"
    target.parent.mkdir()
    with pytest.raises(LostError), write_atomically(target) as temporary:
        temporary.write_text("the first one's")
        shutil.rmtree(held.path)
        target.parent.mkdir(parents=True)
        for name in (LOCK, "checkpoints/file", "checkpoints/.file.tmp"):
            (held.path / name).write_text("the second one's")
    assert {p.read_text() for p in held.path.rglob("*") if p.is_file()} == {"the second one's"}
    assert temporary.exists(), "what is there now is not the first one's to remove"


def test_after_the_end_writes_are_free_again(held):
    held.release()
    shutil.rmtree(held.path)
    held.path.mkdir()
    with write_atomically(held.path / "report.html") as temporary:
        temporary.write_text("made by somebody else")


@pytest.mark.parametrize("kind", ["link", "dangling", "pipe", "folder"])
def test_a_lock_that_is_no_regular_file_is_refused_and_left_alone(tmp_path, kind):
    run, precious = tmp_path / "run", tmp_path / "thesis.tex"
    run.mkdir()
    precious.write_text("years of work")
    lock = run / LOCK
    {
        "link": lambda: lock.symlink_to(precious), "dangling": lambda: lock.symlink_to(tmp_path / "nowhere"),
        "pipe": lambda: os.mkfifo(lock), "folder": lock.mkdir,
    }[kind]()  # fmt: skip
    with pytest.raises(RunDirectoryError, match=r"its file `lock`: it is a .*; must be a regular file"):
        DirectoryLock(run).acquire()
    assert precious.read_text() == "years of work" and not (tmp_path / "nowhere").exists() and os.path.lexists(lock)


def test_a_file_of_that_name_keeps_its_content(tmp_path):
    (tmp_path / LOCK).write_text("somebody's")
    with DirectoryLock(tmp_path):
        assert (tmp_path / LOCK).read_text() == "somebody's"


def test_a_file_system_without_locks_is_named_as_the_reason(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(RunDirectoryError, match="file system has no locks"):
        DirectoryLock(tmp_path / "run").acquire()


@pytest.mark.parametrize("path", ["loop/run", "loop", "file", "file/run", "x" * 300, "nul\0"])
def test_a_path_that_cannot_be_a_folder_is_told_in_words(tmp_path, path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "file").touch()
    with pytest.raises(RunDirectoryError, match="cannot be used as a run directory"):
        DirectoryLock(tmp_path / path).acquire()


def test_a_folder_made_in_vain_is_removed_with_its_lock_and_no_other(tmp_path):
    for name in ("new", "mine", "used"):
        lock = DirectoryLock(tmp_path / name)
        if name == "mine":
            (tmp_path / name).mkdir()
        lock.acquire()
        if name == "used":
            (tmp_path / name / "run.json").touch()
        lock.discard()
    assert {p.name: {q.name for q in p.iterdir()} for p in tmp_path.iterdir()} == {
        "mine": set(), "used": {"run.json"},
    }  # fmt: skip


def test_the_lock_ends_with_its_process(tmp_path):
    code = "import sys,os;from pathlib import Path;from tfperf.results.lock import DirectoryLock as L;" \
           "L(Path(sys.argv[1])).acquire();os.kill(os.getpid(),9)"  # fmt: skip
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)]).returncode == -9
    DirectoryLock(tmp_path).acquire()


def test_a_lock_that_is_removed_while_it_is_taken_is_not_taken_for_held(tmp_path, monkeypatch):
    real, count = fcntl.flock, 0

    def remove_first(*arguments):
        nonlocal count
        count += 1
        if count == 1:
            (tmp_path / LOCK).unlink()
        real(*arguments)

    monkeypatch.setattr(fcntl, "flock", remove_first)
    with DirectoryLock(tmp_path) as lock:
        assert count == 2
        lock.verify()


def test_who_changes_the_working_directory_keeps_the_folder(tmp_path, monkeypatch):
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    with DirectoryLock(Path("run")) as lock:
        monkeypatch.chdir(tmp_path)
        with write_atomically(lock.path / "file") as temporary:
            temporary.write_text("written")
        assert (project / "run" / "file").exists()
        shutil.rmtree(project)
        with pytest.raises(LostError):
            make_folder(lock.path)


def test_a_working_directory_that_is_gone_is_told_in_words(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(RunDirectoryError, match="working directory is gone"):
        DirectoryLock(Path("run"))
