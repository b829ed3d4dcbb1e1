"""Changes that a finding advises, and figures in its words, fit the program."""

from typing import Any

import numpy as np
import pytest

from tests.trace.profiles import us, write
from tests.trace.test_findings import CALL, MARK, find
from tfperf.trace.attribution import read_attribution
from tfperf.trace.findings import list_findings
from tfperf.trace.notes import parse_notes

XLA_CALL = {"tf_function_call": "notTraced-xla"}


def list_steps(calls: int = 4) -> tuple[list[Any], list[Any]]:
    """Calls of 100 us, of which an operation has 60."""
    python = [("train", 100 * i, 100, MARK) for i in range(calls)]
    return python, [("dense/MatMul:MatMul", 100 * i + 10, 60) for i in range(calls)]


@pytest.mark.parametrize("epoch, steps", [
    (12, 12), (24, 12), (100, 10), (32, 16), (7, 7), (17, 17), (34, 17), (2, 2), (1024, 16),
])  # fmt: skip
def test_steps_of_a_call_divide_an_epoch(epoch, steps, tmp_path):
    """Keras trains 48 steps in three epochs of 12 with 16 steps a call."""
    (one,) = find(tmp_path, *list_steps(), "keras", {"calls_per_epoch": epoch})
    assert f"set steps_per_execution={steps} of compile(), a divisor" in one.change
    assert one.gain_ms == pytest.approx(0.04 * (1 - 1 / steps))


@pytest.mark.parametrize("notes, steps", [
    ({"calls_per_epoch": 1563}, 16),  # 3 times 521, which are too many for a call
    ({"calls_per_epoch": 391, "turns": 4}, 68),  # of 1561 to 1564 steps
    ({"calls_per_epoch": 128, "turns": 4}, 64),  # of 509 to 512 steps
])  # fmt: skip
def test_what_may_be_no_divisor_is_called_none(notes, steps, tmp_path):
    python, main = list_steps()
    main = [(f"while/{name}", begin + 15 * k, 14) for name, begin, _ in main for k in range(notes.get("turns", 1))]
    (one,) = [one for one in find(tmp_path, python, main, "keras", notes) if one.rule == "calls"]
    assert one.change == f"set steps_per_execution={steps} of compile(), or another divisor of the steps of an epoch"


@pytest.mark.parametrize("compiled", [True, False])
def test_a_compiled_loop_takes_its_steps_inside_of_what_is_compiled(compiled, tmp_path):
    python, main = list_steps()
    module = {"step": [("dot.1", "dot", "dense/MatMul", [])]}
    main = [("dot.1", *times, {"hlo_op": "dot.1", "hlo_module": "step"}) for _, *times in main] if compiled else main
    lines = {"/host:CPU": {"p": us(*python), "m": us(*main)}}
    told = parse_notes({"own": True, "optimizers": [], "program": "loop"})
    found = read_attribution(write(tmp_path / "vm.xplane.pb", lines, module if compiled else ()), told)
    (one,) = list_findings(found)
    assert one.rule == "calls" and ("around the compiled step" in one.change) == compiled == found.compiled


def test_of_an_unknown_epoch_only_the_condition_is_told(tmp_path):
    (one,) = find(tmp_path, *list_steps(), "keras")
    assert one.change == "set steps_per_execution=16 of compile(), or another divisor of the steps of an epoch"


def list_replicas(start: float = 0.0, length: float = 4.0) -> tuple[list[Any], dict[str, Any]]:
    """Steps of 400 us on two devices, 20 short operations on each, those of the second from `start` on."""
    python = [("train", 400 * i, 400, MARK) for i in range(10)]
    return python, {
        f"t{device}": [
            (f"replica_{device}/dense/A{k}:Mul", 400 * i + start * device + 15 * k, length)
            for i in range(10) for k in range(20)
        ]
        for device in (0, 1)
    }  # fmt: skip


def test_under_a_strategy_nothing_is_advised_that_fails_there(tmp_path):
    python, lines = list_replicas()
    found = find(tmp_path, python, [], "keras", {"cores": 2}, lines)
    assert {one.rule for one in found} >= {"calls", "short_operations"}
    assert not any("steps_per_execution" in one.change or "jit_compile" in one.change for one in found)
    assert "larger batch" in found[0].change
    (short,) = [one for one in found if one.rule == "short_operations"]
    assert short.gain_ms == pytest.approx(0.9 * short.bound_ms), "a larger batch starts no program of XLA"
    loop = find(tmp_path / "loop", python, [], "loop", {"cores": 2}, lines)
    assert any("jit_compile" in one.change for one in loop), "a loop of one's own may be compiled"


