"""Proofs of placements, from operations made by hand: what is wrong has to be found."""

from types import SimpleNamespace

import pytest

from tfperf.errors import PlacementError
from tfperf.place import proof
from tfperf.place.devices import Devices
from tfperf.place.graphs import DeviceTransfer, OperationFlops, PlacedOperation, ProgramTensor, StepRecord
from tfperf.place.nodes import SMALL
from tfperf.place.proof import prove, prove_engine
from tfperf.place.rules import PlacementRule, check_operations, make_rule
from tfperf.place.shapes import TensorType
from tfperf.place.transfers import NO_BATCH, NeededTransfer, Needs, Products
from tfperf.place.variable_copies import VariableCopy

HOST, FIRST, SECOND, GPU = (
    f"/job:localhost/replica:0/task:0/device:{name}" for name in ("CPU:0", "CPU:1", "CPU:2", "GPU:0")
)
RULES = [
    make_rule("update of a", "update/variable_0/", FIRST), make_rule("merge of a", "merge/variable_0/", HOST, "AddN")
]  # fmt: skip
RIGHT = [
    PlacedOperation("while/update/variable_0/mul", "Mul", FIRST),
    PlacedOperation("while/merge/variable_0/AddN", "AddN", HOST),
]  # fmt: skip


def test_what_ran_where_it_should_is_counted():
    found = prove([*RIGHT, PlacedOperation("while/update/variable_0/add", "AddV2", FIRST)], RULES)
    assert found.refuse_faults() is found
    assert found.devices == {"update of a": {"CPU:1": 2}, "merge of a": {"CPU:0": 1}}
    assert found.elsewhere == ()


def test_an_operation_on_another_device_is_a_fault():
    moved = PlacedOperation("while/update/variable_0/mul", "Mul", SECOND)
    found = prove([moved, *RIGHT[1:]], RULES)
    assert found.faults == ("update of a: Mul ran on CPU:2; must be CPU:1",)
    with pytest.raises(PlacementError, match="Mul ran on CPU:2; must be CPU:1"):
        found.refuse_faults()


def test_a_rule_that_nothing_meets_is_a_fault_unless_it_need_not_be_met():
    assert prove(RIGHT[:1], RULES).faults == ("merge of a: nothing of it was found in the graphs that ran",)
    spare = PlacementRule("clipping", "clip/", frozenset([HOST]), needed=False)
    assert prove(RIGHT, [*RULES, spare]).faults == ()


def test_one_of_several_devices_is_enough():
    both = PlacementRule("update of a", "update/", frozenset([FIRST, SECOND]))
    assert prove([PlacedOperation("update/x", "Mul", SECOND)], [both]).faults == ()
    assert prove([PlacedOperation("update/x", "Mul", HOST)], [both]).faults == (
        "update of a: Mul ran on CPU:0; must be CPU:1 or CPU:2",
    )


def test_what_carries_values_may_be_anywhere_and_what_is_small_is_listed():
    more = [PlacedOperation("while/update/variable_0/read", "Identity", SECOND),
            PlacedOperation("somewhere", "Sub", SECOND, touched_bytes=SMALL),
            PlacedOperation("while/merge/variable_0/shape", "Reshape", SECOND, touched_bytes=8)]  # fmt: skip
    found = prove([*RIGHT, *more], RULES)
    assert found.faults == ()
    assert found.elsewhere == ("Reshape on CPU:2: 1", "Sub on CPU:2: 1")


def test_what_no_rule_covers_is_a_fault():
    more = [PlacedOperation(f"other/{k}", "Sub", SECOND, touched_bytes=SMALL + k) for k in (1, 3, 2)]
    unknown = PlacedOperation("never/ran", "Mul", HOST, touched_bytes=None)
    assert prove([*RIGHT, *more, unknown], RULES).faults == (
        "Sub on CPU:2: no rule covers it, and it touches 4.099 kB: other/3 and 2 more",
        "Mul on CPU:0: no rule covers it, and its size is not known: never/ran",
    )


def test_what_runs_python_is_a_fault_whatever_its_size():
    call = PlacedOperation("while/update/variable_0/call", "EagerPyFunc", FIRST, touched_bytes=0, hidden_work="Python")
    assert prove([*RIGHT, call], RULES).faults == (
        "EagerPyFunc on CPU:1 runs Python that no graph shows: while/update/variable_0/call",
    )


