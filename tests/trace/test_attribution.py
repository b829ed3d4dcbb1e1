"""Times of profiles made by hand, which were worked out by hand, too."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.trace.profiles import us, write
from tfperf.errors import TraceError
from tfperf.trace.attribution import read_attribution
from tfperf.trace.notes import parse_notes
from tfperf.trace.phases import PHASES

RULES = parse_notes({"own": True, "optimizers": ["adam"]})
MARK = {"step_num": 0, "_r": 1}


def get_ms(attribution, device, phase):
    """ms of each step."""
    return attribution.busy[device][:, PHASES.index(phase)].round(9).tolist()


def one_step(begin):
    """A turn of a loop, 100 us long, on two threads: (main, pool)."""
    main = [
        ("while/dense/MatMul:MatMul", begin, 20), ("gradient_tape/while/dense/MatMul:MatMul", begin + 25, 30),
        ("while/adam/Mul:Mul", begin + 70, 10),
    ]  # fmt: skip
    pool = [
        ("while/dense/Tanh:Tanh", begin + 10, 20),  # 10 beside the product, 10 after it
        ("gradient_tape/while/dense/TanhGrad:TanhGrad", begin + 50, 10),  # 5 beside the other, 5 alone
        ("while/Less:Less", begin + 90, 10),
    ]
    return main, pool


@pytest.fixture
def looped(tmp_path):
    """Two calls of three steps and, 250 us later, of three more; containers and strangers between."""
    python, main, pool = [], [], []
    for call in (0, 560):
        python.append(("train", call, 320, MARK))
        main.append(("while:While", call + 5, 305))
        for turn in range(3):
            ours, theirs = one_step(call + 10 + 100 * turn)
            main, pool = main + ours, pool + theirs
    pool.append(("Stranger", 400, 50))
    return write(tmp_path / "vm.xplane.pb", {"/host:CPU": {"python": us(*python), "a": us(*main), "b": us(*pool)}})


def test_steps_are_turns_of_the_loop(looped):
    found = read_attribution(looped, RULES)
    np.testing.assert_allclose(found.steps, [0.1] * 6)
    assert found.calls == 2 and found.gaps.tolist() == [0.26]  # 310 to 570


def test_phases_are_unions_of_intervals(looped):
    found = read_attribution(looped, RULES)
    assert get_ms(found, "CPU", "forward") == [0.03] * 6  # not 40: two threads at once
    assert get_ms(found, "CPU", "backward") == [0.035] * 6
    assert get_ms(found, "CPU", "update") == [0.01] * 6
    assert get_ms(found, "CPU", "other") == [0.01] * 6
    # 30 + 35 less the 5 in which forward and backward overlap, and 20
    np.testing.assert_allclose(found.any["CPU"], [0.08] * 6)


def test_shares_are_of_the_operations_time(looped):
    found = read_attribution(looped, RULES)
    assert found.compute_share(unknown=True) == pytest.approx(10 / 100) and found.compute_share(unknown=False) == 0
    first = found.costs[0]
    assert (first.name, first.phase, first.count) == ("gradient_tape/while/dense/MatMul:MatMul", "backward", 1)
    assert first.ms == pytest.approx(0.03)


def test_streams_of_a_device_count_together_and_apart_from_the_host(tmp_path):
    planes = {
        "/host:CPU": {"python": us(("train", 0, 100, MARK)), "a": us(("x/Mul:Mul", 0, 10))},
        "/device:GPU:0": {
            "Stream #1": us(("dense/MatMul:MatMul", 10, 40), ("adam/Mul:Mul", 60, 10)),
            "Stream #2": us(("sum/NcclAllReduce:NcclAllReduce", 40, 40)),
        },
        "/device:GPU:1": {"Stream #1": us(("dense/MatMul:MatMul", 20, 10))},
    }
    found = read_attribution(write(tmp_path / "vm.xplane.pb", planes), RULES)
    assert set(found.busy) == {"CPU", "GPU:0", "GPU:1"}
    assert get_ms(found, "GPU:0", "merge") == [0.04] and get_ms(found, "GPU:0", "forward") == [0.04]
    assert found.any["GPU:0"].tolist() == [0.07] and found.any["GPU:1"].tolist() == [0.01]
    assert found.steps.tolist() == [0.08]  # from the first operation to the end of the last


def test_calls_without_loop_are_steps(tmp_path):
    python = [("step", 100 * i, 60, MARK) for i in range(4)]
    main = [(name, 100 * i + 10 + k, 5) for i in range(4) for k, name in enumerate(("a/Mul:Mul", "b/Add:Add"))]
    found = read_attribution(write(tmp_path / "vm.xplane.pb", {"/host:CPU": {"p": us(*python), "m": us(*main)}}), RULES)
    np.testing.assert_allclose(found.steps, [0.006] * 4)
    np.testing.assert_allclose(found.gaps, [0.094] * 3)


def test_times_stay_exact_where_a_call_has_no_operations(tmp_path):
    """As nanoseconds since 1970 they need all of 61 bits."""
    start = 1_795_287_599_816_909_001
    lines = {
        "p": (start, [("s", 0, 100_000, MARK), ("s", 200_000, 100_000, MARK), ("s", 400_000, 100_000, MARK)]),
        "m": (start, [("d/A:A", 1_000, 7_000, {}), ("d/A:A", 401_000, 9_000, {})]),
    }
    found = read_attribution(write(tmp_path / "vm.xplane.pb", {"/host:CPU": lines}), RULES)
    np.testing.assert_array_equal(found.steps, [7e-6, 9e-6])
    np.testing.assert_allclose(found.gaps, [393e-6], rtol=1e-12)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damaged_profiles_are_attributed_or_refused(looped, data):
    content = bytearray(looped.read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = looped.parent / "damaged.xplane.pb"
    path.write_bytes(content[: data.draw(st.integers(len(content) // 2, len(content)))])
    try:
        found = read_attribution(path, RULES)
    except TraceError as error:
        assert str(error)
    else:
        assert all(np.isfinite(busy).all() for busy in found.busy.values())


@pytest.mark.parametrize(
    "lines, message",
    [
        ({"a": us(("x/Mul:Mul", 0, 10))}, "nothing tells where a step begins"),
        ({"python": us(("train", 0, 100, MARK)), "a": us(("x/Mul:Mul", 200, 10))}, "no operation lies in a step"),
        ({}, "nothing tells where a step begins"),
    ],
)
def test_a_profile_without_steps_or_operations_says_why(tmp_path, lines, message):
    with pytest.raises(TraceError, match=message):
        read_attribution(write(tmp_path / "vm.xplane.pb", {"/host:CPU": lines}), RULES)


def test_loops_side_by_side_take_their_steps_together(tmp_path):
    """Two threads with a loop each; what runs twice after the loops is no turn."""
    one = [("while/a/Mul:Mul", 10 + 20 * i, 10) for i in range(4)] + [("b/Add:Add", 90 + 2 * i, 1) for i in range(2)]
    other = [("while/a/Mul:Mul", 13 + 20 * i, 10) for i in range(4)]
    lines = {"p": us(("s", 0, 100, MARK)), "m": us(*one), "n": us(*other)}
    path = write(tmp_path / "vm.xplane.pb", {"/host:CPU": lines})
    np.testing.assert_allclose(read_attribution(path, replace(RULES, loops=2)).steps, [0.02] * 3 + [0.013])
    assert len(read_attribution(path, RULES).steps) == 8


@pytest.mark.parametrize(("rest", "steps"), [(20, [0.08]), (5, [0.02] * 3)])
def test_turns_without_an_update_are_steps_where_they_take_nearly_all_of_a_call(tmp_path, rest, steps):
    """A layer over time takes 60 us beside 20 of other work, an evaluation in a loop beside 5."""
    main = [("while/cell/MatMul:MatMul", 20 * i, 20) for i in range(3)] + [("dense/MatMul:MatMul", 60, rest)]
    lines = {"p": us(("s", 0, 100, MARK)), "m": us(*main)}
    found = read_attribution(write(tmp_path / "vm.xplane.pb", {"/host:CPU": lines}), RULES)
    np.testing.assert_allclose(found.steps, steps)


def test_an_operation_that_is_held_up_once_hides_no_step(tmp_path):
    """Of four calls of two turns one has an operation beside its loop that waited for a processor, 20 turns long."""
    python, main = [], []
    for call, late in enumerate((0, 400, 0, 0)):
        begin = 1000 * call
        python.append(("s", begin, 900, MARK))
        main += [("dense/Cast:Cast", begin + 10, 5 + late)]
        main += [(f"while/{op}", begin + 500 + 20 * t, 10) for t in range(2) for op in ("a/Mul:Mul", "adam/Add:Add")]
    path = write(tmp_path / "vm.xplane.pb", {"/host:CPU": {"p": us(*python), "m": us(*main)}})
    assert np.bincount(read_attribution(path, RULES).call).tolist() == [2] * 4


def test_what_runs_before_and_after_the_loop_begins_no_step(tmp_path):
    """The same operation as in the loop, once for the weights before and once for those after it."""
    turns = [e for i in range(3) for e in (("dense/MatMul:MatMul", 20 + 20 * i, 10), ("adam/Mul:Mul", 30 + 20 * i, 8))]
    main = [("dense/MatMul:MatMul", 2, 10), ("while:While", 18, 62), *turns, ("dense/MatMul:MatMul", 85, 10)]
    lines = {"p": us(("s", 0, 100, MARK)), "m": us(*main)}
    found = read_attribution(write(tmp_path / "vm.xplane.pb", {"/host:CPU": lines}), RULES)
    np.testing.assert_allclose(found.steps, [0.02, 0.02, 0.018])


def test_what_a_datasets_threads_do_is_input_beside_the_steps(tmp_path):
    """They decide neither where steps begin nor what a step waits for."""
    main = [("dense/MatMul:MatMul", 100 * i + 20, 40) for i in range(2)]
    feeds = [("dense/Parse:MatMul", 100 * i + 5, 50) for i in range(2)]
    lines = {"p": us(*(("train", 100 * i, 80, MARK) for i in range(2))), "m": us(*main), "tf_data_x/1": us(*feeds)}
    found = read_attribution(write(tmp_path / "vm.xplane.pb", {"/host:CPU": lines}), RULES)
    assert found.steps.tolist() == [0.04] * 2
    assert get_ms(found, "CPU", "input") == [0.035] * 2 and get_ms(found, "CPU", "forward") == [0.04] * 2
    assert found.account.sum("input") == 0


def test_a_step_waits_while_nothing_but_input_goes_on(tmp_path):
    main = [("IteratorGetNext:IteratorGetNext", 10, 40), ("dense/MatMul:MatMul", 60, 10)]
    lines = {"p": us(("train", 0, 80, MARK)), "m": us(*main), "n": us(("adam/Mul:Mul", 40, 5))}
    found = read_attribution(write(tmp_path / "vm.xplane.pb", {"/host:CPU": lines}), RULES)
    assert found.account.sum("input") == pytest.approx(0.035)


def test_shares_are_those_of_steps_and_not_of_what_lies_between(tmp_path):
    python = [("train", 100 * i, 40, MARK) for i in range(2)]
    main = [("dense/MatMul:MatMul", 10, 20), ("Strange:Mul", 60, 20), ("dense/MatMul:MatMul", 110, 20)]
    lines = {"p": us(*python), "m": us(*main)}
    found = read_attribution(write(tmp_path / "vm.xplane.pb", {"/host:CPU": lines}), RULES)
    assert found.compute_share(unknown=True) == 0
    assert {one.name: one.ms for one in found.account.list("work")}["other"] == pytest.approx(0.02)


def test_what_the_profiler_says_it_lost_is_a_problem(tmp_path):
    lines = {"p": us(("train", 0, 80, MARK)), "m": us(("dense/MatMul:MatMul", 10, 20))}
    path = write(tmp_path / "vm.xplane.pb", {"/host:CPU": lines}, warnings=["7 events were dropped"])
    assert read_attribution(path, RULES).problems == ("7 events were dropped",)
