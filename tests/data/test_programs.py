"""Compiled programs on disk: what is read back is what was written, whatever happens to the folder."""

import os
import resource
import shutil
import signal
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from tfperf.data import programs as module
from tfperf.data.cache import ABANDONED_SECONDS, VARIABLE
from tfperf.data.programs import ProgramFolder

PROGRAM = bytes(range(256)) * 10
FIRST, SECOND, THIRD = "cache__1__2__CPU.pb", "cache__3__4__CPU.pb", "cache__5__6__CPU.pb"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


def find(version, *settings):
    folder = ProgramFolder.find(version, *settings)
    assert folder is not None
    return folder


@pytest.fixture
def folder(cache):
    return find("2.0", "a machine")


def file_of(folder, name):
    return folder.path / f"{name}{module.SUFFIX}"


def names(folder):
    return {path.name for path in folder.path.iterdir()}


def used(folder, name, seconds):
    """Have it been used so long ago."""
    then = file_of(folder, name).stat().st_mtime - seconds
    os.utime(file_of(folder, name), (then, then))


def test_programs_come_back_from_folders_of_this_user_alone(folder, cache):
    folder.write(FIRST, PROGRAM)
    folder.write(SECOND, b"")
    assert folder.read() == {FIRST: PROGRAM, SECOND: b""}
    assert {path.stat().st_mode & 0o777 for path in (cache, cache / "programs", folder.path)} == {0o700}


def test_each_place_has_a_folder_that_names_the_version(cache):
    places = [("2.0",), ("2.1",), ("2.0", 1), ("2.0", 2), ("2.0", "1"), ("2.0", ("avx",)), ("2.0", ("avx", "avx2"))]
    folders = [find(*place) for place in places]
    assert len({one.path for one in folders}) == len(places)
    assert all(f"tensorflow-{version}-" in one.path.name for one, (version, *_) in zip(folders, places, strict=True))
    folders[0].write(FIRST, PROGRAM)
    assert [len(one.read()) for one in folders] == [1, *[0] * 6]


@pytest.mark.parametrize("damage", [
    lambda _: b"", lambda _: PROGRAM, lambda b: b[:20], lambda b: b[:-1], lambda b: b + b"\0",
    lambda b: os.urandom(len(b)),
    *[lambda b, at=at: b[:at] + bytes([b[at] ^ 1]) + b[at + 1 :] for at in (0, 64, 66, 90, 1000, -1)],
])  # fmt: skip
def test_damaged_program_is_removed(folder, damage):
    folder.write(FIRST, PROGRAM)
    folder.write(SECOND, PROGRAM)
    whole = file_of(folder, FIRST).read_bytes()
    file_of(folder, FIRST).write_bytes(damage(whole))
    assert folder.read() == {SECOND: PROGRAM} and names(folder) == {file_of(folder, SECOND).name}


def test_program_under_another_name_is_removed(folder):
    folder.write(FIRST, PROGRAM)
    file_of(folder, FIRST).rename(file_of(folder, SECOND))
    assert folder.read() == {} and names(folder) == set()


@pytest.mark.parametrize("name", ["", "..pb", "a/b.pb", "../a.pb", "a.txt", "a b.pb", f"{'a' * 300}.pb", "a\n.pb"])
def test_program_of_a_strange_name_is_not_kept(folder, name):
    folder.write(name, PROGRAM)
    assert not list(folder.path.rglob("*"))


def test_program_that_others_may_write_to_is_removed(folder):
    before = os.umask(0)
    try:
        folder.write(FIRST, PROGRAM)
        folder.write(SECOND, PROGRAM)
    finally:
        os.umask(before)
    file_of(folder, SECOND).chmod(0o620)
    assert folder.read() == {FIRST: PROGRAM} and names(folder) == {file_of(folder, FIRST).name}


def test_what_is_no_file_of_this_user_is_not_read(folder, tmp_path, monkeypatch):
    for name in (FIRST, SECOND, THIRD):
        folder.write(name, PROGRAM)
    file_of(folder, FIRST).rename(tmp_path / "kept")
    file_of(folder, FIRST).symlink_to(tmp_path / "kept")
    file_of(folder, SECOND).unlink()
    file_of(folder, SECOND).mkdir()
    os.mkfifo(file_of(folder, "cache__7.pb"))
    assert folder.read() == {THIRD: PROGRAM}
    assert names(folder) == {file_of(folder, SECOND).name, file_of(folder, THIRD).name}
    assert (tmp_path / "kept").exists()
    monkeypatch.setattr(module, "_is_private", lambda _: True)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert folder.read() == {}


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777])
@pytest.mark.parametrize("which", ["path", "parent"])
def test_folder_that_others_may_write_to_is_left_alone(folder, mode, which):
    folder.write(FIRST, PROGRAM)
    one = folder.path if which == "path" else folder.path.parent
    one.chmod(mode)
    assert folder.read() == {}
    folder.write(SECOND, PROGRAM)
    folder.shrink()
    assert names(folder) == {file_of(folder, FIRST).name}
    one.chmod(0o755)
    assert folder.read() == {FIRST: PROGRAM}


@pytest.mark.parametrize("which", ["path", "parent"])
def test_link_in_place_of_the_folder_is_left_alone(folder, tmp_path, which):
    folder.write(FIRST, PROGRAM)
    one = folder.path if which == "path" else folder.path.parent
    one.rename(tmp_path / "elsewhere")
    one.symlink_to(tmp_path / "elsewhere")
    folder.write(SECOND, PROGRAM)
    assert folder.read() == {} and names(folder) == {file_of(folder, FIRST).name}


