"""A step that XLA computes slower than TensorFlow on a processor."""

from typing import Any

import pytest

from tests.trace.profiles import us, write
from tfperf.trace.attribution import read_attribution
from tfperf.trace.findings import list_findings
from tfperf.trace.notes import parse_notes
from tfperf.trace.rules.slow_xla import DEPTHWISE


def find(path, scopes: list[str], program: str = "keras", plane: str = "/host:CPU", kind: str = "convolution") -> Any:
    """Steps of 1 ms, in which each instruction, of the scope of its number, takes 200 us."""
    names = [f"i.{number}" for number in range(len(scopes))]
    module = {"step": [(name, kind, scope, []) for name, scope in zip(names, scopes, strict=True)]}
    events = [
        (name, 1000 * i + 200 * k, 199, {"hlo_op": name, "hlo_module": "step"})
        for i in range(4) for k, name in enumerate(names)
    ]  # fmt: skip
    planes = {"/host:CPU": {"p": us(*[("train", 1000 * i, 990, {"_r": 1, "step_num": i}) for i in range(4)])}}
    planes.setdefault(plane, {})["Stream #1"] = us(*events)
    told = parse_notes({"own": True, "optimizers": [], "program": program})
    found = list_findings(read_attribution(write(path / "vm.xplane.pb", planes, module), told))
    return [one for one in found if one.rule == "slow_xla"]


def test_depthwise_convolutions_of_xla_are_told_with_what_tensorflow_saves(tmp_path):
    scopes = ["net/conv_a/depthwise", "net/conv_b/DepthwiseConv2dNativeBackpropInput_1", "net/conv_a/depthwise_1"]
    (one,) = find(tmp_path, scopes)
    assert one.gain_ms == pytest.approx(0.199 * (34 / 35 + 22 / 23 + 34 / 35), rel=0.01) and one.bound_ms > one.gain_ms
    assert "(conv_a, conv_b)" in one.what and "XLA took 30 times as long" in one.what
    assert one.change.startswith("set jit_compile=False of compile()")


@pytest.mark.parametrize("scopes, program, plane", [
    (["net/conv/Conv2D", "net/dense/MatMul"], "keras", "/host:CPU"),
    (["net/depthwise/MatMul"], "keras", "/host:CPU"),
    (["net/a/depthwise", "net/b/depthwise", "net/c/depthwise"], "jax", "/host:CPU"),
    (["net/a/depthwise", "net/b/depthwise", "net/c/depthwise"], "keras", "/device:GPU:0"),
])  # fmt: skip
def test_other_instructions_are_not_slow_in_xla(scopes, program, plane, tmp_path):
    assert not find(tmp_path, scopes, program, plane)


@pytest.mark.parametrize("kind, told", [("convolution", True), ("transpose", False)])
def test_what_else_becomes_of_a_depthwise_convolution_is_not_counted(kind, told, tmp_path):
    assert bool(find(tmp_path, ["net/a/depthwise", "net/b/depthwise", "net/c/depthwise"], kind=kind)) == told


@pytest.mark.parametrize("count, told", [(1, False), (2, False), (3, True)])
def test_where_xla_may_save_more_elsewhere_nothing_is_told(count, told, tmp_path):
    """Of three instructions, which take 0.2 of 1 ms each."""
    scopes = [*["net/a/depthwise", "net/b/depthwise", "net/c/depthwise"][:count], *["net/d/MatMul"] * (3 - count)]
    assert bool(find(tmp_path, scopes)) == told


@pytest.mark.parametrize("scope, kind", [
    ("depthwise", "depthwise"), ("a/depthwise_2", "depthwise"), ("a/depthwise_conv2d", None),
    ("a/DepthwiseConv2dNativeBackpropFilter", "DepthwiseConv2dNativeBackpropFilter"), ("a/separable_depthwise", None),
])  # fmt: skip
def test_kinds_are_read_from_the_ends_of_scopes(scope, kind):
    match = DEPTHWISE.search(scope)
    assert (match and match[1]) == kind
