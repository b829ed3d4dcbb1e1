"""Operations of half precision, what share of their time float32 takes, and what is made of that."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.trace.profiles import us, write
from tfperf.trace import half_precision
from tfperf.trace.attribution import read_attribution
from tfperf.trace.callback import ProfileCallback
from tfperf.trace.findings import list_findings
from tfperf.trace.half_precision import measure_single_share
from tfperf.trace.notes import parse_notes, read_notes

MARK = {"step_num": 0}


def find_operation(function, kind):
    """Of a traced function the operation of that type."""
    return next(one for one in function.graph.get_operations() if one.type == kind)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    ("kind", "compute"),
    [
        ("MatMul", lambda x: tf.linalg.matmul(x, x)),
        ("Conv2DBackpropFilter", lambda x: tf.gradients(tf.nn.conv2d(x[None, :, :, None], x[:3, :3, None, None], 1,
                                                                     "SAME"), x)[0]),
        ("BiasAddGrad", lambda x: tf.raw_ops.BiasAddGrad(out_backprop=x)),
        ("Sum", lambda x: tf.reduce_sum(x, axis=1)),
    ],
)  # fmt: skip
def test_operations_are_run_alone_in_both_precisions(dtype, kind, compute):
    traced = tf.function(compute).get_concrete_function(tf.TensorSpec([40, 40], dtype))
    share = measure_single_share(find_operation(traced, kind))
    assert share is not None and 0 < share < 100


def test_what_cannot_be_run_alone_has_no_share():
    variable = tf.Variable(tf.ones([4], "float16"))
    stateful = tf.function(lambda x: variable.assign_add(x)).get_concrete_function(tf.TensorSpec([4], "float16"))
    assert measure_single_share(find_operation(stateful, "AssignAddVariableOp")) is None
    unknown = tf.function(lambda x: x * x).get_concrete_function(tf.TensorSpec([None], "float16"))
    assert measure_single_share(find_operation(unknown, "Mul")) is None


def test_a_fit_in_mixed_precision_notes_what_it_computes_so(tmp_path, monkeypatch):
    monkeypatch.setattr(half_precision, "measure_single_share", lambda operation: 0.25)
    model = keras.Sequential([keras.Input((12, 12, 1)), keras.layers.Conv2D(4, 3, dtype="mixed_float16", name="half"),
                              keras.layers.Flatten(), keras.layers.Dense(1, name="single")])  # fmt: skip
    model.compile("sgd", "mse", jit_compile=False)
    data = tf.data.Dataset.from_tensors((np.ones((16, 12, 12, 1), "float32"), np.ones((16, 1), "float32"))).repeat(10)
    model.fit(data, verbose=0, shuffle=False, callbacks=[ProfileCallback(tmp_path, steps=4, skip=2)])
    told = {one.name: one for one in read_notes(tmp_path).half}
    assert all(one.kind == "float16" for one in told.values())
    shares = {name.rpartition("/")[2]: one.single_share for name, one in told.items()}
    assert shares["Conv2DBackpropFilter"] == 0.25 and shares["Cast"] == 0.0
    assert not any("single" in name and "Cast" not in name for name in told)
    found = read_attribution(tmp_path)
    assert 0 < found.half_ms < found.period_ms


@pytest.mark.parametrize("share", [0.25, None, 2.0])
def test_the_gain_is_what_float32_takes_less(tmp_path, share):
    """Two operations of half precision one after the other, of which one was run alone, then one of float32."""
    python: list[Any] = [("train", 200 * i, 200, MARK) for i in range(4)]
    main = [e for i in range(4) for e in (("a/A:Conv2D", 200 * i, 80), ("b/B:Mul", 200 * i + 80, 40),
                                          ("c/C:MatMul", 200 * i + 120, 76))]  # fmt: skip
    half = [{"name": "a/A", "kind": "float16", "single_share": share}, {"name": "b/B", "kind": "float16"}]
    told = parse_notes({"own": True, "optimizers": [], "program": "keras", "half": half})
    path = write(tmp_path / "vm.xplane.pb", {"/host:CPU": {"python": us(*python), "main": us(*main)}})
    found = [one for one in list_findings(read_attribution(path, told)) if one.rule == "half_precision"]
    if share != 0.25:
        assert found == [], "nothing is gained where it is not known to be slower"
        return
    (one,) = found
    assert one.gain_ms == pytest.approx(0.06) and one.bound_ms == pytest.approx(0.12)
    assert "slower in float16" in one.what and "operations of a take 2 times as long" in one.what
    assert "float32" in one.change


def test_casts_alone_are_no_computing(tmp_path):
    """Features that are kept in half precision, and computed with in float32."""
    python: list[Any] = [("train", 200 * i, 200, MARK) for i in range(4)]
    main = [e for i in range(4) for e in (("a/Cast:Cast", 200 * i, 80), ("c/C:MatMul", 200 * i + 80, 116))]
    half = [{"name": "a/Cast", "kind": "float16", "single_share": 0.0}]
    told = parse_notes({"own": True, "optimizers": [], "half": half})
    path = write(tmp_path / "vm.xplane.pb", {"/host:CPU": {"python": us(*python), "main": us(*main)}})
    assert not [one for one in list_findings(read_attribution(path, told)) if one.rule == "half_precision"]


def test_a_users_python_is_not_run_again_and_large_operations_are_not():
    called: list[int] = []

    def double(value):
        called.append(1)
        return value + value

    function = tf.function(lambda x: tf.numpy_function(double, [x], tf.float16, stateful=False))
    traced = function.get_concrete_function(tf.TensorSpec([4], "float16"))
    operation = next(one for one in traced.graph.get_operations() if one.type.startswith("PyFunc"))
    assert measure_single_share(operation) is None and not called
    large = tf.function(lambda x: x * x).get_concrete_function(tf.TensorSpec([2**25], "float16"))
    operations = {"Mul": find_operation(large, "Mul")}
    assert [one["single_share"] for one in half_precision._measure_largest(operations)] == [None]
