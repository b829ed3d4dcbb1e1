"""What a profile says should be changed."""

from typing import Any, get_args

import pytest

from tests.trace.profiles import us, write
from tfperf.trace.attribution import read_attribution
from tfperf.trace.findings import RULES, list_findings
from tfperf.trace.notes import ProgramKind, parse_notes
from tfperf.trace.phases import PHASES
from tfperf.workloads.registry import WORKLOADS

MARK, CALL = {"step_num": 0}, {"tf_function_call": "notTraced-nonXla"}


def find(path, python, main, program="engine", notes=(), lines=(), **planes):
    lines = {"p": us(*python), "m": us(*main), **{name: us(*events) for name, events in dict(lines).items()}}
    told = parse_notes({"own": True, "optimizers": ["adam"], "program": program} | dict(notes))
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
def test_calls_that_cost_name_the_key_that_makes_them_longer(tmp_path, program, words):
    python: list[Any] = [("train", 100 * i, 100, MARK) for i in range(4)]
    main = [("dense/MatMul:MatMul", 100 * i + 10, 60) for i in range(4)]
    (one,) = find(tmp_path, python, main, program)
    assert one.rule == "calls" and words in one.change
    assert one.ms == pytest.approx(0.04) and one.gain_ms == pytest.approx(0.04 * 15 / 16)
    assert one.share == pytest.approx(0.4 * 15 / 16)


def test_calls_that_are_shorter_while_they_are_recorded_cost_a_training_less(tmp_path):
    python = [("train", 100 * i, 100, MARK) for i in range(4)]
    main = [("dense/MatMul:MatMul", 100 * i + 10, 60) for i in range(4)]
    (one,) = find(tmp_path, python, main, "card", {"usual_turns": 4})
    assert "each call takes 0.04 ms" in one.what and one.ms == pytest.approx(0.01)


def test_calls_are_no_longer_than_epochs(tmp_path):
    python = [("train", 100 * i, 100, MARK) for i in range(4)]
    main = [("dense/MatMul:MatMul", 100 * i + 10, 60) for i in range(4)]
    (one,) = find(tmp_path, python, main, "keras", {"calls_per_epoch": 4})
    assert one.gain_ms == one.bound_ms == pytest.approx(0.04 * 3 / 4)
    assert find(tmp_path, python, main, "keras", {"calls_per_epoch": 1}) == []
    usual = {"turns": 1, "usual_turns": 2, "calls_per_epoch": 8.0}  # of the recorded calls, which have one step each
    (one,) = find(tmp_path, python, main, "card", usual)
    assert one.gain_ms == one.bound_ms == pytest.approx(0.02 * 3 / 4)
    assert find(tmp_path, python, main, "card", usual | {"calls_per_epoch": 1.5}) == []


def test_a_step_without_waste_has_no_findings(tmp_path):
    python: list[Any] = [("train", 100 * i, 100, MARK) for i in range(4)]
    assert find(tmp_path, python, [("dense/MatMul:MatMul", 100 * i + 1, 98) for i in range(4)]) == []


def test_validation_between_steps_and_constant_work_are_told_by_share(tmp_path):
    python: list[Any] = [("train", 100 * i, 60, MARK) for i in range(4)] + [
        ("tfperf.validation", 100 * i + 60, 40) for i in range(4)
    ]
    main = [
        operation for i in range(4) for operation in (
            ("dense/MatMul:MatMul", 100 * i, 40), ("tables/transpose:Transpose", 100 * i + 40, 20),
            ("dense/MatMul:MatMul", 100 * i + 60, 40),
        )
    ]  # fmt: skip
    first, second = find(tmp_path, python, main, "keras", {"constant": ["tables/transpose"]})
    assert first.rule == "validation" and first.share == pytest.approx(0.4) and "validation_freq" in first.change
    assert second.rule == "constants" and second.gain_ms == pytest.approx(0.02) and "(tables)" in second.what


