"""What a profile says should be changed."""

import pytest

from tests.trace.profiles import us, write
from tfperf.trace.attribution import read_attribution
from tfperf.trace.findings import list_findings
from tfperf.trace.notes import parse_notes

MARK = {"step_num": 0}


def find(path, python, main, program="engine", notes=(), **planes):
    lines = {"p": us(*python), "m": us(*main)}
    told = parse_notes({"own": True, "optimizers": [], "program": program} | dict(notes))
    return list_findings(read_attribution(write(path / "vm.xplane.pb", {"/host:CPU": lines} | planes), told))


@pytest.mark.parametrize(
    "program, words",
    [
        ("engine", "train.steps_per_call"),
        ("card", "where epochs are longer"),
        ("keras", "steps_per_execution"),
        ("loop", "tf.range"),
    ],
)
def test_gaps_name_the_key_that_makes_calls_longer(tmp_path, program, words):
    python = [("train", 100 * i, 80, MARK) for i in range(4)]
    main = [("dense/MatMul:MatMul", 100 * i + 10, 60) for i in range(4)]
    (one,) = find(tmp_path, python, main, program)
    assert words in one.change and one.share == pytest.approx(3 * 40 / 360)


def test_a_step_without_waste_has_no_findings(tmp_path):
    python = [("train", 100 * i, 100, MARK) for i in range(4)]
    assert find(tmp_path, python, [("dense/MatMul:MatMul", 100 * i + 1, 98) for i in range(4)]) == []


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
    first, second = find(tmp_path, python, main, "keras", {"constant": ["tables/transpose"]})
    assert "validation takes 33%" in first.what and "validation_freq" in first.change  # 3 gaps of 40 in 360
    assert "constants alone take 22%" in second.what and second.share == pytest.approx(80 / 360)


def test_many_short_kernels_with_holes_between_are_launch_bound(tmp_path):
    python = [("train", 0, 1000, MARK)]
    kernels = [(f"dense/Mul_{i}:Mul", 20 * i, 5) for i in range(50)]
    (one,) = find(tmp_path, python, kernels)
    assert "launch-bound" in one.what and "engine.xla" in one.change


def test_waiting_for_input_inside_steps_is_told(tmp_path):
    python = [("train", 0, 1000, MARK), ("Iterator::Root", 300, 400)]
    (one,) = find(tmp_path, python, [("dense/A:MatMul", 0, 300), ("dense/B:MatMul", 700, 300)], "loop")
    assert one.share == pytest.approx(0.4) and "prefetch" in one.change


def test_the_end_of_an_epoch_counts_with_the_gaps_that_longer_calls_save(tmp_path):
    python = [("train", 100 * i, 50, MARK) for i in range(4)] + [("tfperf.epoch", 100 * i + 50, 40) for i in range(4)]
    main = [("dense/MatMul:MatMul", 100 * i, 50) for i in range(4)]
    (one,) = find(tmp_path / "a", python, main)
    assert one.share == pytest.approx(3 * 50 / 350) and "an epoch ends" in one.what
    epoch, *_ = find(tmp_path / "b", python, main, "keras")
    assert epoch.share == pytest.approx(3 * 40 / 350) and "steps_per_epoch" in epoch.change


def test_copies_of_devices_at_the_same_time_are_not_added_up(tmp_path):
    copies = [("MemcpyH2D", 0, 30, {"memcpy_details": "size:100"}), ("sgemm", 30, 70, {"tf_op": "dense/MatMul:MatMul"})]
    planes = {f"/device:GPU:{i}": {"Stream #1": us(*copies)} for i in range(4)}
    (one,) = find(tmp_path, [("train", 0, 100, MARK)], [], **planes)
    assert "30%" in one.what and one.share == pytest.approx(0.3)


def test_short_launches_on_the_host_do_not_make_long_kernels_launch_bound(tmp_path):
    kernels = [("sgemm", 100 * i, 30, {"tf_op": "dense/MatMul:MatMul"}) for i in range(10)]
    launches = [("dense/MatMul:MatMul", 100 * i, 1) for i in range(10)]
    planes = {"/device:GPU:0": {"Stream #1": us(*kernels)}}
    assert find(tmp_path, [("train", 0, 1000, MARK)], launches, **planes) == []
