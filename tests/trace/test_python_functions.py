"""Python functions that a compiled step calls are told by where they are written."""

import functools
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tfperf.trace.attribution import read_attribution
from tfperf.trace.capture import capture
from tfperf.trace.findings import list_findings
from tfperf.trace.python_functions import list_python_functions
from tfperf.trace.rules.py_functions import _describe


def clip_values(values: Any, most: float = 1.0) -> Any:
    """Values between 0 and `most`."""
    return np.clip(np.asarray(values), 0.0, most).astype("float32")


class Clipper:
    """A function with a state."""

    def __call__(self, values: Any) -> Any:
        return clip_values(values)


LINE = clip_values.__code__.co_firstlineno
KEPT: list[Any] = []  # TensorFlow keeps no callable object alive


@pytest.mark.parametrize("function, told", [
    (clip_values, f"test_python_functions.py:{LINE} in clip_values"),
    (functools.partial(clip_values, most=2.0), f"test_python_functions.py:{LINE} in clip_values"),
    (Clipper(), "in Clipper.__call__"),
    (lambda values: clip_values(values), "in <lambda>"),
])  # fmt: skip
@pytest.mark.parametrize("call", [tf.py_function, tf.numpy_function])
def test_an_operation_that_calls_python_tells_which_function(call, function, told):
    @tf.function
    def step(x: Any) -> Any:
        return call(function, [x], tf.float32)

    graph = step.get_concrete_function(tf.TensorSpec((4,), tf.float32)).graph
    ((name, said),) = list_python_functions([graph])
    assert said.endswith(told) and name in {one.name for one in graph.get_operations()}


def test_functions_of_gradients_are_tensorflows():
    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.py_function(lambda t: t * 2.0, [x], tf.float32)
        return tape.gradient(y, x)

    graph = step.get_concrete_function(tf.TensorSpec((4,), tf.float32)).graph
    found = list(list_python_functions([graph]))
    assert len(found) == 1 and found[0][1].endswith("in <lambda>")


def test_the_finding_names_the_function(tmp_path):
    def match_anchors(values: Any) -> Any:
        return np.sort(np.tile(values, 20000))[:, :64]

    @tf.function
    def step(x: Any) -> Any:
        return tf.reduce_sum(tf.numpy_function(match_anchors, [x], tf.float32) @ tf.ones((64, 64)))

    x = tf.ones((8, 64))
    with capture(tmp_path, steps=6, skip=3) as window:
        for number in range(16):
            with window.step(number):
                step(tf.reshape(x, (8, 64)))
    first = list_findings(read_attribution(tmp_path))[0]
    line = match_anchors.__code__.co_firstlineno
    assert first.rule == "py_function" and f"test_python_functions.py:{line} in match_anchors (" in first.what


def test_functions_of_operations_with_one_name_are_all_told():
    told = {"PyFunc": {"a.py:1 in clip", "b.py:2 in augment"}}
    assert _describe("step/PyFunc:PyFunc", told) == "step/PyFunc"
    assert _describe("while/PyFunc:PyFunc", told) == "a.py:1 in clip or b.py:2 in augment (while/PyFunc)"
    assert _describe(":PyFunc", told) == "unnamed"
