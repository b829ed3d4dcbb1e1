"""What a profile says should be changed."""

import pytest

from tests.trace.profiles import us, write
from tfperf.trace.attribution import attribute_path
from tfperf.trace.findings import findings
from tfperf.trace.notes import checked

MARK = {"step_num": 0}


def found(path, python, main, program="engine", notes=()):
    lines = {"p": us(*python), "m": us(*main)}
    told = checked({"own": True, "optimizers": [], "program": program} | dict(notes))
    return findings(attribute_path(write(path / "vm.xplane.pb", {"/host:CPU": lines}), told))


@pytest.mark.parametrize(
    "program, words", [("engine", "train.steps_per_call"), ("keras", "steps_per_execution"), ("loop", "tf.range")]
)
def test_gaps_name_the_key_that_makes_calls_longer(tmp_path, program, words):
    python = [("train", 100 * i, 80, MARK) for i in range(4)]
    main = [("dense/MatMul:MatMul", 100 * i + 10, 60) for i in range(4)]
    (one,) = found(tmp_path, python, main, program)
    assert words in one.change and one.share == pytest.approx(0.4)


def test_a_step_without_waste_has_no_findings(tmp_path):
    python = [("train", 100 * i, 100, MARK) for i in range(4)]
    assert found(tmp_path, python, [("dense/MatMul:MatMul", 100 * i + 1, 98) for i in range(4)]) == []


def test_validation_between_steps_and_constant_work_are_told_by_share(tmp_path):
    python = [("train", 100 * i, 60, MARK) for i in range(4)] + [
        ("tfperf.validation", 100 * i + 60, 40) for i in range(4)
    ]
    main = [
        operation for i in range(4) for operation in (
            ("dense/MatMul:MatMul", 100 * i, 40), ("tables/transpose:Transpose", 100 * i + 40, 20),
            ("dense/MatMul:MatMul", 100 * i + 60, 40),
        )
    ]  # fmt: skip
    first, second = found(tmp_path, python, main, "keras", {"constant": ["tables/transpose"]})
    assert "validation takes 40%" in first.what and "validation_freq" in first.change
    assert "constants alone take 20%" in second.what and second.share == pytest.approx(0.2)


def test_many_short_kernels_with_holes_between_are_launch_bound(tmp_path):
    python = [("train", 0, 1000, MARK)]
    kernels = [(f"dense/Mul_{i}:Mul", 20 * i, 5) for i in range(50)]
    (one,) = found(tmp_path, python, kernels)
    assert "launch-bound" in one.what and "engine.xla" in one.change


def test_waiting_for_input_inside_steps_is_told(tmp_path):
    python = [("train", 0, 1000, MARK), ("Iterator::Root", 300, 400)]
    (one,) = found(tmp_path, python, [("dense/A:MatMul", 0, 300), ("dense/B:MatMul", 700, 300)], "loop")
    assert one.share == pytest.approx(0.4) and "prefetch" in one.change
