import pytest

from tfperf.trace.phases import PhaseRules

RULES = PhaseRules(frozenset({"nadam", "my_adam"}))


@pytest.mark.parametrize(
    "scope, kind, phase",
    [
        ("while/body/_1/while/dense_1/MatMul", "MatMul", "forward"),
        ("gradient_tape/while/dense_1/MatMul", "MatMul", "backward"),
        ("gradients/dense/MatMul_grad/MatMul", "MatMul", "backward"),
        ("while/nadam/Mul_8", "Mul", "update"),
        ("while/my_adam_1/Mul_8", "Mul", "update"),
        ("while/nadam_like/Mul", "Mul", "forward"),  # a part of a name is not the name
        ("nadam/CollectiveReduceV2", "CollectiveReduceV2", "merge"),
        ("gradient_tape/x/NcclAllReduce", "NcclAllReduce", "merge"),
        ("sums", "all-reduce", "merge"),
        ("IteratorGetNext", "IteratorGetNext", "input"),
        ("while/body/_1/cond/true/_2/Mul", "Mul", "other"),
        ("Mul", "Mul", "other"),
        ("replica_1/Mul", "Mul", "other"),  # as on the first device, whose names have no such part
        ("replica_1/dense/MatMul", "MatMul", "forward"),
        ("PyFunc", "PyFunc", "callback"),
        ("x/_Recv", "_Recv", "transfer"),
        # marks
        ("while/tfperf.validation/Less", "Less", "validation"),
        ("while/tfperf.validation_1/Less", "Less", "validation"),
        ("while/tfperf.forward/loss/tfperf.input/Less", "Less", "input"),
        ("while/tfperf.update/Mul", "Mul", "update"),
        ("gradient_tape/while/tfperf.forward/dense/MatMul", "MatMul", "backward"),
        ("while/tfperf.backward/MatMul", "MatMul", "backward"),
        ("while/tfperf.mine/MatMul", "MatMul", "other"),
        ("tfperf.update/NcclAllReduce", "NcclAllReduce", "merge"),
    ],
)
def test_rules(scope, kind, phase):
    assert RULES.find_phase(scope, kind) == phase


def test_a_renamed_optimizer_has_to_be_told():
    assert PhaseRules(frozenset({"adam"})).find_phase("while/nadam/Mul", "Mul") != "update"


def test_forward_lies_under_a_scope_that_the_program_names():
    rules = PhaseRules(forward=frozenset({"dense", "loss"}))
    assert rules.find_phase("model/dense_3/MatMul", "MatMul") == rules.find_phase("loss/Mul", "Mul") == "forward"
    one = PhaseRules(forward=frozenset({"dense_1"}))
    assert [one.find_phase(f"dense_{n}/MatMul", "MatMul") for n in ("1_2", "2")] == ["forward", "other"]
    rules = PhaseRules(forward=frozenset({"dense", "loss"}))
    assert rules.find_phase("model/other/MatMul", "MatMul") == "other"


def test_constant_names_are_those_of_whole_functions():
    """A name may stand behind a call or a loop, not behind the scope of another operation of the same name."""
    rules = PhaseRules(constant=frozenset({"Cast", "dense/transpose"}))
    assert rules.is_constant(["Cast"]) and rules.is_constant(["while/body/_1/Cast"])
    assert rules.is_constant(["StatefulPartitionedCall_2/dense/transpose"])
    assert not rules.is_constant(["dense/Cast"]) and not rules.is_constant(["other/dense/transpose"])


def test_layers_have_one_name_on_all_devices():
    rules = PhaseRules(frozenset(["adam"]))
    assert rules.find_layer("replica_1/dense_1/MatMul") == rules.find_layer("dense_1/MatMul") == "dense_1"
    assert rules.find_layer("gradient_tape/replica_1/dense_1/MatMul/MatMul_1") == "dense_1"
    assert rules.find_layer("replica_1/Mul") == ""
