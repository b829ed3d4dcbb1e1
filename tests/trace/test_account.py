"""Where the time from step to step goes, in profiles made and worked out by hand."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.trace.profiles import us, write
from tfperf.trace.attribution import read_attribution
from tfperf.trace.charges import Charge
from tfperf.trace.claims import CAUSES
from tfperf.trace.findings import list_findings
from tfperf.trace.notes import parse_notes
from tfperf.trace.phases import PHASES

NOTES = parse_notes({"own": True, "optimizers": ["adam"], "calls": 2, "wanted": 2})
MARK = {"step_num": 0}


def get_us(found):
    """us from step to step by cause, of those that take any."""
    sums = {cause: 1e3 * found.account.sum(cause) for cause in CAUSES}
    return {cause: round(us, 6) for cause, us in sums.items() if us}


def read(tmp_path, notes=NOTES, **lines):
    return read_attribution(write(tmp_path / "vm.xplane.pb", {"/host:CPU": lines}), notes)


def test_each_moment_has_one_cause(tmp_path):
    """Two calls, operations from 20 to 70 and from 320 to 370 us: a period of 300."""
    python: list[Any] = [
        ("train", 0, 80, MARK), ("train", 300, 80, MARK),
        ("tfperf.epoch", 80, 40), ("tfperf.validation", 120, 60), ("CpuCompiler::RunBackend", 130, 20),
        ("Iterator::Prefetch", 200, 30), ("EagerPyFunc:EagerPyFunc", 240, 10), ("tfperf.garbage:generation 2", 260, 5),
    ]  # fmt: skip
    main = [
        ("dense/MatMul:MatMul", 20, 50), ("dense/MatMul:MatMul", 155, 20), ("dense/MatMul:MatMul", 320, 20),
        ("dense/MatMul:MatMul", 350, 20),
    ]  # fmt: skip
    found = read(tmp_path, python=us(*python), main=us(*main))
    assert found.gaps.tolist() == [0.25] and found.period_ms == pytest.approx(0.3)
    want = {
        "garbage": 5, "compilation": 20, "validation": 40, "work": 50, "py_function": 10, "input": 30, "epoch": 40,
        "dispatch": 10 + 20,  # 70-80 of the first call, 300-320 of the second
        "unexplained": 20 + 10 + 10 + 35,  # 180-200, 230-240, 250-260, 265-300
    }  # fmt: skip
    assert get_us(found) == want and sum(want.values()) == 300
    assert found.account.period_ms == pytest.approx(0.3) and found.account.steps == 1
    assert found.problems == ()


def test_in_a_call_dispatch_ends_with_the_first_operation(tmp_path):
    """Of a mark that holds more than the call, only the call is the runtime's."""
    call = {"tf_function_call": "notTraced-nonXla"}
    python: list[Any] = [("train", 100 * i, 90, MARK) for i in range(2)] + [
        ("step", 100 * i + 30, 40, call) for i in range(2)
    ]
    python += [("tf.constant", 32, 3), ("EagerExecute", 80, 4)]
    main = [("a/A:MatMul", 100 * i + 40, 10) for i in range(2)] + [("a/B:MatMul", 100 * i + 55, 5) for i in range(2)]
    found = read(tmp_path, python=us(*python), main=us(*main))
    # 50-55 between; 60-70 after the last, and 130-140 before the first
    want = {"work": 15, "between": 5, "dispatch": 20, "eager": 4, "unexplained": 10 + 16 + 30}
    assert get_us(found) == want


def test_where_the_executor_runs_operations_do_that_are_too_short_to_be_recorded(tmp_path):
    """Of a call of 80 its executor works from 10 to 70, and an operation that is recorded from 40 to 50."""
    call = {"tf_function_call": "notTraced-nonXla"}
    python: list[Any] = [("train", 100 * i, 100, MARK) for i in range(3)] + [
        ("step", 100 * i, 80, call) for i in range(3)
    ]
    main = [("ExecutorState::Process", 100 * i + 10, 60) for i in range(3)]
    main += [("a/A:MatMul", 100 * i + 40, 10) for i in range(3)]
    ahead = [("ExecutorState::Process", 100 * i, 80) for i in range(3)]  # of a dataset: no part of the call
    lines = {"python": us(*python), "main": us(*main), "tf_data_private_threadpool/1": us(*ahead)}
    times = get_us(read(tmp_path, **lines))
    assert (times["dispatch"], times["between"], times["work"]) == (20, 50, 10)