def test_constant_work_beside_other_operations_gives_nothing_back(tmp_path):
    """What runs at the same time as others costs nothing; at most all of it would be given back."""
    python: list[Any] = [("train", 100 * i, 100, MARK) for i in range(4)]
    main = [("dense/MatMul:MatMul", 100 * i, 90) for i in range(4)]
    beside = [("tables/transpose:Transpose", 100 * i + 50, 50) for i in range(4)]
    (one,) = find(tmp_path, python, main, notes={"constant": ["tables/transpose"]}, lines={"n": beside})
    assert one.gain_ms == pytest.approx(0.01) and one.bound_ms == pytest.approx(0.05)


def test_short_operations_with_holes_between_are_told(tmp_path):
    python: list[Any] = [("train", 0, 1000, MARK)]
    kernels = [(f"dense/Mul_{i}:Mul", 20 * i, 5) for i in range(50)]
    (one,) = find(tmp_path, python, kernels)
    assert one.rule == "short_operations" and "engine.xla" in one.change
    assert one.bound_ms == pytest.approx(0.735 + 0.25)  # 49 holes of 15 us, and 50 operations that do hardly anything
    assert one.gain_ms == pytest.approx(0.9 * 0.985 - 0.03)  # less what a program of XLA takes to be started


def test_of_a_call_in_which_little_is_recorded_operations_are_too_short(tmp_path):
    """The executor runs from 100 to 900 us, an operation that is long enough to be recorded for 200 of them."""
    python: list[Any] = [("train", 1000 * i, 1000, MARK) for i in range(4)] + [
        ("step", 1000 * i, 1000, CALL) for i in range(4)
    ]
    main: list[Any] = [("ExecutorState::Process", 1000 * i + 100, 800) for i in range(4)]
    main += [("a/A:MatMul", 1000 * i + 400, 200) for i in range(4)]
    first, _ = find(tmp_path, python, main, "loop")
    assert first.rule == "short_operations" and "too short to be recorded" in first.what
    assert first.bound_ms == pytest.approx(0.6)


def test_many_calls_a_step_are_told_with_what_they_start(tmp_path):
    """Ten calls of 40 us, of which an operation has 10 and the executor 15 beside it."""
    python: list[Any] = [("train", 500 * i, 500, MARK) for i in range(3)]
    python += [("act", 500 * i + 50 * k, 40, CALL) for i in range(3) for k in range(10)]
    main: list[Any] = [("ExecutorState::Process", 500 * i + 50 * k + 5, 25) for i in range(3) for k in range(10)]
    main += [("a/A:MatMul", 500 * i + 50 * k + 10, 10) for i in range(3) for k in range(10)]
    (one,) = [one for one in find(tmp_path, python, main, "loop") if one.rule == "calls"]
    assert "calls of compiled functions a step" in one.what and "one tf.function" in one.change
    assert one.ms == pytest.approx(10 * 0.03, rel=0.02) and one.gain_ms == pytest.approx(9 * 0.03, rel=0.03)


def test_waiting_for_input_inside_steps_is_told(tmp_path):
    python: list[Any] = [("train", 0, 10_000, MARK), ("Iterator::Root", 3000, 4000)]
    stages = [("Iterator::Root::Prefetch::Map", 3000, 3900), ("Iterator::Root::Prefetch::Map::Slices", 3100, 800)]
    main = [("dense/A:MatMul", 0, 3000), ("dense/B:MatMul", 7000, 3000)]
    (one,) = find(tmp_path, python, main, "loop", lines={"tf_data_private_threadpool/1": stages})
    assert one.ms == pytest.approx(4) and one.gain_ms == pytest.approx(3.85)  # a batch that is ready is fetched, too
    assert "prefetch" in one.change and "Prefetch::Map of the pipeline takes 3.1 ms" in one.what


