"""Two profiles compared: what is beyond the limit and beyond chance."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from tests.trace.profiles import us, write
from tfperf.cli import main
from tfperf.report.profile import make_profile_record, merge_records
from tfperf.trace.attribution import read_attribution
from tfperf.trace.diff import compare
from tfperf.trace.notes import FILE

MARK = {"step_num": 0}


def make(path, forward, backward=20, jitter=(0, 0, 0, 0, 0, 0), gap=10):
    """Six calls of a forward and a backward operation, microseconds; `jitter` is added to the forward one."""
    python, main_thread, begin = [], [], 0
    for extra in jitter:
        length = forward + extra + backward
        python.append(("train", begin, length + gap, MARK))
        main_thread.append(("dense/MatMul:MatMul", begin + gap / 2, forward + extra))
        main_thread.append(("gradient_tape/dense/MatMul:MatMul", begin + gap / 2 + forward + extra, backward))
        begin += length + gap
    return write(path, {"/host:CPU": {"python": us(*python), "m": us(*main_thread)}})


def read(path):
    return make_profile_record(read_attribution(path))


def test_a_change_beyond_limit_and_noise_is_told_with_what_it_is_made_of(tmp_path):
    before, now = read(make(tmp_path / "a.xplane.pb", 100)), read(make(tmp_path / "b.xplane.pb", 120))
    assert before["period_ms"] == pytest.approx(0.130, rel=0.02)
    found = compare(now, before, 0.05)
    assert found.worse and found.step.difference_ms == pytest.approx(0.02)
    slower = {(c.kind, c.name) for c in found.changes if c.verdict == "slower"}
    assert slower == {
        ("step", "from first to last operation"), ("phase", "CPU forward"), ("layer", "CPU forward dense"),
        ("operation", "CPU dense/MatMul:MatMul"),
    }  # fmt: skip
    back = compare(before, now, 0.05)
    assert not back.worse and back.step.verdict == "faster"


def test_changes_below_the_limit_or_within_noise_are_none(tmp_path):
    quiet = read(make(tmp_path / "a.xplane.pb", 100))
    assert not compare(read(make(tmp_path / "b.xplane.pb", 104)), quiet, 0.05).worse
    noisy = read(make(tmp_path / "c.xplane.pb", 100, jitter=(20, 60, -40, 50, -30, 20)))
    assert noisy["period_ms"] > 1.06 * quiet["period_ms"]
    assert noisy["noise"]["period_ms"] > 0.01
    assert not compare(noisy, quiet, 0.05).worse


def test_noise_of_repeated_captures_is_what_differs_between_them(tmp_path):
    records = [read(make(tmp_path / f"{n}.xplane.pb", n)) for n in (100, 110, 120)]
    together = merge_records(records)
    assert together["captures"] == 3 and together["step_ms"] == pytest.approx(0.130)
    assert together["noise"]["step_ms"] == pytest.approx(1.2533 * 0.01 / np.sqrt(3))
    # each capture alone is without noise
    assert compare(records[2], records[0], 0.05).worse and not compare(merge_records(records[1:]), together, 0.05).worse


def test_what_chance_may_do_follows_students_t_for_few_samples(tmp_path):
    jitter = (0, 2, 4, 6, 8, 0)  # the last call has no gap behind it and is left out
    before = read(make(tmp_path / "a.xplane.pb", 100, jitter=jitter))
    now = read(make(tmp_path / "b.xplane.pb", 200, jitter=jitter))
    error = 1.2533 * np.std([0, 2, 4, 6, 8], ddof=1) / np.sqrt(5) / 1e3
    assert before["noise"] | {"step_ms": 0} == pytest.approx({"period_ms": error, "samples": 5, "step_ms": 0})
    step = compare(now, before, 0.05).step
    assert step.noise == pytest.approx(2.7764 * np.sqrt(2) * error, rel=1e-4)  # t of 4 degrees of freedom, 97.5 %
    forward = next(row for row in before["phases_by_device"] if row["phase"] == "forward")
    assert forward["noise_ms"] == pytest.approx(1.2533 * np.std([*jitter], ddof=1) / np.sqrt(6) / 1e3)


def test_an_outlier_among_calls_makes_no_program_slower(tmp_path):
    calm, upset = (0, 1, 0, -1, 0, 1, 0, -1, 0, 0), (0, 1, 0, -1, 0, 1, 100, -1, 0, 0)
    before, now = (read(make(tmp_path / f"{j[6]}.xplane.pb", 100, jitter=j)) for j in (calm, upset))
    assert now["period_ms"] == pytest.approx(before["period_ms"], rel=0.01)
    assert not compare(now, before, 0.05).worse


def test_of_a_single_call_nobody_can_tell(tmp_path):
    before, now = make(tmp_path / "a.xplane.pb", 100, jitter=(0,)), make(tmp_path / "b.xplane.pb", 900, jitter=(0,))
    assert compare(read(now), read(before), 0.05).step.verdict == "unknown"
    result = CliRunner().invoke(main, ["profile", str(now), "--against", str(before)])
    assert result.exit_code == 0 and "nobody can tell" in result.output


@pytest.mark.parametrize("forward, code", [(100, 0), (120, 1)])
def test_the_verb_compares_and_ends_with_1_when_steps_got_slower(tmp_path, forward, code):
    before, now = make(tmp_path / "a" / "a.xplane.pb", 100), make(tmp_path / "b" / "b.xplane.pb", forward)
    result = CliRunner().invoke(main, ["profile", str(now), "--against", str(before)])
    assert result.exit_code == code and ("slower: +1" in result.output) == bool(code)
    wide = CliRunner().invoke(main, ["profile", str(now), "--against", str(before), "--limit", "50"])
    assert wide.exit_code == 0
    missing = CliRunner().invoke(main, ["profile", str(now), "--against", str(tmp_path / "none")])
    assert missing.exit_code == 2


def test_captures_of_one_group_are_read_together(tmp_path):
    session = tmp_path / "plugins" / "profile"
    for name, group, forward in (("1", "old", 500), ("2", "new", 100), ("3", "new", 120)):
        make(session / name / "vm.xplane.pb", forward)
        (session / name / FILE).write_text(json.dumps({"own": True, "optimizers": [], "group": group}))
    result = CliRunner().invoke(main, ["profile", str(tmp_path), "-o", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["captures"] == 2 and report["step_ms"] == pytest.approx(0.130)