def test_a_decoy_is_too_small():
    decoy, needs = RIGHT[0]._replace(touched_bytes=SMALL + 1, output_bytes=8), Needs(least={"update of a": SMALL + 1})
    found = check_operations([decoy, RIGHT[1]], RULES, needs)
    assert found.faults == ["update of a: its largest operation gives 8 bytes of 4.097 kB: while/update/variable_0/mul"]


def test_work_done_twice_is_too_much():
    given = RIGHT[0]._replace(touched_bytes=SMALL, output_bytes=SMALL, runs=2)
    for most, faults in (
        (SMALL, []),
        (SMALL - 1, ["update of a: its operations give 8.192 kB a step; must be 4.095 kB at most: " + given.name]),
    ):
        assert check_operations([given, RIGHT[1]], RULES, Needs(most={"update of a": most})).faults == faults


def test_what_gpus_leave_to_the_host_is_no_fault_where_it_is_small():
    rules = [make_rule("update of a", "update/", GPU)]
    for size, faults in ((SMALL, ()), (SMALL + 1, ("update of a: Shape ran on CPU:0; must be GPU:0",))):
        shape = PlacedOperation("update/a", "Shape", HOST, touched_bytes=size)
        assert prove([shape], rules).faults == faults


def test_the_first_rule_that_speaks_of_an_operation_decides():
    rules = [make_rule("assignment", "update/", SECOND, "Assign"), make_rule("update", "update/", FIRST)]
    assert (
        prove(
            [PlacedOperation("update/a", "AssignSub", SECOND), PlacedOperation("update/b", "Mul", FIRST)], rules
        ).faults
        == ()
    )


def engine(copies=(), needs=None, mine=(0,)):
    return SimpleNamespace(
        list_copies=lambda: list(copies), list_rules=lambda: RULES, compute_needs=lambda shapes: needs or Needs(),
        devices=Devices(HOST, (FIRST,) * (1 + max(mine)), logical=True, local=mine),
    )  # fmt: skip


BATCH = [TensorType("int32", (4, 5)), TensorType("int32", (4, 6)), TensorType("float", ())]


def faults(copies=(), needs=None, mine=(0,), **ran):
    return prove_engine(engine(copies, needs, mine), StepRecord(RIGHT, **{"batch": BATCH, **ran})).faults


def test_a_variable_on_another_device_is_a_fault():
    copies = [VariableCopy("variable a", SECOND, FIRST, 8), VariableCopy("slot a", FIRST, FIRST, 8)]
    assert faults(copies) == ("variable a: is on CPU:2; must be CPU:1",)


def test_copies_are_held_against_what_is_needed():
    rows = ("gradients", FIRST, HOST, 9_000), ("batch", FIRST, HOST, 1_000), ("own", HOST, HOST, 1e9)
    needs = Needs([NeededTransfer(*row) for row in rows])
    few = [DeviceTransfer("a", FIRST, HOST, 10_000), DeviceTransfer("b", FIRST, HOST, SMALL)]
    assert faults(needs=needs, transfers=few) == ()
    assert faults(needs=needs, transfers=[*few, DeviceTransfer("c", FIRST, HOST, 4)]) == (
        "copies from CPU:1 to CPU:0: 14.1 kB a step; 10 kB are needed (gradients 9 kB, batch 1 kB); most: a 10 kB, b "
        "4.096 kB, c 4 bytes",
    )
    others = [DeviceTransfer("d", HOST, FIRST, 5_000), DeviceTransfer("e", FIRST, HOST, 4_900)]
    assert faults(needs=needs, transfers=others) == (
        "copies from CPU:0 to CPU:1: 5 kB a step; 0 bytes are needed; most: d 5 kB",
        "copies from CPU:1 to CPU:0: only 4.9 kB a step; 10 kB are needed (gradients 9 kB, batch 1 kB)",
    )
    assert faults(needs=needs, transfers=[*few, DeviceTransfer("f", HOST, HOST, 10**9)]) == ()
    found = prove_engine(engine(needs=needs), StepRecord(RIGHT, few, batch=BATCH))
    assert found.transfers == {"CPU:1 to CPU:0": (14_096, 10_000)}