def test_a_datasets_iterator_that_is_made_is_an_epochs_begin(tmp_path):
    python: list[Any] = [("train", 100 * i, 50, MARK) for i in range(4)]
    python += [("EagerLocalExecute: MakeIterator", 100 * i + 60, 30) for i in range(4)]
    main = [("dense/MatMul:MatMul", 100 * i, 50) for i in range(4)]
    (one,) = find(tmp_path, python, main, "keras")
    assert one.rule == "epoch" and one.gain_ms == pytest.approx(0.03) and "steps_per_epoch" in one.change
    assert one.what.startswith("a pass over the data ends and another begins")


def test_copies_of_devices_at_the_same_time_are_not_added_up(tmp_path):
    copies = [("MemcpyH2D", 0, 30, {"memcpy_details": "size:100"}), ("sgemm", 30, 70, {"tf_op": "dense/MatMul:MatMul"})]
    planes = {f"/device:GPU:{i}": {"Stream #1": us(*copies)} for i in range(4)}
    found = find(tmp_path, [("train", 0, 100, MARK)], [], **planes)
    assert found[0].rule == "copies" and found[0].share == pytest.approx(0.3)
    assert sum(one.share for one in found) <= 1


def test_short_launches_on_the_host_do_not_make_long_kernels_launch_bound(tmp_path):
    kernels = [("sgemm", 100 * i, 30, {"tf_op": "dense/MatMul:MatMul"}) for i in range(10)]
    launches = [("dense/MatMul:MatMul", 100 * i, 1) for i in range(10)]
    planes = {"/device:GPU:0": {"Stream #1": us(*kernels)}}
    assert find(tmp_path, [("train", 0, 1000, MARK)], launches, **planes) == []


def test_callbacks_are_told_by_class(tmp_path):
    python: list[Any] = [("train", 100 * i, 40, MARK) for i in range(5)]
    python += [("tfperf.callback:Logs.on_train_batch_end", 100 * i + 40, 30) for i in range(5)]
    python += [("tfperf.callback:ModelCheckpoint.on_train_batch_end", 100 * i + 70, 28) for i in range(0, 5, 2)]
    main = [("dense/MatMul:MatMul", 100 * i, 40) for i in range(5)]
    logs, saving = find(tmp_path, python, main, "keras")
    assert logs.what == "Logs.on_train_batch_end, 0.03 ms each, each step" and logs.gain_ms == pytest.approx(0.03)
    assert saving.what == "ModelCheckpoint.on_train_batch_end, 0.028 ms each, every 2 steps"
    assert "save_weights_only" in saving.change


def test_what_traces_again_is_told_with_its_cause_and_never_as_calls(tmp_path):
    traced = {"tf_function_call": "traced-nonXla"}
    python: list[Any] = [("train", 100 * i, 90, MARK) for i in range(4)] + [
        ("step", 100 * i, 80, traced) for i in range(4)
    ]
    main = [("dense/MatMul:MatMul", 100 * i + 50, 20) for i in range(4)]
    notes = {"traces": [{"function": "step", "cause": "new shape of x: (3,), was (2,)"}] * 4}
    (one,) = find(tmp_path, python, main, "loop", notes)
    assert one.rule == "retracing" and "new shape of x: (3,), was (2,)" in one.what
    assert one.gain_ms == pytest.approx(0.06)


def test_what_is_traced_without_a_name_is_told_without_a_count(tmp_path):
    """As the functions of a pipeline that a step makes."""
    python: list[Any] = [("train", 100 * i, 90, MARK) for i in range(4)]
    python += [("tf.function-graph_building", 100 * i + 10, 40) for i in range(4)]
    main = [("dense/MatMul:MatMul", 100 * i + 50, 40) for i in range(4)]
    (one,) = [one for one in find(tmp_path, python, main, "loop") if one.rule == "retracing"]
    assert one.what.endswith("does not tell which") and one.ms == pytest.approx(0.04)