def test_python_is_split_by_where_the_thread_was_found(tmp_path):
    call = {"tf_function_call": "notTraced-nonXla"}
    python: list[Any] = [("train", 200 * i, 190, MARK) for i in range(2)] + [
        ("step", 200 * i, 40, call) for i in range(2)
    ]
    main = [("a/A:MatMul", 200 * i, 40) for i in range(2)]
    looks = [("tfperf.at:a.py:3 in f", t, 1) for t in (20, 60, 90, 120)] + [("tfperf.at:b.py:7 in g", 150, 1)]
    found = read(tmp_path, python=us(*python), main=us(*main), sampler=us(*looks))
    assert found.account.samples == 5
    assert [(one.name, round(1e3 * one.ms, 6)) for one in found.account.list("python")] == [
        ("a.py:3 in f", 120), ("b.py:7 in g", 40),
    ]  # fmt: skip


def test_what_traces_compiles_before_and_after_its_operations(tmp_path):
    traced, plain = {"tf_function_call": "traced-nonXla"}, {"tf_function_call": "notTraced-nonXla"}
    python: list[Any] = [("train", 100 * i, 90, MARK) for i in range(3)]
    python += [("step", 0, 40, plain), ("step", 100, 80, traced), ("tf.function-graph_building", 105, 30),
               ("step", 200, 40, plain)]  # fmt: skip
    main = [("a/A:MatMul", 100 * i + 20 + 30 * (i == 1), 10) for i in range(3)]
    found = read(tmp_path, python=us(*python), main=us(*main))
    # in the second call all but its operation
    assert get_us(found)["compilation"] == 70 / 2 and found.account.list("compilation")[0].name == "step"


def test_a_call_that_compiles_spends_the_rest_of_its_time_for_it(tmp_path):
    """XLA's events leave out what prepares its work; a call of which it takes a hundredth compiles nothing."""
    plain = {"tf_function_call": "notTraced-nonXla"}
    python: list[Any] = [("train", 1000 * i, 990, MARK) for i in range(3)] + [
        ("step", 1000 * i, 900, plain) for i in range(3)
    ]
    python += [("XlaCompiler::Compile", 1100, 300), ("XlaCompiler::Compile", 100, 5)]
    main = [("a/A:MatMul", 1000 * i + 600, 200) for i in range(3)]
    found = read(tmp_path, python=us(*python), main=us(*main))
    # from the first call's operation on: the second call's 900, less its operation
    assert get_us(found)["compilation"] == (900 - 200) / 2


def test_a_call_that_compiles_for_a_part_of_its_time_still_waits_for_input(tmp_path):
    plain = {"tf_function_call": "notTraced-nonXla"}
    python: list[Any] = [("train", 1000 * i, 990, MARK) for i in range(3)] + [
        ("step", 1000 * i, 900, plain) for i in range(3)
    ]
    python += [("XlaCompiler::Compile", 1000 * i, 100) for i in range(3)]
    main = [("IteratorGetNext:IteratorGetNext", 1000 * i + 100, 600) for i in range(3)]
    main += [("a/A:MatMul", 1000 * i + 700, 190) for i in range(3)]
    times = get_us(read(tmp_path, python=us(*python), main=us(*main)))
    assert times["input"] == 600 and times["compilation"] == 110


def test_what_happens_once_an_epoch_is_counted_as_in_a_long_training(tmp_path):
    """Of three periods that are recorded one has an epoch's end; in the training one of ten has."""
    python: list[Any] = [("train", 100 * i, 50, MARK) for i in range(4)] + [("tfperf.epoch", 60, 30)]
    main = [("a/A:MatMul", 100 * i, 50) for i in range(4)]
    lines = {"python": us(*python), "main": us(*main)}
    for per_epoch, want in ((None, 40 / 3), (10, 40 / 10)):
        found = read(tmp_path, replace(NOTES, calls_per_epoch=per_epoch), **lines)
        assert 1e3 * found.account.sum("epoch") == pytest.approx(want)  # from 50 on, where the last call ended
    assert Charge("callback", "Own.on_test_batch_end", 1.0).per_epoch
    assert not Charge("callback", "Own.on_train_batch_end", 1.0).per_epoch
    notes = replace(NOTES, calls_per_epoch=100, recorded_ms=0.1, unrecorded_ms=0.08)
    shared = read(tmp_path, notes, **lines).account
    assert all(one.ms >= 0 for one in shared.charges) and any(one.events for one in shared.charges)
    assert shared.period_ms < 0.1


def test_an_epoch_that_ends_within_a_call_takes_no_time_of_the_steps_before_it(tmp_path):
    """A call has two functions: steps, then validation; the range of the epoch's end is around the second alone."""
    call = {"tf_function_call": "notTraced-nonXla"}
    python: list[Any] = [("train", 100 * i, 100, MARK) for i in range(3)]
    for i in range(3):
        python += [("take", 100 * i, 40, call), ("tfperf.epoch", 100 * i + 50, 40),
                   ("tfperf.validation", 100 * i + 55, 25), ("tfperf.epoch_start", 100 * i + 95, 5)]  # fmt: skip
    main = [("a/A:MatMul", 100 * i + 10, 20) for i in range(3)]
    found = read(tmp_path, python=us(*python), main=us(*main))
    times = get_us(found)
    # 10 before the operation and 10 after it are the call's; 40 of the range, 25 of them validation; 5 before the next
    assert (times["dispatch"], times["validation"], times["epoch"]) == (20, 25, 20)
    assert found.account.epochs == 2


