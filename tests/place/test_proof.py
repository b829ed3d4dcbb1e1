"""Proofs of placements, from operations made by hand: what is wrong has to be found."""

from types import SimpleNamespace

import pytest

from tfperf.place import proof
from tfperf.place.proof import Kept, Operation, PlacementError, Rule, one, prove, prove_engine

HOST, FIRST, SECOND = (f"/job:localhost/replica:0/task:0/device:CPU:{k}" for k in range(3))
RULES = [one("update of a", "update/variable_0/", FIRST), one("merge of a", "merge/variable_0/", HOST, "AddN")]
RIGHT = [
    Operation("while/update/variable_0/mul", "Mul", FIRST),
    Operation("while/merge/variable_0/AddN", "AddN", HOST),
]  # fmt: skip


def test_what_ran_where_it_should_is_counted():
    found = prove([*RIGHT, Operation("while/update/variable_0/add", "AddV2", FIRST)], RULES)
    assert found.hold() is found
    assert found.devices == {"update of a": {"CPU:1": 2}, "merge of a": {"CPU:0": 1}}
    assert found.elsewhere == ()


def test_an_operation_on_another_device_is_a_fault():
    moved = Operation("while/update/variable_0/mul", "Mul", SECOND)
    found = prove([moved, *RIGHT[1:]], RULES)
    assert found.faults == ("update of a: Mul ran on CPU:2; must be CPU:1",)
    with pytest.raises(PlacementError, match="Mul ran on CPU:2; must be CPU:1"):
        found.hold()


def test_a_rule_that_nothing_meets_is_a_fault_unless_it_need_not_be_met():
    assert prove(RIGHT[:1], RULES).faults == ("merge of a: nothing of it was found in the graphs that ran",)
    spare = Rule("clipping", "clip/", frozenset([HOST]), needed=False)
    assert prove(RIGHT, [*RULES, spare]).faults == ()


def test_one_of_several_devices_is_enough():
    both = Rule("update of a", "update/", frozenset([FIRST, SECOND]))
    assert prove([Operation("update/x", "Mul", SECOND)], [both]).faults == ()
    assert prove([Operation("update/x", "Mul", HOST)], [both]).faults == (
        "update of a: Mul ran on CPU:0; must be CPU:1 or CPU:2",
    )


def test_what_carries_values_may_be_anywhere_and_other_kinds_are_listed():
    more = [Operation("while/update/variable_0/read", "Identity", SECOND), Operation("somewhere", "Sub", SECOND),
            Operation("while/merge/variable_0/shape", "Reshape", SECOND)]  # fmt: skip
    found = prove([*RIGHT, *more], RULES)
    assert found.faults == ()
    assert found.elsewhere == ("Reshape on CPU:2: 1", "Sub on CPU:2: 1")


def test_the_first_rule_that_speaks_of_an_operation_decides():
    rules = [one("assignment", "update/", SECOND, "Assign"), one("update", "update/", FIRST)]
    assert prove([Operation("update/a", "AssignSub", SECOND), Operation("update/b", "Mul", FIRST)], rules).faults == ()


def test_a_variable_on_another_device_is_a_fault():
    kept = [Kept("variable a", SECOND, FIRST, 8), Kept("slot a", FIRST, FIRST, 8)]
    engine = SimpleNamespace(kept=lambda: kept, rules=lambda: RULES)
    assert prove_engine(engine, RIGHT).faults == ("variable a: is on CPU:2; must be CPU:1",)


def test_only_the_first_faults_are_told():
    rules = [one(f"update of {k}", f"variable_{k}/", FIRST) for k in range(7)]
    with pytest.raises(PlacementError) as error:
        prove([], rules).hold()
    assert len(error.value.faults) == 6 and error.value.faults[-1] == "and 2 more"


@pytest.mark.parametrize(
    ("kind", "name", "found"),
    [
        ("CudnnRNNV3", "tower_0/forward/lstm", ("cudnn", "sparse", False)),
        ("BlockLSTMV2", "tower_0/forward/lstm", ("block", "sparse", False)),
        ("XlaLaunch", "tower_0/forward", ("xla", "inside xla", True)),
        ("UnsortedSegmentSum", "tower_0/backward/table", ("plain", "dense", False)),
        ("UnsortedSegmentSum", "merge/variable_0", ("plain", "sparse", False)),
    ],
)
def test_how_layers_were_computed(kind, name, found):
    kernels = proof.kernels([Operation(name, kind, FIRST)])
    assert tuple(kernels.values()) == found
