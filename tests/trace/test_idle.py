"""Why nothing runs: gaps between calls and holes in steps, made and worked out by hand."""

from dataclasses import replace

import numpy as np
import pytest

from tests.trace.profiles import us, write
from tfperf.trace.attribution import read_attribution
from tfperf.trace.notes import parse_notes
from tfperf.trace.phases import PHASES

NOTES = parse_notes({"own": True, "optimizers": ["adam"], "calls": 2, "wanted": 2})
MARK = {"step_num": 0}


def test_gaps_are_split_by_cause(tmp_path):
    """Two calls, operations from 20 to 70 and from 320 to 370 us: a gap of 250."""
    python = [
        ("train", 0, 80, MARK), ("train", 300, 80, MARK),
        ("tfperf.epoch", 80, 40), ("tfperf.validation", 120, 60), ("CpuCompiler::RunBackend", 130, 20),
        ("Iterator::Prefetch", 200, 30), ("EagerPyFunc:EagerPyFunc", 240, 10),
    ]  # fmt: skip
    main = [
        ("dense/MatMul:MatMul", 20, 50), ("dense/MatMul:MatMul", 150, 20), ("dense/MatMul:MatMul", 320, 20),
        ("dense/MatMul:MatMul", 350, 20),
    ]  # fmt: skip
    path = write(tmp_path / "vm.xplane.pb", {"/host:CPU": {"python": us(*python), "main": us(*main)}})
    found = read_attribution(path, NOTES)
    assert found.gaps.tolist() == [0.25] and found.period_ms == pytest.approx(0.3)
    assert found.gap_phases["validation"] == pytest.approx(0.02)  # the product between 150 and 170
    assert found.gap_phases["callback"] == pytest.approx(0.01)
    want = {
        "compilation": 20, "validation": 20, "epoch": 40, "input": 30,  # 120-130 and 170-180 of the validation
        "launch": 10 + 20,  # 70-80 of the first call, 300-320 of the second
        "host": 20 + 10 + 50, "callback": 0,  # 180-200, 230-240, 250-300
    }  # fmt: skip
    assert {cause: round(1e3 * ms) for cause, ms in found.idle_between.items()} == want
    assert sum(want.values()) + 20 + 10 == 250
    # the second step's hole from 340 to 350 lies in its call
    assert {c: round(2e3 * ms) for c, ms in found.idle_inside.items() if ms} == {"launch": 10}
    assert found.problems == ()


def test_a_range_of_the_program_names_the_phase_of_what_has_no_scope(tmp_path):
    """Eager programs have no scopes; the innermost range counts, on whatever thread the operation runs."""
    python = [
        ("train", 0, 100, MARK), ("tfperf.forward", 0, 50), ("tfperf.validation", 20, 10), ("tfperf.unheard", 60, 10),
    ]  # fmt: skip
    main = [
        ("MatMul:MatMul", 5, 10), ("MatMul:MatMul", 20, 10), ("MatMul:MatMul", 35, 10), ("MatMul:MatMul", 60, 10),
        ("gradient_tape/MatMul:MatMul", 46, 4), ("tfperf.update/MatMul:MatMul", 45, 1),
    ]  # fmt: skip
    path = write(tmp_path / "vm.xplane.pb", {"/host:CPU": {"python": us(*python), "main": us(*main)}})
    found = read_attribution(path, NOTES)
    busy = dict(zip(PHASES, (1e3 * found.busy["CPU"][0]).round(6).tolist(), strict=True))
    want = {"forward": 20, "validation": 10, "backward": 4, "update": 1, "other": 10}
    assert busy == {phase: want.get(phase, 0) for phase in PHASES}


def test_marks_that_are_missing_are_told(tmp_path):
    lines = {"p": us(("train", 0, 50, MARK)), "m": us(("d/A:A", 10, 10))}
    found = read_attribution(write(tmp_path / "vm.xplane.pb", {"/host:CPU": lines}), NOTES)
    assert found.problems == ("events were dropped: 1 of 2 marks of calls are missing",)


def test_without_marks_the_calls_of_the_function_that_takes_most_time_are_steps(tmp_path):
    call = {"tf_function_call": "notTraced-nonXla"}
    python = [("train", 100 * i, 60, call) for i in range(3)] + [("inner", 110, 50, call), ("other", 70, 20, call)]
    main = [("dense/MatMul:MatMul", 100 * i + 10, 40) for i in range(3)]
    lines = {"p": us(*python), "m": us(*main)}
    found = read_attribution(write(tmp_path / "vm.xplane.pb", {"/host:CPU": lines}))
    assert found.steps.tolist() == [0.04] * 3 and found.marks == "calls of train, for no step is marked"