@pytest.mark.parametrize("program, own, told", [("keras", False, False), ("keras", True, True), ("loop", False, True)])
def test_what_keras_own_train_function_makes_tensors_of_is_nobodys_to_change(program, own, told, tmp_path):
    python, main = list_steps()
    python += [("convert_to_tensor", 100 * i + 71, 25) for i in range(4)]
    python += [("step", 100 * i, 98, CALL) for i in range(4)]
    found = find(tmp_path, python, main, program, {"own_train_function": own})
    assert any(one.rule == "conversion" for one in found) == told


@pytest.mark.parametrize("rule, own", [("eager", True), ("eager", False), ("short_operations", True)])
def test_a_train_function_of_ones_own_is_compiled_by_itself(rule, own, tmp_path):
    python: list[Any] = [("train", 10_000 * i, 9900, MARK) for i in range(4)]
    main: list[Any] = [("ExecutorState::Process", 10_000 * i, 9000) for i in range(4)]
    if rule == "eager":
        python += [(f"EagerLocalExecute: Mul{k}", 10_000 * i + 400 * k, 390) for i in range(4) for k in range(20)]
        main = [("KernelAndDeviceFunc::Run", 10_000 * i + 400 * k + 5, 80) for i in range(4) for k in range(20)]
    else:
        python += [("step", 10_000 * i, 9900, CALL) for i in range(4)]
    (one,) = [one for one in find(tmp_path, python, main, "keras", {"own_train_function": own}) if one.rule == rule]
    assert ("tf.function" in one.change) == own and ("of compile()" in one.change) != own


@pytest.mark.parametrize("program, start, told", [("loop", 70, True), ("keras", 70, False), ("keras", 90, True)])
def test_that_fit_starts_devices_in_turn_is_nothing_its_user_can_change(program, start, told, tmp_path):
    python, lines = list_replicas(start)
    found = [one for one in find(tmp_path, python, [], program, {"cores": 2}, lines) if one.rule == "straggler"]
    assert bool(found) == told
    late = f"{start / 1000:.3g} ms"
    assert not told or f"replica_1 begins {late} later than the other: the other waits {late}" in found[0].what


def test_the_first_replica_has_a_name_beside_the_second(tmp_path):
    python = [("train", 400 * i, 400, MARK) for i in range(10)]
    first = [("dense/A:MatMul", 400 * i, 300) for i in range(10)]
    second = [("replica_1/dense/A:MatMul", 400 * i, 100) for i in range(10)]
    found = find(tmp_path, python, first, "keras", {"cores": 2}, {"n": second})
    (one,) = [one for one in found if one.rule == "straggler"]
    assert one.what.startswith("CPU replica_0 takes 3 times as long as the other for")


def test_a_callback_of_epochs_is_not_advised_to_run_once_an_epoch(tmp_path):
    python, main = list_steps(5)
    python = [(name, begin, 75, mark) for name, begin, _, mark in python]
    python += [("tfperf.callback:Logs.on_epoch_end", 100 * i + 76, 24) for i in range(5)]
    (one,) = [one for one in find(tmp_path, python, main, "keras") if one.rule == "callback"]
    assert "every few epochs" in one.change and "once an epoch" not in one.change


def test_a_callback_that_mostly_does_nothing_is_told_by_the_steps_in_which_it_does(tmp_path):
    python: list[Any] = [("train", 1000 * i, 100, MARK) for i in range(9)]
    python += [("tfperf.callback:Saver.on_train_batch_end", 1000 * i + 100, 800 if i % 4 == 3 else 2) for i in range(9)]
    main = [("dense/MatMul:MatMul", 1000 * i, 100) for i in range(9)]
    one = find(tmp_path, python, main, "keras")[0]
    assert one.what == "Saver.on_train_batch_end, 0.806 ms each, every 4 steps"


def test_what_the_executor_still_ends_is_no_part_of_the_next_call(tmp_path):
    """Each call begins 10 us before the executor's end of the call before; its first operation comes 30 us later."""
    python: list[Any] = [("train", 100 * i, 95, MARK) for i in range(6)] + [
        ("step", 100 * i, 95, CALL) for i in range(6)
    ]
    main = [("dense/MatMul:MatMul", 100 * i + 30, 50) for i in range(6)]
    late = [("ExecutorDoneCallback", 100 * i + 85, 25) for i in range(6)]
    lines = {"/host:CPU": {"p": us(*python), "m": us(*main), "n": us(*late)}}
    told = parse_notes({"own": True, "optimizers": [], "program": "loop"})
    account = read_attribution(write(tmp_path / "vm.xplane.pb", lines), told).account
    # after the operation 15 us until the call ends, in which the executor ends what it has begun
    assert account.sum("dispatch") == pytest.approx(0.03) and account.sum("between") == pytest.approx(0.015)


