import errno
import os
import resource
import subprocess
import sys

import h5py
import numpy as np
import pytest

from tfperf.errors import StorageError
from tfperf.results import files


def test_the_new_file_appears_only_when_the_block_has_ended(tmp_path):
    path = tmp_path / "report.json"
    path.write_text("old")
    with files.write_atomically(path) as temporary:
        assert temporary.parent == tmp_path
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["report.json"]


def test_bytes_are_on_disk_before_the_rename_and_the_rename_before_the_return(tmp_path, monkeypatch):
    calls = []
    sync, replace = files.sync, os.replace
    monkeypatch.setattr(files, "sync", lambda p: (calls.append(("sync", p)), sync(p)))  # type: ignore[func-returns-value]
    monkeypatch.setattr(os, "replace", lambda a, b: (calls.append(("rename", b)), replace(a, b)))  # type: ignore[func-returns-value]
    path = tmp_path / "a"
    with files.write_atomically(path) as temporary:
        temporary.write_text("x")
    assert calls == [("sync", temporary), ("rename", path), ("sync", tmp_path)]


@pytest.mark.parametrize("error", [ValueError("bad"), KeyboardInterrupt()])
def test_a_failed_block_leaves_the_old_file_and_no_litter(tmp_path, error):
    path = tmp_path / "a"
    path.write_text("old")
    with pytest.raises(type(error)), files.write_atomically(path) as temporary:
        temporary.write_text("half")
        raise error
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES])
@pytest.mark.parametrize("there", [True, False])
def test_storage_errors_say_what_where_and_what_is_intact(tmp_path, monkeypatch, number, there):
    path = tmp_path / "a"
    if there:
        path.write_text("old")

    def fail(_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StorageError) as caught, files.write_atomically(path) as temporary:
        temporary.write_bytes(b"x" * 300_000)
    text = str(caught.value)
    assert text.startswith(f"{path}: could not be written: {files.REASONS[number]}")
    assert text.endswith("the a of before is intact" if there else "no part of it was left behind")
    assert ("needs at least 0.3 MB" in text and "MB are free" in text) == (number in files.FULL)
    assert os.listdir(tmp_path) == ["a"] * there


def test_a_missing_folder_is_a_storage_error(tmp_path):
    missing = pytest.raises(StorageError, match="the folder does not exist")
    with missing, files.write_atomically(tmp_path / "no" / "a") as temporary:
        temporary.write_text("x")


def test_an_error_about_another_file_is_not_blamed_on_the_disk(tmp_path):
    with pytest.raises(FileNotFoundError), files.write_atomically(tmp_path / "a"):
        (tmp_path / "input").read_text()


def test_what_a_killed_writer_left_is_overwritten(tmp_path):
    path = tmp_path / "a"
    code = (
        "import os, sys, pathlib\nfrom tfperf.results.files import write_atomically\npath = pathlib.Path(sys.argv[1])\n"
        "with write_atomically(path) as temporary:\n    temporary.write_text('half')\n    os.kill(os.getpid(), 9)\n"
    )
    for _ in range(2):
        assert subprocess.run([sys.executable, "-c", code, path]).returncode == -9
    assert not path.exists()
    with files.write_atomically(path) as temporary:
        temporary.write_text("whole")
    assert path.read_text() == "whole"
    assert os.listdir(tmp_path) == ["a"]


def test_hdf5_survives_a_file_system_that_takes_no_more(tmp_path):
    # the limit on file sizes stands in for a full disk: both make write() fail in the middle
    path = tmp_path / "results.h5"
    path.write_text("old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        full = pytest.raises(StorageError, match=r"limit on file sizes; needs at least 0\.2 MB")
        with full, files.write_hdf5(path) as file:
            file["a"] = np.zeros(25_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["results.h5"]


def test_hdf5_comes_back(tmp_path):
    path = tmp_path / "results.h5"
    with files.write_hdf5(path) as file:
        file.create_dataset("a", data=np.arange(5.0), fletcher32=True)
    with h5py.File(path) as file:
        assert file["a"][:].tolist() == [0, 1, 2, 3, 4]
