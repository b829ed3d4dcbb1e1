"""The benchmark of planted causes scores what a profile says, and its programs are there in pairs."""

import re
from pathlib import Path

import pytest

import benchmarks
from benchmarks.diagnosis.child import load_programs, read, record, time_steps
from benchmarks.diagnosis.program import PROGRAMS
from benchmarks.diagnosis.score import score
from benchmarks.registry import REGISTRY
from tfperf.errors import UserError
from tfperf.trace.findings import RULES


def make(ms=10.0, gain=10.0, rule="python", what="at score.py:3, in score", twin=()):
    first = {"rule": rule, "what": what, "ms": ms, "gain_ms": gain}
    return {
        "name": "one", "rule": "python", "words": ["score"], "planted_ms": [15.0, 16.0, 30.0],
        "twin_ms": [5.0, 6.0, 5.0], "planted": {"findings": [first]}, "twin": {"findings": list(twin)},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("found", "wrong"),
    [
        (make(), "no"), (make(ms=11.4), "no"), (make(ms=11.6), "cost"), (make(gain=7.4), "gain"),
        (make(rule="calls"), "named"), (make(what="at other.py:3, in other"), "named"),
        (make(twin=[{"rule": "python", "what": "score"}]), "twin"),
        (make(twin=[{"rule": "calls", "what": "score"}]), "no"),
    ],
)  # fmt: skip
def test_each_part_of_the_score_can_fail(found, wrong):
    row = score(found)
    assert row["wrong"] == wrong and row["costs_ms"] == 10.0  # the median of the pairs' differences


def test_a_program_that_fails_is_a_row_and_ends_nothing(tmp_path, monkeypatch):
    def run_program(name, output, module):
        if name == "eager_loop":
            raise UserError("eager_loop: failed: no room")
        return make() | {"name": name}

    monkeypatch.setattr("benchmarks.diagnosis.score.run_program", run_program)
    failed, fine = REGISTRY["diagnosis"].measure("eager_loop,pause_in_step", str(tmp_path))
    assert failed["wrong"] == "eager_loop: failed: no room" and fine["wrong"] == "no"
    assert failed.keys() == fine.keys()


def test_programs_made_after_complaints_say_which():
    load_programs()
    complaints = [one.complaint for one in PROGRAMS.values() if one.complaint]
    assert len(set(complaints)) == len(complaints) == 12
    assert all(re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+/(issues|pull)/\d+", one) for one in complaints)
    assert not PROGRAMS["eager_loop"].complaint


def test_programs_are_many_and_few_of_them_sleep():
    load_programs()
    assert len(PROGRAMS) >= 36 and sum(one.sleeps for one in PROGRAMS.values()) <= 9
    assert {one.rule for one in PROGRAMS.values()} <= {rule.name for rule in RULES}
    with pytest.raises(UserError, match="no program"):
        list(REGISTRY["diagnosis"].measure("nothing"))


def test_the_command_imports_each_benchmark():
    folder = Path(benchmarks.__path__[0])
    imported = set(re.findall(r"import (\w+) as", (folder / "__main__.py").read_text(encoding="utf-8")))
    files = {path.stem for path in folder.rglob("*.py") if "\n@register_benchmark(" in path.read_text(encoding="utf-8")}
    assert "score" in files and files <= imported


@pytest.mark.parametrize(
    "name",
    ["pause_in_step", "waiting_callback", "no_prefetch", "python_numbers", "eager_loop", "constant_inverse"],
)
def test_a_program_and_its_twin_are_told_apart(tmp_path, name):
    """Live, and short; of the others recordings are read. What runs beside may have a twin wait, but not each time."""
    load_programs()
    for planted, tries in ((True, 1), (False, 3)):
        training = PROGRAMS[name].make(planted)
        assert time_steps(training) > 0
        firsts = (find_first(training, tmp_path / f"{planted}{number}") for number in range(tries))
        assert any((first == PROGRAMS[name].rule) == planted for first in firsts)


def find_first(training, folder):
    """The rule of the first finding of a profile of it."""
    record(training, folder, steps=8)
    findings = read(folder)["findings"]
    return findings[0]["rule"] if findings else "none"
