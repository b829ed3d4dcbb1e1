"""Recorded profiles of programs with a planted cause say which it is, and those of their twins do not.

They are made by `python -m benchmarks.diagnosis.recordings tests/benchmarks/recordings`.
"""

import sys
from pathlib import Path

import pytest

from benchmarks.diagnosis.child import read
from benchmarks.diagnosis.program import PROGRAMS
from benchmarks.diagnosis.recordings import extract_recording, hide_folders, list_recorded
from benchmarks.diagnosis.score import is_planted

FOLDER = Path(__file__).parent / "recordings"
RECORDED = list_recorded()


def test_there_is_a_recording_of_each_program():
    assert {path.name.removesuffix(".tar.xz") for path in FOLDER.glob("*.tar.xz")} == set(RECORDED)


def test_programs_that_measure_what_the_rules_find_elsewhere_have_none():
    unseen = {name for name, program in PROGRAMS.items() if program.unseen}
    assert len(unseen) == 77 and not unseen & set(RECORDED)


@pytest.mark.parametrize("name", RECORDED)
def test_the_planted_cause_is_first_and_the_twin_is_not_accused_of_it(tmp_path, name):
    said = {planted: read(one) for planted, one in extract_recording(FOLDER / f"{name}.tar.xz", tmp_path).items()}
    program = vars(PROGRAMS[name])
    findings = said[True]["findings"]
    assert findings and is_planted(findings[0], program), findings
    assert not any(is_planted(one, program) for one in said[False]["findings"]), said[False]["findings"]
    for one in said.values():
        assert sum(finding["gain_ms"] for finding in one["findings"]) <= one["period_ms"] * (1 + 1e-9)


def test_recordings_tell_no_folders_of_the_machine():
    mine = f"{sys.prefix}/lib/ops.py {FOLDER}".encode()
    hidden = hide_folders(mine)
    assert len(hidden) == len(mine) and sys.prefix.encode() not in hidden and bytes(FOLDER) not in hidden
    assert b"/lib/ops.py" in hidden and hidden.endswith(b"/tests/benchmarks/recordings")
