"""The command line as a process whose streams are full or closed."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.make_pack import make_card
from tfperf.workloads.pdf.results import store

ROOT = Path(__file__).parents[2]
# a verb that opens a file, while native code logs to stderr
LOGS = """
import os, sys
from tfperf.cli import main
from tfperf.measure import doctor
def checks():
    with open(sys.argv[1], "wb", buffering=0) as lock:
        for descriptor in (1, 2):
            os.write(descriptor, b"W0000 native words")
        lock.write(b"lock")
    return []
doctor.check_machine = checks
main(["doctor"])
"""


def shell(line, *arguments):
    """What a shell that gets arguments as $1, $2 ... makes of a line, in which $P is Python."""
    settings = os.environ | {"P": sys.executable, "PYTHONPATH": str(ROOT)}
    command = ["bash", "-c", line, "bash", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=settings, timeout=300, check=False)


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("$P -m tfperf init $1 >/dev/full", 0, ""),
        ("$P -m tfperf check nosuch.yaml 2>/dev/full", 2, ""),
        ("$P -m tfperf schema >/dev/full", 2, "error: stdout: could not be written: No space left on device"),
    ],
)
def test_the_exit_code_tells_the_result(tmp_path, line, code, words):
    done = shell(line, tmp_path / "card.yaml")
    assert done.returncode == code
    assert done.stderr.startswith(words) and done.stderr.count("\n") == bool(words), "no traceback"


def test_files_never_get_the_place_of_closed_streams(tmp_path):
    (tmp_path / "program.py").write_text(LOGS)
    done = shell("$P $1 $2 <&- >&- 2>&-", tmp_path / "program.py", tmp_path / "lock")
    assert done.returncode == 0 and (tmp_path / "lock").read_text() == "lock"


@pytest.mark.slow
@pytest.mark.parametrize("streams", [">/dev/full 2>/dev/full", "<&- >&- 2>&-", "2>&1 | true"])
def test_a_fit_is_the_same_where_nobody_reads(tmp_path, streams):
    card = make_card(tmp_path, replicas=2, steps=20)
    fit = f"set -o pipefail; $P -m tfperf fit {card} -o"
    assert shell(f"{fit} $1", tmp_path / "heard").returncode == 0
    assert shell(f"{fit} $1 {streams}", tmp_path / "unheard").returncode == 0
    pdfs = [store.read(tmp_path / run / "results.h5").pdf for run in ("heard", "unheard")]
    assert np.array_equal(pdfs[0], pdfs[1])
    names = [{path.name for path in (tmp_path / run).iterdir()} for run in ("heard", "unheard")]
    assert names[0] == names[1] and "report.html" in names[0]
