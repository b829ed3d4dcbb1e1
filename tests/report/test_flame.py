"""Operations by scope."""

import re

import pytest

from tfperf.report.flame import LEAST, WIDTH, render_flame, sum_scopes
from tfperf.trace.costs import OperationCost


def make_cost(scope, ms, phase="forward", kind="MatMul", function="step"):
    scopes = scope if isinstance(scope, tuple) else (scope,)
    return OperationCost(
        name=f"{scopes[0]}:{kind}", kind=kind, device="CPU", phase=phase, inferred=False, ms=ms, count=1.0,
        scopes=scopes, function=function,
    )  # fmt: skip


def list_parts(page):
    """Text, left edge, width and row of each part."""
    parts = re.findall(r"<title>(.*?)</title><rect x=\"([\d.]+)\" y=\"(\d+)\" width=\"([\d.]+)\"", page)
    return {text.partition(":")[0]: (float(x), int(y), float(width)) for text, x, y, width in parts}


def test_times_add_up_along_the_path_of_scopes():
    costs = [
        make_cost("model/dense/MatMul", 2.0), make_cost("StatefulPartitionedCall/model/dense/Add", 1.0, kind="Add"),
        make_cost("gradient_tape/model/dense/MatMul/MatMul_1", 3.0, phase="backward"),
    ]  # fmt: skip
    whole = sum_scopes(costs)
    assert whole.ms == 6.0 and list(whole.inner) == ["forward", "backward"]
    dense = whole.inner["forward"].inner["model"].inner["dense"]
    assert dense.ms == 3.0 and {name: one.ms for name, one in dense.inner.items()} == {"MatMul": 2.0, "Add": 1.0}
    assert list(whole.inner["backward"].inner["model"].inner["dense"].inner) == ["MatMul"]


def test_parts_are_as_wide_as_their_time_and_lie_in_their_scope():
    costs = [make_cost("a/x/MatMul", 3.0), make_cost("b/y/MatMul", 1.0), make_cost("a/x/MatMul", 4.0, phase="backward")]
    parts = list_parts(render_flame(costs))
    assert parts["forward"] == (0, 0, WIDTH / 2) and parts["backward"] == (WIDTH / 2, 0, WIDTH / 2)
    assert parts["forward / a"] == (0, 18, 3 / 8 * WIDTH) and parts["forward / b"] == (3 / 8 * WIDTH, 18, WIDTH / 8)
    assert parts["forward / b / y / MatMul"] == (3 / 8 * WIDTH, 54, WIDTH / 8)


def test_small_parts_are_one(capsys):
    costs = [make_cost("big/MatMul", 1.0), *(make_cost(f"s{i}/MatMul", LEAST / 4) for i in range(8))]
    parts = list_parts(render_flame(costs))
    assert "forward / other (8)" in parts and "forward / s1" not in parts
    assert parts["forward / other (8)"][2] == pytest.approx(WIDTH * 2 * LEAST / (1 + 2 * LEAST), abs=0.01)


def test_functions_are_told_apart_where_a_phase_has_several():
    costs = [make_cost("a/MatMul", 1.0, function="f"), make_cost("a/MatMul", 1.0, function="g")]
    assert list(sum_scopes(costs).inner["forward"].inner) == ["f", "g"]


def test_of_a_fusion_each_scope_has_an_equal_part():
    fused = make_cost(("jit(step)/jvp(dense)/dot", "jit(step)/act/tanh"), 2.0, kind="fusion")
    step = sum_scopes([fused]).inner["forward"].inner["step"]
    assert {name: one.ms for name, one in step.inner.items()} == {"dense": 1.0, "act": 1.0}


def test_names_are_text():
    page = render_flame([make_cost("<b>x</b>" * 3 + "/MatMul", 1.0, kind='"><script>alert(1)</script>')])
    assert "<b>" not in page and "<script" not in page and "&lt;b&gt;x" in page


def test_without_operations_it_says_so():
    assert render_flame([]) == "<p>No operation ran.</p>"