def test_towers_of_a_processor_are_devices(tmp_path):
    main = [
        ("replica_1/dense/MatMul:MatMul", 10, 20), ("gradient_tape/replica_1/dense/MatMul:MatMul", 30, 10),
        ("dense/MatMul:MatMul", 10, 40),
    ]  # fmt: skip
    lines = {"p": us(("train", 0, 80, MARK)), "m": us(*main[:2]), "n": us(main[2])}
    found = read_attribution(write(tmp_path / "vm.xplane.pb", {"/host:CPU": lines}), NOTES)
    assert set(found.busy) == {"CPU", "CPU replica_1"}
    np.testing.assert_allclose(found.any["CPU replica_1"], [0.03])
    np.testing.assert_allclose(found.any["CPU"], [0.04])


def test_costs_know_their_layer_and_whether_they_are_constant(tmp_path):
    notes = replace(NOTES, forward=("dense", "mine"), constant=("dense/transpose",), calls=1)
    main = [
        ("while/body/mine/dense_1/MatMul:MatMul", 10, 10),
        ("gradient_tape/while/mine/dense_1/MatMul/MatMul_1:MatMul", 20, 5),
        ("while/body/dense/transpose:Transpose", 30, 5), ("adam/Mul:Mul", 40, 1),
    ]  # fmt: skip
    lines = {"p": us(("train", 0, 80, MARK)), "m": us(*main)}
    found = read_attribution(write(tmp_path / "vm.xplane.pb", {"/host:CPU": lines}), notes)
    assert [(c.layer, c.phase) for c in found.costs] == [
        ("dense_1", "forward"), ("dense_1", "backward"), ("dense", "forward"), ("", "update"),
    ]  # fmt: skip
    assert [c.name for c in found.constant] == ["while/body/dense/transpose:Transpose"]


def test_noise_is_what_differs_between_calls(tmp_path):
    lengths = [10, 12, 8, 10, 40]
    python = [("train", 100 * i, 80, MARK) for i in range(5)]
    main = [("dense/MatMul:MatMul", 100 * i + 10, n) for i, n in enumerate(lengths)]
    lines = {"p": us(*python), "m": us(*main)}
    found = read_attribution(write(tmp_path / "vm.xplane.pb", {"/host:CPU": lines}))
    assert found.costs[0].noise == pytest.approx(1.2533 * np.std(lengths, ddof=1) / 1e3 / np.sqrt(5))
    assert found.costs[0].ms == pytest.approx(0.016)


@pytest.mark.parametrize(
    "thread, cause", [("tf_data_iterator_get_next/7", "input"), ("tf_data_iterator_resource/7", "host")]
)
def test_who_fetches_a_batch_waits_who_prepares_one_does_not(tmp_path, thread, cause):
    python = [("train", 0, 20, MARK), ("train", 100, 20, MARK)]
    main = [("dense/MatMul:MatMul", 0, 20), ("dense/MatMul:MatMul", 100, 20)]
    lines = {"p": us(*python), "m": us(*main), thread: us(("Iterator::Root", 20, 80))}
    found = read_attribution(write(tmp_path / "vm.xplane.pb", {"/host:CPU": lines}), NOTES)
    assert found.idle_between[cause] == pytest.approx(0.08)


@pytest.mark.parametrize("update, steps", [("adam/Mul:Mul", 1), ("while/adam/Mul:Mul", 5), (None, 5)])
def test_a_loop_that_changes_no_weights_is_no_training_loop(tmp_path, update, steps):
    """A profile of another program: a layer's loop over time runs forward and backward, the update once."""
    main = [("while/lstm/MatMul:MatMul", 10 * i, 4) for i in range(5)]
    main += [("gradient_tape/while/lstm/MatMul:MatMul", 10 * i + 5, 4) for i in range(5)]
    if update is not None:
        main += [(update, 10 * i + 9, 1) for i in range(steps)]
    lines = {"p": us(("train", 0, 80, MARK)), "m": us(*main)}
    assert len(read_attribution(write(tmp_path / "vm.xplane.pb", {"/host:CPU": lines})).steps) == steps