def test_folder_of_another_user_is_left_alone(folder, monkeypatch):
    folder.write(FIRST, PROGRAM)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    folder.write(SECOND, PROGRAM)
    assert folder.read() == {} and names(folder) == {file_of(folder, FIRST).name}


def test_where_there_is_no_home_nothing_is_kept(monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv(VARIABLE)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert ProgramFolder.find("2.0") is None


@pytest.mark.parametrize("where", ["file", "file/below", "/proc/nowhere", "x" * 300])
def test_cache_that_cannot_be_is_no_error(tmp_path, monkeypatch, where):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(module, "find_cache_folder", lambda: tmp_path / where)
    folder = find("2.0")
    folder.write(FIRST, PROGRAM)
    folder.note_use([FIRST])
    folder.shrink()
    assert folder.read() == {}


def test_folder_that_is_removed_meanwhile_is_made_again(folder, cache):
    folder.write(FIRST, PROGRAM)
    shutil.rmtree(cache)
    folder.note_use([FIRST])
    folder.shrink()
    assert folder.read() == {}
    folder.write(FIRST, PROGRAM)
    assert folder.read() == {FIRST: PROGRAM}


@contextmanager
def limited_files(size):
    """write() fails within a file of that size, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


def test_full_disk_leaves_what_was_there(folder):
    folder.write(FIRST, PROGRAM)
    with limited_files(1000):
        folder.write(FIRST, PROGRAM[::-1])
        folder.write(SECOND, PROGRAM)
    assert folder.read() == {FIRST: PROGRAM} and len(names(folder)) == 1


def test_disk_that_would_be_full_is_not_written_to(folder, monkeypatch):
    folder.write(FIRST, PROGRAM)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**9, 10**9, 2 * len(PROGRAM) - 1))
    folder.write(SECOND, PROGRAM)
    assert list(folder.read()) == [FIRST]


def test_folder_that_may_only_be_read_is_read(folder, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError("read-only")

    folder.write(FIRST, PROGRAM)
    folder.write(SECOND, PROGRAM)
    file_of(folder, SECOND).write_bytes(b"damaged")
    for name in ("write_bytes", "unlink", "mkdir", "rmdir"):
        monkeypatch.setattr(Path, name, refuse)
    for name in ("utime", "replace"):
        monkeypatch.setattr(os, name, refuse)
    folder.write(THIRD, PROGRAM)
    folder.note_use([FIRST])
    folder.shrink()
    assert folder.read() == {FIRST: PROGRAM}


def test_what_was_not_used_for_longest_goes_first(folder, monkeypatch):
    for seconds, name in enumerate((FIRST, SECOND, THIRD)):
        folder.write(name, PROGRAM)
        used(folder, name, 100 - seconds)
    size = file_of(folder, FIRST).stat().st_size
    folder.note_use([FIRST])
    monkeypatch.setattr(module, "LIMIT_BYTES", 2 * size)
    assert list(folder.read()) == [FIRST, THIRD]
    monkeypatch.setattr(module, "LIMIT_BYTES", size)
    assert list(folder.read()) == [FIRST] and len(names(folder)) == 1


def test_folders_of_other_places_count_too_and_go_when_they_are_empty(folder, monkeypatch):
    others = [find(version) for version in ("1.0", "1.1")]
    for seconds, (one, name) in enumerate([(others[0], FIRST), (others[1], SECOND), (folder, THIRD), (folder, FIRST)]):
        one.write(name, PROGRAM)
        used(one, name, 100 - seconds)
    size = file_of(folder, THIRD).stat().st_size
    monkeypatch.setattr(module, "TOTAL_BYTES", 3 * size)
    folder.shrink()
    assert not others[0].path.exists() and list(others[1].read()) == [SECOND] and len(folder.read()) == 2
    monkeypatch.setattr(module, "TOTAL_BYTES", 0)
    folder.shrink()
    assert not others[1].path.exists() and folder.read() == {}


def test_program_that_is_too_large_is_neither_kept_nor_read(folder, monkeypatch):
    folder.write(FIRST, PROGRAM)
    monkeypatch.setattr(module, "PROGRAM_BYTES", len(PROGRAM) - 1)
    monkeypatch.setattr(module, "HEADER_BYTES", 10)
    folder.write(SECOND, PROGRAM)
    assert names(folder) == {file_of(folder, FIRST).name}
    assert folder.read() == {} and names(folder) == set()


def test_what_a_killed_process_left_goes_after_a_while(folder):
    folder.write(FIRST, PROGRAM)
    for name, age in (("new", 10), ("old", 2 * ABANDONED_SECONDS)):
        path = folder.path / f".{name}.tmp"
        path.write_bytes(PROGRAM)
        os.utime(path, (path.stat().st_mtime - age,) * 2)
    assert folder.read() == {FIRST: PROGRAM}
    assert names(folder) == {file_of(folder, FIRST).name, ".new.tmp"}


def test_writers_and_readers_at_once_see_whole_programs(folder):
    texts = [bytes([i]) * 200_000 for i in range(4)]
    seen = []

    def write(text):
        for _ in range(20):
            folder.write(FIRST, text)
            folder.shrink()

    def read():
        for _ in range(40):
            seen.extend(folder.read().values())

    threads = [threading.Thread(target=write, args=[text]) for text in texts] + [threading.Thread(target=read)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(seen) <= set(texts) and folder.read()[FIRST] in texts