def test_eager_steps_are_told_and_their_lines_are_not(tmp_path):
    python: list[Any] = [("train", 20_000 * i, 20_000, MARK) for i in range(3)]
    for i in range(3):
        for k in range(20):
            python += [("EagerLocalExecute: MatMul", 20_000 * i + 1000 * k, 800),
                       ("KernelAndDeviceFunc::Run", 20_000 * i + 1000 * k + 200, 400)]  # fmt: skip
    looks = {"s": [("tfperf.at:train.py:3 in step by TensorFlow", 1000 * t + 905, 1) for t in range(50)]}
    (one,) = find(tmp_path, python, [], "loop", lines=looks)
    assert one.rule == "eager" and "20 operations" in one.what and "tf.function" in one.change
    assert one.ms == pytest.approx(20 * (0.6 + 0.2))  # all but the kernels, and what is no work of those
    assert one.gain_ms == pytest.approx(0.8 * (20 - 6))  # a compiled call takes as long to be started as six


def test_lines_of_a_function_are_one_finding(tmp_path):
    python: list[Any] = [("train", 200 * i, 190, MARK) for i in range(3)] + [
        ("step", 200 * i, 40, CALL) for i in range(3)
    ]
    main = [("a/A:MatMul", 200 * i, 40) for i in range(3)]
    looks = [(f"tfperf.at:train.py:{3 + k // 3} in score", 60 + 30 * k, 1) for k in range(4)]
    (one,) = find(tmp_path, python, main, "loop", lines={"s": looks})
    assert one.rule == "python" and "train.py:3, in score" in one.what and one.gain_ms == pytest.approx(0.16)


@pytest.mark.parametrize("by, rule", [(" by TensorFlow", "eager"), ("", "python")])
def test_operations_that_a_function_starts_beside_the_compiled_step_are_eager(by, rule, tmp_path):
    """Of 10 ms the call has two; in the rest a function starts 20 operations, or does as much by itself."""
    python: list[Any] = [("train", 10_000 * i, 10_000, MARK) for i in range(3)] + [
        ("step", 10_000 * i, 2000, CALL) for i in range(3)
    ]
    main = [("gradient_tape/a/A:MatMul", 10_000 * i, 2000) for i in range(3)]
    for i in range(3):
        for k in range(20):
            python += [("EagerLocalExecute: MatMul", 10_000 * i + 2000 + 400 * k, 100),
                       ("KernelAndDeviceFunc::Run", 10_000 * i + 2050 + 400 * k, 40)]  # fmt: skip
    looks = [(f"tfperf.at:train.py:{3 + k % 2} in search{by}", 2150 + 400 * k, 1) for k in range(20)]
    looks += [("tfperf.at:train.py:3 in search", 2020 + 400 * k, 1) for k in range(20)]  # while operations start
    every = find(tmp_path, python, main, "loop", lines={"s": looks})
    (one,) = [one for one in every if one.rule in ("eager", "python")]
    assert one.rule == rule and "train.py:3" in one.what and "search" in one.what
    assert one.ms == pytest.approx(8 - 0.8, rel=0.01)  # the operations' own work is left


def test_a_replica_that_the_others_wait_for_is_told(tmp_path):
    python: list[Any] = [("train", 100 * i, 100, MARK) for i in range(6)]
    main = [("dense/A:MatMul", 100 * i, 20) for i in range(6)]
    other = [("replica_1/dense/A:MatMul", 100 * i, 90) for i in range(6)]
    first, *_ = find(tmp_path, python, main, "loop", lines={"n": other})
    assert first.rule == "straggler" and "CPU replica_1 takes 4.5 times" in first.what
    assert first.gain_ms == pytest.approx(0.035) and first.bound_ms == pytest.approx(0.07)  # evenly: 55 each


def test_updates_of_whole_tables_are_told(tmp_path):
    python: list[Any] = [("train", 100 * i, 100, MARK) for i in range(3)]
    main = [e for i in range(3) for e in (("dense/A:MatMul", 100 * i, 30), ("adam/Mul:Mul", 100 * i + 30, 65))]
    (one,) = find(tmp_path, python, main, "keras", {"table_updates": [["adam/Mul", "words"]]})
    assert one.rule == "table_update" and "words" in one.what and one.gain_ms == pytest.approx(0.065)


