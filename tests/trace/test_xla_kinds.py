"""XLA is advised where it can compile a step, and does not take longer for some of its operations."""

from typing import Any

import pytest
import tensorflow as tf
from tensorflow.python.framework import kernels

from tests.trace import profiles
from tests.trace.test_findings import MARK, find
from tfperf.trace.xla_kinds import ABSENT, TIMES

KERNELS = {"XLA_CPU_JIT", "XLA_GPU_JIT"}


def find_short(path, kind: str, us: float, program: str = "loop", count: int = 1) -> Any:
    """The finding of steps of 1 ms, each of 40 operations of 5 us every 20 us, and some of a kind at its end."""
    python: list[Any] = [("train", 1000 * i, 990, MARK) for i in range(4)]
    main: list[Any] = [(f"a/A{k}:Mul", 1000 * i + 20 * k, 5) for i in range(4) for k in range(40)]
    main += [(f"b/B{k}:{kind}", 1000 * i + 800 + us * k, us) for i in range(4) for k in range(count)]
    (one,) = [one for one in find(path, python, main, program) if one.rule == "short_operations"]
    return one


def list_kernels(kind: str) -> set[str]:
    """Devices that TensorFlow has a kernel for."""
    return {one.device_type for one in kernels.get_registered_kernels_for_op(kind).kernel}


def test_tensorflow_has_no_kernel_of_xla_for_what_is_called_absent_and_one_for_what_is_slower():
    tf.function(lambda x: x + 1, jit_compile=True)(1.0)  # by which those of XLA are registered
    absent = [kind for kind in dir(tf.raw_ops) if ABSENT.fullmatch(kind)]
    assert len(absent) > 80
    assert {kind: list_kernels(kind) & KERNELS for kind in absent if list_kernels(kind) & KERNELS} == {}
    assert [kind for kind in TIMES if "XLA_CPU_JIT" not in list_kernels(kind)] == []


@pytest.mark.parametrize("kind", ["SegmentSum", "LogMatrixDeterminant", "PyFunc", "RandomGamma"])
def test_xla_is_not_advised_where_it_cannot_compile_a_step(kind, tmp_path):
    one = find_short(tmp_path, kind, 5)
    assert one.change.startswith("double the batch") and f"cannot compile {kind}" in one.change
    assert one.gain_ms == pytest.approx(one.ms / 2)


@pytest.mark.parametrize("name", [
    "tfperf.input/b/B:SegmentSum", "tfperf.validation/b/B:SegmentSum", "EagerLocalExecute: SegmentSum",
])  # fmt: skip
def test_what_is_outside_of_the_compiled_step_is_no_reason(name, tmp_path):
    python: list[Any] = [("train", 1000 * i, 990, MARK) for i in range(4)]
    main: list[Any] = [(f"a/A{k}:Mul", 1000 * i + 20 * k, 5) for i in range(4) for k in range(40)]
    main += [(name, 1000 * i + 800, 5) for i in range(4)]
    (one,) = [one for one in find(tmp_path, python, main, "loop") if one.rule == "short_operations"]
    assert "jit_compile" in one.change


@pytest.mark.parametrize("kinds, told", [
    ((("Lu", 2), ("SegmentSum", 9)), "cannot compile SegmentSum, Lu"),
    ((("Svd", 5), ("Cholesky", 60)), "computes Cholesky, Svd slower"),
])  # fmt: skip
def test_kinds_are_named_by_what_they_take(kinds, told, tmp_path):
    python: list[Any] = [("train", 1000 * i, 990, MARK) for i in range(4)]
    main: list[Any] = [(f"a/A{k}:Mul", 1000 * i + 20 * k, 5) for i in range(4) for k in range(40)]
    main += [(f"b/B{k}:{kind}", 1000 * i + 800 + 80 * k, us) for i in range(4) for k, (kind, us) in enumerate(kinds)]
    (one,) = [one for one in find(tmp_path, python, main, "loop") if one.rule == "short_operations"]
    assert told in one.change


def test_of_an_accelerator_it_is_not_known_what_xla_computes_slower(tmp_path):
    python: list[Any] = [("train", 1000 * i, 990, MARK) for i in range(4)]
    kernels = [(f"k{k}", 1000 * i + 20 * k, 5, {"tf_op": f"a/A{k}:Mul"}) for i in range(4) for k in range(40)]
    kernels += [("potrf", 1000 * i + 800, 60, {"tf_op": "b/B:Cholesky"}) for i in range(4)]
    lines = {"/device:GPU:0": {"Stream #1": profiles.us(*kernels)}}
    (one,) = [one for one in find(tmp_path, python, [], "loop", **lines) if one.rule == "short_operations"]
    assert "jit_compile" in one.change


def test_what_xla_computes_slower_is_taken_off(tmp_path):
    plain, slower = (find_short(tmp_path, kind, 10) for kind in ("Tanh", "Cholesky"))
    assert "jit_compile" in slower.change
    assert plain.gain_ms - slower.gain_ms == pytest.approx((TIMES["Cholesky"] - 1) * 0.01, rel=0.05)


def test_xla_is_not_advised_where_it_computes_an_operation_much_slower(tmp_path):
    one = find_short(tmp_path, "Cholesky", 30)
    assert "double the batch" in one.change and "computes Cholesky slower" in one.change


@pytest.mark.parametrize("kind", ["DepthwiseConv2dNative", "_MklNativeFusedDepthwiseConv2dNative"])
def test_operations_that_tensorflow_fused_are_told_by_their_kind(kind, tmp_path):
    assert "computes DepthwiseConv2dNative slower" in find_short(tmp_path, kind, 60).change


def test_where_xla_saves_nothing_what_it_computes_slower_is_no_reason(tmp_path):
    """Holes of 40 us and operations of 40 give back less than the 100 that a program of XLA takes to be started."""
    python: list[Any] = [("train", 200 * i, 190, MARK) for i in range(4)]
    main: list[Any] = [(f"a/A{k}:Mul", 200 * i + 4 * k, 2) for i in range(4) for k in range(20)]
    main += [("b/B:Cholesky", 200 * i + 80, 100) for i in range(4)]
    assert "short_operations" not in [one.rule for one in find(tmp_path, python, main, "keras")]


def test_a_card_measures_what_xla_gains(tmp_path):
    assert "engine.xla" in find_short(tmp_path, "Cholesky", 30, "card").change


def test_each_variable_that_a_program_of_xla_assigns_costs_a_part_of_its_start(tmp_path):
    plain, assigned = (find_short(tmp_path, kind, 2, count=20) for kind in ("Tanh", "AssignSubVariableOp"))
    assert plain.gain_ms - assigned.gain_ms == pytest.approx(20 * 0.0025, rel=0.05)
