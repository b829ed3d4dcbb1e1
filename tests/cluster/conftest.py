"""Queues whose programs are scripts."""

import sys
from pathlib import Path

import pytest

NAMES = ("sbatch", "scancel", "qsub", "qdel", "condor_submit", "condor_rm")


@pytest.fixture
def jobs(tmp_path, monkeypatch):
    """The folder in which submitted jobs leave a copy; their programs are on PATH."""
    programs, folder = tmp_path / "bin", tmp_path / "jobs"
    programs.mkdir()
    folder.mkdir()
    code = (Path(__file__).parent / "stand_in.py").read_text()
    for name in NAMES:
        (programs / name).write_text(f"#!{sys.executable} -S\n{code}")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    monkeypatch.setenv("QUEUE_JOBS", str(folder))
    return folder
