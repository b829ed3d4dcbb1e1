"""Two profiles compared: what is beyond the limit and beyond chance."""

import json
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import t as student

from tests.trace.profiles import us, write
from tfperf.cli import main
from tfperf.report.profile import make_profile_record, merge_records
from tfperf.trace.attribution import read_attribution
from tfperf.trace.diff import PERIOD, compare
from tfperf.trace.notes import FILE, parse_notes

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


def read(tmp_path, *forward, **more):
    """The record of captures whose forward operations take so many microseconds."""
    paths = [make(tmp_path / f"{ms}-{i}.xplane.pb", ms, **more) for i, ms in enumerate(forward)]
    return merge_records([make_profile_record(read_attribution(path)) for path in paths])


def test_a_change_beyond_noise_is_told_with_what_it_is_made_of(tmp_path):
    before, now = read(tmp_path, 100, 101, 100), read(tmp_path, 120, 121, 120)
    assert before["period_ms"] == pytest.approx(0.130, rel=0.02) and before["captures"] == 3
    found = compare(now, before, 0.05)
    assert found.worse and found.step.difference_ms == pytest.approx(0.02)
    slower = {(c.kind, c.name) for c in found.changes if c.verdict == "slower"}
    assert slower == {
        ("step", "from first to last operation"), ("phase", "CPU forward"), ("layer", "CPU forward dense"),
        ("operation", "CPU dense/MatMul:MatMul"), ("cause", "operations run forward"),
    }  # fmt: skip
    back = compare(before, now, 0.05)
    assert not back.worse and back.step.verdict == "faster"


def test_the_limit_is_for_the_exit_code_and_chance_for_the_verdict(tmp_path):
    quiet, slower = read(tmp_path, 100, 101, 100), read(tmp_path, 104, 105, 104)
    found = compare(slower, quiet, 0.05)
    assert found.step.verdict == "slower" and not found.worse and compare(slower, quiet, 0.01).worse
    noisy = read(tmp_path, 70, 170, 140)
    assert noisy["period_ms"] > 1.06 * quiet["period_ms"]
    assert compare(noisy, quiet, 0.05).step.verdict == "same"


def test_noise_is_welchs_and_of_pairs_students(tmp_path):
    """Of 1 and 2 standard errors by hand: t of 2 and of 3.2 degrees of freedom."""
    before, now = read(tmp_path, 100, 103, 106), read(tmp_path, 112, 115, 121)
    a, b = np.array([0.130, 0.133, 0.136]), np.array([0.142, 0.145, 0.151])
    va, vb = a.var(ddof=1) / 3, b.var(ddof=1) / 3
    degrees = (va + vb) ** 2 / (va**2 / 2 + vb**2 / 2)
    assert compare(now, before, 0.05).step.noise == pytest.approx(student.ppf(0.975, degrees) * np.sqrt(va + vb))
    paired = compare(now, before, 0.05, paired=True).step
    assert paired.noise == pytest.approx(4.3027 * np.std(b - a, ddof=1) / np.sqrt(3), rel=1e-4)  # of tables
    assert paired.noise < 0.5 * compare(now, before, 0.05).step.noise  # what changes both is in neither


def test_an_outlier_among_calls_makes_no_program_slower(tmp_path):
    upset = (0, 1, 0, -1, 0, 1, 100, -1, 0, 0)
    before, now = read(tmp_path, 100, 101, 100), read(tmp_path, 100, 101, 100, jitter=upset)
    assert now["period_ms"] == pytest.approx(before["period_ms"], rel=0.01)
    assert not compare(now, before, 0.05).worse


def test_an_outlier_among_captures_is_left_out_and_told(tmp_path):
    before, now = read(tmp_path, 100, 101, 102, 100, 101), read(tmp_path, 120, 121, 500, 120, 122)
    found = compare(now, before, 0.05).step
    assert found.verdict == "slower" and found.left_out == ("now: 0.53 ms",)
    paired = compare(now, before, 0.05, paired=True).step
    assert paired.verdict == "slower" and paired.left_out == ("turn 3: 0.132 and 0.53 ms",)


def test_an_epochs_end_in_one_of_the_windows_is_no_change(tmp_path):
    """What comes once an epoch is counted as often as in the training."""

    def read_epochs(name, ends):
        python: list[Any] = [("train", 100 * i + 500 * sum(e < i for e in ends), 90, MARK) for i in range(11)]
        python += [("tfperf.epoch", 100 * e + 500 * k + 95, 490) for k, e in enumerate(ends)]
        main_thread = [("dense/A:MatMul", begin, 60) for kind, begin, *_ in python if kind == "train"]
        path = write(tmp_path / f"{name}.xplane.pb", {"/host:CPU": {"p": us(*python), "m": us(*main_thread)}})
        told = parse_notes({"own": True, "optimizers": [], "calls_per_epoch": 10})
        return make_profile_record(read_attribution(path, told))

    one, two = read_epochs("one", [4]), read_epochs("two", [2, 7])
    before, now = merge_records([one, one]), merge_records([two, two])
    found = compare(now, before, 0.05).step
    assert found.before == pytest.approx(found.now, rel=0.02) and found.before == pytest.approx(0.15, rel=0.05)


def simulate(shift, scatter, rounds, generator):
    """How many of so many pairs of five captures a side are found to differ."""
    found = 0
    for _ in range(rounds):
        drift = generator.normal(0, 0.05, 5)  # of the machine, from turn to turn
        sides = [10 * np.exp(drift + generator.normal(0, scatter, 5)) * (1 + one) for one in (0.0, shift)]
        before, now = ({"series": [{"step": {PERIOD: ms}} for ms in side]} for side in sides)
        found += compare(now, before, 0.05, paired=True).step.verdict != "same"
    return found


def test_identical_programs_differ_once_in_twenty_and_shifts_are_found():
    generator = np.random.default_rng(5)
    assert simulate(0.0, 0.01, 400, generator) <= 32  # 20 expected, of which chance makes 32 once in 200
    # of standard errors 4.5 are found in 9 of 10
    shift = 4.5 * 0.01 * np.sqrt(2 / 5)
    assert simulate(shift, 0.01, 200, generator) >= 170


def test_of_a_single_capture_nobody_can_tell(tmp_path):
    before, now = make(tmp_path / "a.xplane.pb", 100), make(tmp_path / "b.xplane.pb", 900)
    result = CliRunner().invoke(main, ["profile", str(now), "--against", str(before)])
    assert result.exit_code == 0 and "nobody can tell" in result.output


def write_group(folder, *forward):
    for number, us_each in enumerate(forward):
        session = folder / "plugins" / "profile" / str(number)
        make(session / "vm.xplane.pb", us_each)
        (session / FILE).write_text(json.dumps({"own": True, "optimizers": [], "group": "one"}))
    return folder


@pytest.mark.parametrize("forward, code", [((100, 101), 0), ((120, 121), 1)])
def test_the_verb_compares_and_ends_with_1_when_steps_got_slower(tmp_path, forward, code):
    before, now = write_group(tmp_path / "a", 100, 101), write_group(tmp_path / "b", *forward)
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
