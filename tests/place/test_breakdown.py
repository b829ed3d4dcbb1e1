"""Where the time of a step goes, from runs made by hand."""

from dataclasses import replace

import numpy as np
import pytest

from tests.trace.graphs import events, join_nodes, node
from tests.trace.profiles import us, write
from tfperf.place.breakdown import COURSE, break_down, summarise
from tfperf.place.devices import Devices
from tfperf.trace.notes import Notes
from tfperf.trace.operations import find_operations
from tfperf.trace.planes import MARK

CPU = "/job:localhost/replica:0/task:0/device:CPU:{}"
TWO = Devices(CPU.format(0), (CPU.format(1), CPU.format(2)), logical=True)
ONE = Devices(CPU.format(0), (CPU.format(1),), logical=True)
NOTES = Notes(own=True, optimizers=("optimizer",), turns=1)
MS = 1_000_000
A, B = "while/tower_0/tfperf.forward/a", "gradient_tape/while/tower_0/tfperf.forward/b"
C, D = "while/tower_1/tfperf.forward/c", "gradient_tape/while/tower_1/tfperf.forward/d"
M, U, V = "tfperf.merge/m", "tfperf.update/u", "tfperf.update/v"
GRAPH = join_nodes([
    node(A, device=1), node(B, A, device=1), node(C, device=2), node(D, C, device=2), node(M, B, D),
    node(U, M, device=1), node(V, M, device=2),
])  # fmt: skip
# two devices' passes, their sum on the host, and an update on each; the second device is the first to end its passes
ROWS = [
    (A, 2, 20, 0), (B, 20, 50, 0), (C, 5, 15, 1), (D, 15, 30, 1), (M, 52, 60, 1), (U, 60, 70, 0), (V, 61, 75, 1),
]  # fmt: skip


def found(rows=ROWS, graph=GRAPH, steps=((0, 80),), devices=TWO, skip=0):
    """What is told of operations (name, begin ms, end ms, lane) in calls of one step each."""
    marks = [("step", begin, end, 9) for begin, end in steps]
    every = [(name, begin * MS, end * MS, lane) for name, begin, end, lane in [*marks, *rows]]
    one = events(graph, *every, stats={MARK: (np.arange(len(steps)), tuple(range(len(steps))))})
    return summarise(one, find_operations(one, {}), NOTES, graph, devices, skip)


def whole(one):
    """What a device's parts add up to."""
    return sum(one["busy"].values()) - one["overlap"] + one["waiting"]


def test_each_device_is_busy_with_phases_and_waits_for_named_others():
    told = found()
    first, second, host = (told["devices"][name] for name in ("device:0", "device:1", "host"))
    assert {k: v for k, v in first["busy"].items() if v} == {"forward": 18.0, "backward": 30.0, "update": 10.0}
    assert first["waits"] == {"merge": 8.0, "host": 7.0, "update": 5.0, "runtime": 2.0}
    assert second["waits"] == {"passes": 20.0, "host": 10.0, "merge": 8.0, "runtime": 3.0}
    assert host["busy"]["merge"] == 8.0 and host["waits"]["passes"] == 48.0
    assert [whole(one) for one in (first, second, host)] == [80.0] * 3
    assert told["unattributed"] == 0 and told["step_ms"] == 80.0
    assert told["mean"] == {"forward": 14.0, "backward": 22.5}
    assert told["imbalance"] == pytest.approx(48 / 36.5)


def test_the_longest_chain_goes_over_devices():
    chain = found()["critical"]
    assert (chain["ms"], chain["share"], chain["operations"]) == (70.0, 70 / 80, 4)
    assert chain["phases"] == {"forward": 18.0, "backward": 30.0, "merge": 8.0, "update": 14.0}
    assert chain["devices"] == {"device:0": 48.0, "host": 8.0, "device:1": 14.0}
    assert chain["kinds"] == {"MatMul": 70.0, "others": 0} and chain["loops_ms"] == 0.0


@pytest.mark.parametrize("kind", ["BlockLSTMV2", "CudnnRNNV3"])
def test_an_operation_that_takes_all_steps_of_a_layer_is_the_chain(kind):
    told = found(ROWS[:2], join_nodes([node(A, kind=kind, device=1), node(B, A, device=1)]), ((0, 60),), ONE)
    assert (told["course"]["chain"], told["course"]["computation"]) == (18.0, 30.0)
    assert told["critical"]["loops_ms"] == 18.0


def test_the_way_to_the_end_of_a_step_adds_up_to_it():
    course = found()["course"]
    assert set(course) == set(COURSE) and sum(course.values()) == 80.0
    assert {k: v for k, v in course.items() if v} == {
        "computation": 48.0, "update": 14.0, "merge": 8.0, "host": 7.0, "runtime": 3.0
    }  # fmt: skip


def test_phases_that_run_at_once_are_told_apart():
    early = "tfperf.update/early"
    graph = join_nodes([*GRAPH.nodes, node(early, A, device=1)])
    one = found([*ROWS, (early, 25, 35, 2)], graph)["devices"]["device:0"]
    assert one["overlaps"] == {"backward + update": 10.0} and one["overlap"] == 10.0
    assert one["busy"]["update"] == 20.0 and whole(one) == 80.0