def test_what_ends_the_iterator_of_a_validation_is_validation(tmp_path):
    """Of two epochs; each validation of 200 us is followed by 500 in which its iterator is freed."""
    python: list[Any] = [("train", 1000 * i, 100, MARK) for i in range(9)]
    for i in (3, 7):
        python += [("tfperf.validation", 1000 * i + 100, 200), ("TFE_DeleteTensorHandle", 1000 * i + 310, 500)]
        python += [("tfperf.epoch", 1000 * i + 850, 10)]
    main = [("dense/MatMul:MatMul", 1000 * i, 100) for i in range(9)]
    lines = {"/host:CPU": {"p": us(*python), "m": us(*main)}}
    told = parse_notes({"own": True, "optimizers": [], "program": "keras"})
    account = read_attribution(write(tmp_path / "vm.xplane.pb", lines), told).account
    assert account.sum("validation") == pytest.approx(2 * 0.7 / 8)
    assert account.sum("epoch") == pytest.approx(2 * 0.06 / 8)  # what is left from the call to its end


@pytest.mark.parametrize("anew", [False, True])
def test_a_step_that_is_compiled_each_time_is_counted_each_time(tmp_path, anew):
    """XLA calls the programs of one graph the same; a graph that is new has a number of its own."""
    python: list[Any] = [("train", 1000 * i, 990, MARK) for i in range(5)]
    for i in range(5):
        module = {"name": f"a_inference_step_2d_{7 + 10 * i * anew}__XlaMustCompile_true"}
        python += [("step_2d", 1000 * i, 980, XLA_CALL), ("XlaCompiler::Compile", 1000 * i + 10, 800, module)]
    python += [("other", 1000 * 4 + 900, 50, {"tf_function_call": "traced-nonXla"})] * anew
    main = [("dense/MatMul:MatMul", 1000 * i + 900, 50) for i in range(5)]
    one = find(tmp_path, python, main, "loop")[0]
    names, verbs, times = ("step_2d, other", "compiled or traced", 6) if anew else ("step_2d", "compiled", 5)
    assert one.rule == "retracing" and one.what.startswith(f"{names}: {verbs} anew {times} times in 5 steps: ")
    assert ("made anew each time" in one.what, "the same graph" in one.what) == (anew, not anew)


def test_calls_of_other_threads_do_not_cut_a_compilation(tmp_path):
    module = {"name": "a_inference_step_7__XlaMustCompile_true"}
    python: list[Any] = [("train", 1000 * i, 990, MARK) for i in range(5)]
    python += [("step", 1000 * i, 980, XLA_CALL) for i in range(5)]
    python += [("XlaCompiler::Compile", 1000 + 100 * k, 90, module) for k in range(8)]
    actor = [("policy", 1000 + 100 * k + 50, 20, XLA_CALL) for k in range(8)]
    main = [("dense/MatMul:MatMul", 1000 * i + 900, 50) for i in range(5)]
    found = find(tmp_path, python, main, "loop", lines={"n": actor})
    (one,) = [one for one in found if one.rule == "retracing"]
    assert "compiled anew once in 5 steps" in one.what


def test_a_compiled_loop_fetches_each_batch(tmp_path):
    """Two calls of ten steps; a batch that is ready takes 60 us in a loop."""
    python: list[Any] = [("train", 10_000 * i, 9_900, MARK) for i in range(3)]
    main: list[Any] = []
    for i in range(30):
        main += [("while/IteratorGetNext:IteratorGetNext", 1000 * i, 70), ("while/A:MatMul", 1000 * i + 70, 920)]
    found = find(tmp_path, python, main, "loop", {"turns": 10})
    assert not any(one.rule == "input" for one in found)


def test_a_pipeline_in_fit_is_no_pydataset(tmp_path):
    python: list[Any] = [("train", 10_000 * i, 10_000, MARK) for i in range(3)]
    main = [("dense/A:MatMul", 10_000 * i, 3000) for i in range(3)]
    python += [("Iterator::Root", 10_000 * i + 3000, 6000) for i in range(3)]
    for number, (stage, has) in enumerate((("Map", False), ("FlatMap::Generator", True))):
        ahead = {"tf_data_private_threadpool/1": [(f"Iterator::Root::{stage}", 0, 28_000)]}
        one = find(tmp_path / str(number), python, main, "keras", lines=ahead)[0]
        assert one.rule == "input" and ("PyDataset" in one.change) == has


