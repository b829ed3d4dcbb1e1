"""Child processes of the comparison, and the environment that the peer runs in."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.peer.cache import make_cache_folder
from tfperf.errors import UserError

Record = dict[str, Any]
ROOT = Path(__file__).parents[2]
REQUIREMENTS = ("nnpdf==4.1.5", "lhapdf-management==0.6")
PEER_PYTHON = "TFPERF_PEER_PYTHON"  # names an interpreter that has the peer already
TAIL = 12  # lines of a failed child's messages to show
VARIABLES = {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "2"}


class SubprocessError(UserError):
    """A child process that failed, or printed no record; the end of what it said."""

    def __init__(self, command: Sequence[object], what: str, output: str) -> None:
        tail = [f"  {line}" for line in output.splitlines()[-TAIL:]]
        super().__init__(f"{' '.join(map(str, command))}: {what}", *tail)


def run_module(python: Path, module: str, *arguments: str) -> Record:
    """Run `python -m module` from the repository's root; returns the JSON object that is the last line it prints.

    Raises: SubprocessError when it exits with a code other than 0 or prints no such line.
    """
    command = [str(python), "-m", module, *arguments]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | VARIABLES, capture_output=True, text=True)
    if done.returncode != 0:
        raise SubprocessError(command, f"exit code {done.returncode}", done.stderr)
    try:
        record = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        record = None
    if not isinstance(record, dict):
        raise SubprocessError(command, "printed no JSON object as its last line", done.stdout)
    return record


def prepare_peer_python() -> Path:
    """The interpreter of the peer's environment, which is made in the cache folder on first use (3 GB, minutes).

    Raises: SubprocessError where it cannot be made; UserError where $TFPERF_PEER_PYTHON names one without the peer.
    """
    given = os.environ.get(PEER_PYTHON)
    if given:
        if not _has_peer(Path(given)):
            raise UserError(f"{PEER_PYTHON}={given}: must be a Python interpreter that can import {REQUIREMENTS[0]}")
        return Path(given)
    folder = make_cache_folder() / f"peer-{REQUIREMENTS[0].replace('==', '-')}"
    python = folder / "bin" / "python"
    if not _has_peer(python):
        _install(["-m", "venv", "--clear", str(folder)], Path(sys.executable))
        _install(["-m", "pip", "install", "--quiet", *REQUIREMENTS], python)
    return python


def _has_peer(python: Path) -> bool:
    """Whether the interpreter is there and can import the peer."""
    try:
        done = subprocess.run([python, "-c", "import n3fit.backends"], env=os.environ | VARIABLES, capture_output=True)
    except OSError:
        return False
    return done.returncode == 0


def _install(arguments: Sequence[str], python: Path) -> None:
    done = subprocess.run([python, *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise SubprocessError([python, *arguments], f"exit code {done.returncode}", done.stderr)