def test_steps_of_a_call_that_cannot_be_told_apart_share_its_time(tmp_path):
    """Two steps in a loop, an epoch's end, and the last one by another function."""
    python: list[Any] = [("train", 100 * i, 90, MARK) for i in range(2)]
    main = [("while/body/a/A:MatMul", 100 * i + at, 20) for i in range(2) for at in (0, 20)]
    main += [("a/A:MatMul", 100 * i + 60, 20) for i in range(2)]
    found = read(tmp_path, replace(NOTES, turns=3), python=us(*python), main=us(*main))
    assert len(found.steps) == 6 and found.account.steps == 3
    assert (1e3 * found.steps).round(1).tolist() == [26.7, 26.7, 26.7] * 2
    assert 1e3 * found.account.period_ms == pytest.approx(100 / 3)


def test_a_range_of_the_program_names_the_phase_of_what_has_no_scope(tmp_path):
    """Eager programs have no scopes; the innermost range counts, on whatever thread the operation runs."""
    python: list[Any] = [
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
    python: list[Any] = [("train", 100 * i, 60, call) for i in range(3)] + [
        ("inner", 110, 50, call),
        ("other", 70, 20, call),
    ]
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


@pytest.mark.parametrize(
    "thread, cause", [("tf_data_iterator_get_next/7", "input"), ("tf_data_iterator_resource/7", "unexplained")]
)
def test_who_fetches_a_batch_waits_who_prepares_one_does_not(tmp_path, thread, cause):
    python: list[Any] = [("train", 0, 20, MARK), ("train", 100, 20, MARK)]
    main = [("dense/MatMul:MatMul", 0, 20), ("dense/MatMul:MatMul", 100, 20)]
    lines = {"p": us(*python), "m": us(*main), thread: us(("Iterator::Root", 20, 80))}
    found = read_attribution(write(tmp_path / "vm.xplane.pb", {"/host:CPU": lines}), NOTES)
    assert found.account.sum(cause) == pytest.approx(0.08)


@pytest.mark.parametrize("update, steps", [("adam/Mul:Mul", 1), ("while/adam/Mul:Mul", 5), (None, 5)])
def test_a_loop_that_changes_no_weights_is_no_training_loop(tmp_path, update, steps):
    """A profile of another program: a layer's loop over time runs forward and backward, the update once."""
    main = [("while/lstm/MatMul:MatMul", 10 * i, 4) for i in range(5)]
    main += [("gradient_tape/while/lstm/MatMul:MatMul", 10 * i + 5, 4) for i in range(5)]
    if update is not None:
        main += [(update, 10 * i + 9, 1) for i in range(steps)]
    lines = {"p": us(("train", 0, 80, MARK)), "m": us(*main)}
    assert len(read_attribution(write(tmp_path / "vm.xplane.pb", {"/host:CPU": lines})).steps) == steps


def test_another_threads_garbage_counts_where_no_operation_runs(tmp_path):
    """From 40 to 100 us; an operation runs to 60."""
    python: list[Any] = [("train", 200 * i, 190, MARK) for i in range(2)]
    main = [("a/A:MatMul", 200 * i, 60) for i in range(2)]
    other = [("tfperf.garbage:generation 2", 40, 60)]
    times = get_us(read(tmp_path, python=us(*python), main=us(*main), worker=us(*other)))
    assert (times["garbage"], times["work"]) == (40, 60)


def test_what_makes_a_tensor_of_much_data_is_conversion_also_before_a_call(tmp_path):
    call = {"tf_function_call": "notTraced-nonXla"}
    python: list[Any] = [("train", 2000 * i, 1900, MARK) for i in range(2)] + [
        ("step", 2000 * i + 1000, 900, call) for i in range(2)
    ]
    python += [("convert_to_tensor", 2100, 700), ("convert_to_tensor", 2900, 50), ("convert_to_tensor", 3010, 20)]
    main = [("a/A:MatMul", 2000 * i + 1100, 700) for i in range(2)]
    times = get_us(read(tmp_path, python=us(*python), main=us(*main)))
    assert (times["conversion"], times["eager"]) == (700 + 20, 50)


def test_an_operation_that_takes_no_time_has_an_empty_account(tmp_path):
    found = read(tmp_path, python=us(("train", 0, 10, MARK)), main=us(("a/A:MatMul", 5, 0)))
    assert found.account.charges == () and list_findings(found) == []