def test_an_assignment_in_a_compiled_function_is_its_update(tmp_path):
    """A step that a loop has compiled by hand, beside 16 operations of its own."""
    python: list[Any] = [("train", 1000 * i, 1000, MARK) for i in range(4)]
    main: list[Any] = []
    for i in range(4):
        python += [(f"EagerLocalExecute: Mul{k}", 1000 * i + 40 * k, 30) for k in range(16)]
        python += [("learn", 1000 * i + 700, 200, CALL)]
        main += [("AssignSubVariableOp:AssignSubVariableOp", 1000 * i + 750, 100)]
    assert not any(
        "whole step" in one.what or "eager execution" in one.what for one in find(tmp_path, python, main, "loop")
    )


def test_operations_are_told_without_what_recording_adds_to_them(tmp_path):
    """A step takes 50 us unrecorded and 100 recorded: what depends on constants takes no more than operations do."""
    python, _ = list_steps()
    main = [("a/A:Transpose", 100 * i, 90) for i in range(4)]
    told = parse_notes({"own": True, "optimizers": [], "program": "loop", "constant": ["a/A"], "recorded_ms": 0.1,
                        "unrecorded_ms": 0.05})  # fmt: skip
    lines = {"/host:CPU": {"p": us(*python), "m": us(*main)}}
    found = read_attribution(write(tmp_path / "vm.xplane.pb", lines), told)
    (one,) = [one for one in list_findings(found) if one.rule == "constants"]
    assert one.gain_ms == pytest.approx(found.account.sum("work")) and one.gain_ms < 0.06


def test_the_average_is_that_of_calls_that_another_follows(tmp_path):
    python = [("train", 100 * i, 100, MARK) for i in range(3)] + [("train", 300, 5000, MARK)]
    main = [("a/A:MatMul", 100 * i, 90) for i in range(3)] + [("a/A:MatMul", 300, 4900)]
    told = parse_notes({"own": True, "optimizers": []})
    found = read_attribution(write(tmp_path / "vm.xplane.pb", {"/host:CPU": {"p": us(*python), "m": us(*main)}}), told)
    assert found.mean_ms == pytest.approx(0.1) == pytest.approx(found.account.period_ms)
    assert found.mean_ms == pytest.approx(float(np.mean(found.periods)))


def test_an_eager_step_can_give_back_its_kernels_too(tmp_path):
    """Of 20 operations one has a long kernel, which a compiled step may do in less time: at most that, too."""
    python: list[Any] = [("train", 2000 * i, 1990, MARK) for i in range(4)]
    main: list[Any] = []
    for i in range(4):
        for k in range(20):
            begin, length = 2000 * i + 50 * k, 900 if k == 19 else 40
            python += [(f"EagerLocalExecute: Mul{k}", begin, length)]
            main += [("KernelAndDeviceFunc::Run", begin + 5, length - 10)]
    (one,) = [one for one in find(tmp_path, python, main, "loop") if one.rule == "eager"]
    assert one.bound_ms > one.gain_ms + 0.8


@pytest.mark.parametrize("start, left", [(100, 100), (3000, 6 * 200)])
def test_a_step_that_calls_a_compiled_function_already_has_its_start_to_pay(start, left, tmp_path):
    """Twenty operations of 200 us before the call, whose start takes less or more than six of them."""
    python: list[Any] = []
    main: list[Any] = []
    for i in range(4):
        begin = 10_000 * i
        python += [("train", begin, 9900, MARK), ("score", begin + 4000, start + 50, CALL)]
        python += [(f"EagerLocalExecute: Mul{k}", begin + 200 * k, 200) for k in range(20)]
        main += [("KernelAndDeviceFunc::Run", begin + 200 * k + 10, 180) for k in range(20)]
        main += [("a/A:MatMul", begin + 4000 + start, 50)]
    (one,) = [one for one in find(tmp_path, python, main, "loop") if one.rule == "eager"]
    assert 1e3 * (one.ms - one.gain_ms) == pytest.approx(left, rel=0.2)


def test_the_longest_stage_is_named_and_its_time_where_it_explains_the_wait(tmp_path):
    python: list[Any] = [("train", 10_000 * i, 10_000, MARK) for i in range(3)]
    main = [("dense/A:MatMul", 10_000 * i, 3000) for i in range(3)]
    python += [("Iterator::Root", 10_000 * i + 3000, 6000) for i in range(3)]
    for number, (length, told) in enumerate(
        ((12_000, "stage Map of the pipeline takes 4"), (300, "the longest stage"))
    ):
        ahead = {"tf_data_private_threadpool/1": [("Iterator::Root::Map", 0, length)]}
        assert told in find(tmp_path / str(number), python, main, "loop", lines=ahead)[0].what