def test_a_copy_of_unknown_size_is_a_fault():
    assert faults(transfers=[DeviceTransfer("a", FIRST, HOST, None), DeviceTransfer("b", FIRST, HOST, None)]) == (
        "copies from CPU:1 to CPU:0: the size of a and 1 more is not known",
    )


def test_a_batch_of_unknown_size_is_a_fault():
    assert faults(batch=[None, *BATCH[1:]]) == (NO_BATCH,)
    assert faults(batch=[]) == faults(batch=BATCH[1:], mine=(0, 1)) == (NO_BATCH,)
    assert faults(batch=[*BATCH, *BATCH[1:], BATCH[2]], mine=(0, 1)) == (NO_BATCH,)


def test_the_sides_of_another_workers_devices_need_not_be_known():
    assert faults(batch=[None, None, *BATCH], mine=(1,)) == ()
    assert faults(batch=[None, None, *BATCH], mine=(0, 1)) == faults(batch=[*BATCH[:2], None, *BATCH[1:]], mine=(1,))
    assert faults(batch=[None, None, *BATCH], mine=(0,)) == (NO_BATCH,)


def test_an_uneven_batch_is_a_fault():
    batch = [*BATCH[:2], TensorType("int32", (1, 5)), TensorType("int32", (1, 6)), BATCH[2]]
    assert faults(batch=batch, mine=(0, 1)) == ("batch: devices get 4, 1 examples; must be as many each",)


def test_collectives_are_held_against_what_is_needed():
    handed = [DeviceTransfer("a", FIRST, "all", 9_000)]
    assert faults(needs=Needs(collectives=[NeededTransfer("gradients", FIRST, "all", 9_000)]), collectives=handed) == ()
    assert faults(collectives=handed)[0].startswith("collectives from CPU:1 to all: 9 kB a step; 0 bytes are needed")


def test_each_device_multiplies_its_part():
    needs = Needs(products=Products({FIRST: 1e6, SECOND: 1e6}, {FIRST: 4e5}, besides="newton"))
    done = [OperationFlops("a", FIRST, 1e6), OperationFlops("b", SECOND, 1e6), OperationFlops("newton/c", SECOND, 1e9)]
    assert faults(needs=needs, products=done) == ()
    assert faults(needs=needs, products=done[1:]) == (
        "matrix products on CPU:1: 0 MFLOP a step; its part of the batch takes 1",
    )
    hidden = PlacedOperation("tower_0/lstm", "CudnnRNNV3", FIRST, touched_bytes=0)
    cudnn = StepRecord([*RIGHT, hidden], products=[OperationFlops("a", FIRST, 6e5), done[1]], batch=BATCH)
    assert prove_engine(engine(needs=needs), cudnn).faults == ()


def test_what_a_program_holds_is_what_the_placement_keeps():
    copies = [VariableCopy("variable a", FIRST, FIRST, 8_000), VariableCopy("slot a", FIRST, FIRST, 8_000)]
    rows = ("x", FIRST, 8_000), ("y", FIRST, 8_000), ("z", HOST, 8), ("w", HOST, 8_000)
    tensors = [ProgramTensor("variable", *row) for row in rows]
    assert faults(copies, tensors=tensors[:3]) == ()
    assert faults(copies, tensors=tensors[1:3]) == (
        "variables of 8 kB on CPU:1: a step touches 1; the placement has 2: variable a and 1 more",
    )
    assert faults(copies, tensors=tensors) == (
        "variables of 8 kB on CPU:0: a step touches 1; the placement has 0: none",
    )
    constant = ProgramTensor("constant", "c", FIRST, 5_000)
    assert faults(tensors=[constant]) == ("constant of 5 kB on CPU:1: must be a variable: c",)


def test_only_the_first_faults_are_told():
    rules = [make_rule(f"update of {k}", f"variable_{k}/", FIRST) for k in range(7)]
    with pytest.raises(PlacementError) as error:
        prove([], rules).refuse_faults()
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
    kernels = proof.find_kernels([PlacedOperation(name, kind, FIRST)])
    assert tuple(kernels.values()) == found