def test_no_finding_can_give_back_more_than_a_step(tmp_path):
    """Two threads, each of which works for most of a step, work longer than that together."""
    python: list[Any] = [("train", 100 * i, 100, MARK) for i in range(4)]
    main, other = ([(f"adam/{name}:Mul", 100 * i, 95) for i in range(4)] for name in ("Mul", "Mul_1"))
    notes = {"table_updates": [["adam/Mul", "words"], ["adam/Mul_1", "words"]]}
    (one,) = find(tmp_path, python, main, "keras", notes, lines={"n": other})
    assert one.gain_ms == pytest.approx(0.095) and one.bound_ms == pytest.approx(0.1)


def test_findings_add_up_to_no_more_than_a_step(tmp_path):
    python: list[Any] = [("train", 100 * i, 90, MARK) for i in range(3)] + [
        ("tfperf.validation", 100 * i, 100) for i in range(3)
    ]
    main = [("dense/A:MatMul", 100 * i, 60) for i in range(3)]
    found = find(tmp_path, python, main, "keras", {"constant": ["dense/A"]})
    assert sum(one.share for one in found) <= 1 + 1e-9


def test_what_recording_itself_may_have_caused_is_left_out(tmp_path):
    python = [("train", 100 * i, 99, MARK) for i in range(4)]
    main = [("dense/MatMul:MatMul", 100 * i + 10, 60) for i in range(4)]
    for unrecorded, rules in ((0.098, ["calls"]), (0.03, [])):
        notes = {"recorded_ms": 0.1, "unrecorded_ms": unrecorded}
        assert [one.rule for one in find(tmp_path, python, main, "loop", notes)] == rules
    constant = {"recorded_ms": 0.1, "unrecorded_ms": 0.05, "constant": ["dense/MatMul"]}
    (one,) = [one for one in find(tmp_path, python, main, "loop", constant) if one.rule == "constants"]
    assert one.gain_ms < 0.04 < 0.06, "what slows a whole step slowed that, too"


def test_each_rule_has_a_change_for_each_kind_of_program_and_an_example():
    assert len({rule.name for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert set(rule.changes) == {*get_args(ProgramKind)} and rule.before != rule.after


def test_the_key_of_a_rule_stands_in_its_change_and_leaves_results_as_they_are():
    safe = {key for name in WORKLOADS.list_names() for key in WORKLOADS.get_kind(name).performance_keys}
    keyed = [(rule, kind, key) for rule in RULES for kind, key in rule.keys.items()]
    assert {key for _, _, key in keyed} == {"train.steps_per_call", "engine.xla"}
    for rule, kind, key in keyed:
        assert key in rule.changes[kind] and key in safe


def test_a_trace_of_jax_is_told_in_its_words(tmp_path):
    python: list[Any] = [("train", 100 * i, 99, MARK) for i in range(4)]
    names = ("jit(step)/jvp(Dense_0)/dot_general", "jit(step)/transpose(jvp(Dense_0))/dot_general")
    modules = {"jit_step": [("dot.1", "dot", names[0], []), ("dot.2", "dot", names[1], [])]}
    main = [event for i in range(4) for event in (("dot.1", 100 * i + 20, 20), ("dot.2", 100 * i + 40, 20))]
    stats = {"hlo_module": "jit_step"}
    lines = {"p": us(*python), "m": us(*((*event, stats) for event in main))}
    found = read_attribution(write(tmp_path / "vm.xplane.pb", {"/host:CPU": lines}, modules))
    busy = dict(zip(PHASES, found.busy["CPU"].mean(axis=0).tolist(), strict=True))
    assert busy["forward"] == busy["backward"] == pytest.approx(0.02)
    (one,) = list_findings(found)
    assert one.rule == "calls" and "jax.lax.scan" in one.change