def test_a_device_whose_operations_are_ready_waits_for_a_core():
    # the second device's pass is ready at once, but its thread runs the first one's
    read = "tfperf.transfer/read"
    graph = join_nodes([node(read), node(A, read, device=1), node(C, read, device=2), node(D, C, device=2)])
    told = found([(read, 0, 2, 0), (A, 2, 30, 0), (C, 30, 40, 0), (D, 40, 60, 0)], graph)
    assert told["devices"]["device:1"]["waits"] == {"queue": 28.0, "host": 20.0, "transfer": 2.0}
    assert told["course"]["queue"] == 28.0


def test_steps_of_lstm_layers_are_the_chain_of_a_course():
    frames = [
        node("enter", kind="Enter", frame="steps", device=1),
        node("in", "enter", kind="Enter", frame="lstm", device=1),
    ]
    cell = node("while/tower_0/tfperf.forward/while/cell", "in", device=1)
    graph = join_nodes([*frames, cell, node(A, "enter", device=1)])
    rows = [(cell.name, begin, begin + 8, 0) for begin in (10, 20, 30)]
    told = found([("enter", 0, 1, 0), ("in", 1, 2, 0), *rows], graph, devices=ONE)
    assert told["critical"]["loops_ms"] == 8.0 and told["course"]["chain"] == 8.0


def test_several_calls_are_means_over_their_steps():
    later = [(name, begin + 100, end + 110, lane) for name, begin, end, lane in ROWS[:1]]
    told = found([(A, 2, 20, 0), *later], steps=((0, 80), (100, 180)))
    assert told["steps"] == told["calls"] == 2 and told["devices"]["device:0"]["busy"]["forward"] == (18 + 28) / 2
    assert told["critical"]["ms"] == 23.0 and sum(told["course"].values()) == 80.0


def test_first_calls_can_be_left_out():
    later = [(name, begin + 100, end + 100, lane) for name, begin, end, lane in ROWS]
    told = found([(A, 2, 70, 0), *later], steps=((0, 80), (100, 180)), skip=1)
    assert told == found()


def test_work_beside_the_graph_ends_no_waiting():
    """A dataset's threads work on the host meanwhile: the host waits on for what its next operation waits for."""
    ahead = ("Iterator/x:Decode", 30, 35, 3)
    host = found([*ROWS, ahead])["devices"]["host"]
    assert host["busy"]["other"] + host["busy"]["input"] + host["busy"]["forward"] == 5.0
    assert host["waits"]["passes"] == 43.0 and whole(host) == 80.0 and min(host["waits"].values()) > 0


def test_a_device_of_which_nothing_was_traced_is_not_known():
    told = found([(A, 0, 80, 0)])
    assert told["devices"]["device:1"]["waits"] == {"unknown": 80.0} and told["unattributed"] == 1.0


def test_a_program_of_which_no_instruction_was_traced_is_not_known():
    run = node("while/tower_0/tfperf.forward/run", kind="_XlaRun", device=1)
    read = node("tfperf.transfer/read")
    graph = join_nodes([read, node(run.name, read.name, kind="_XlaRun", device=1)])
    told = found([(read.name, 0, 10, 0), (run.name, 10, 60, 0)], graph, devices=ONE)
    assert told["course"]["computation"] == 50.0 and sum(told["course"].values()) == 80.0
    assert told["devices"]["device:0"]["waits"] == {"unknown": 50.0, "host": 20.0, "transfer": 10.0}
    assert told["unattributed"] == 50 / 80


def test_programs_of_xla_are_told_by_their_instructions(tmp_path):
    run = "while/tower_0/run"
    graph = join_nodes([node(run, kind="_XlaRun", device=1)])
    mark = ("step", 0, 50, {"step_num": 1})
    inside = [(name, begin, 10, {"hlo_module": "m"}) for name, begin in (("dot.1", 10), ("dot.2", 25))]
    lines = {"python": us(mark), "tf_Compute": us((f"{run}:_XlaRun", 5, 40)), "tf_numa": us(*inside)}
    names = "jit/tower_0/tfperf.forward/dot", "jit/gradient_tape/tower_0/tfperf.forward/dot"
    modules = {"m": [(f"dot.{i}", "dot", name, []) for i, name in enumerate(names, 1)]}
    write(tmp_path / "a.xplane.pb", {"/host:CPU": lines}, modules)
    told = break_down(tmp_path, graph, ONE)
    one = told["devices"]["device:0"]
    assert (one["busy"]["forward"], one["busy"]["backward"]) == pytest.approx((0.01, 0.01))
    assert one["waits"] == pytest.approx({"runtime": 0.02, "host": 0.01})
    assert told["critical"]["phases"] == pytest.approx({"forward": 0.02, "backward": 0.02})
    assert told["course"]["computation"] == pytest.approx(0.04)


def test_programs_that_the_profile_shows_on_no_device_leave_all_unknown():
    program = node("tower_0/call", A, kind="PartitionedCall", device=1)
    graph = join_nodes([*GRAPH.nodes, replace(program, compiled=True)])
    assert found(graph=graph) == {}
    assert (
        found([*ROWS, (program.name, 20, 30, 2)], graph)["step_ms"]
        == found(graph=join_nodes([*GRAPH.nodes, program]))["step_ms"]
    )
