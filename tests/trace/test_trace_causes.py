"""Why a function is traced or compiled again, whatever its arguments are made of, in words of the program."""

from collections import deque, namedtuple
from typing import Any

import pytest
import tensorflow as tf

from tests.trace.profiles import us, write
from tfperf.trace.attribution import read_attribution
from tfperf.trace.capture import capture
from tfperf.trace.findings import list_findings
from tfperf.trace.functions import list_seen, list_traces
from tfperf.trace.ledger import NOT_SAID, OLD_GRAPH, SAME_GRAPH
from tfperf.trace.notes import FIRST_CALL, MADE_ANEW, parse_notes

Pair = namedtuple("Pair", "x y")


class Settings:
    rate = 0.5


@pytest.mark.parametrize("make, cause", [
    (lambda i: {"ids": tf.ones([2 + i]), "y": tf.ones([2])}, "new shape of batch['ids']: (3,), was (2,)"),
    (lambda i: (tf.ones([2 + i]), tf.ones([2])), "new shape of batch[0]: (3,), was (2,)"),
    (lambda i: [{"a": tf.ones([2 + i])}], "new shape of batch[0]['a']: (3,), was (2,)"),
    (lambda i: [tf.ones([2])] * (1 + i), "new length of batch: 2, was 1"),
    (lambda i: {"ab"[i]: tf.ones([2])}, "other keys of batch"),
    (lambda i: (tuple, list)[i]([tf.ones([2])]), "new type of batch: List"),
    (lambda i: Pair(tf.ones([2]), tf.ones([2 + i])), "new shape of batch[1]: (3,), was (2,)"),
    (lambda i: (tf.ones([2]), i), "new Python value of batch[1]: 1, was 0"),
    (lambda i: Settings(), "another Python object as batch"),
    (lambda i: tf.ones([2]) if i else 1.0, "new type of batch: TensorSpec(shape=(2,)"),
])  # fmt: skip
def test_the_part_of_an_argument_that_is_new_is_named(make, cause):
    @tf.function
    def step(batch):
        return tf.constant(1.0)

    before = list_seen()
    step(make(0))
    step(make(1))
    mine = [one["cause"] for one in list_traces(before) if one["function"] == "step"]
    assert mine[0] == "first call" and mine[1].startswith(cause)


def record(tmp_path, run):
    """Of four steps the first finding and the causes in the ledger, by function."""
    with capture(tmp_path, steps=4, skip=2) as taken:
        for i in range(7):
            with taken.step(i):
                run(i).numpy()
    found = read_attribution(tmp_path)
    return list_findings(found)[0].what, {(one.kind, one.function): one.cause for one in found.ledger}


@pytest.mark.parametrize("kept", [1, 2, 20])
def test_functions_that_are_gone_after_their_call_are_made_anew(tmp_path, kept):
    """Or will be once garbage is collected: the last of them are kept."""
    last: deque[Any] = deque(maxlen=kept)

    def run(i):
        @tf.function
        def train_2d(x):
            for _ in range(20):
                x = tf.tanh(x)
            return x

        last.append(train_2d)
        return train_2d(tf.ones([8]))

    what, ledger = record(tmp_path, run)
    assert what == "train_2d: traced anew 4 times in 4 steps: first call of a function that is made anew"
    assert set(ledger) == {("trace", "train_2d")}


def test_a_graph_that_is_compiled_again_has_other_shapes(tmp_path):
    @tf.function(jit_compile=True, input_signature=[tf.TensorSpec([None, 8])])
    def loss_l2(x):
        return tf.reduce_sum(x**2)

    what, ledger = record(tmp_path, lambda i: loss_l2(tf.ones([8 + i, 8])))
    assert what.startswith("loss_l2: compiled anew 4 times in 4 steps: the same graph for other shapes")
    assert set(ledger) == {("compilation", "loss_l2")}


def test_what_makes_the_outer_function_trace_is_said_before_the_inner_one(tmp_path):
    @tf.function
    def outer(x):
        @tf.function(jit_compile=True)
        def inner(x):
            return tf.reduce_sum(tf.tanh(x @ tf.transpose(x)))

        return inner(x)

    what, _ = record(tmp_path, lambda i: outer(tf.ones([8 + i, 8])))
    assert what.startswith("inner, outer: traced anew 8 times in 4 steps: new shape of x: (10, 8), was (8, 8); ")


@pytest.mark.parametrize("traced, compiled, notes, causes", [
    ("ff", "", {"own": True}, [MADE_ANEW, MADE_ANEW]),
    ("ff", "", {}, [NOT_SAID, NOT_SAID]),  # of another program, at which nobody looked
    ("f", "", {"own": True}, [NOT_SAID]),
    ("ff", "", {"own": True, "traces": [{"function": "f", "cause": "mine"}]}, ["mine", MADE_ANEW]),
    ("fff", "", {"own": True, "traces": [{"function": "f", "cause": FIRST_CALL}]}, [MADE_ANEW] * 3),  # one is left
    ("ff", "", {"own": True, "traces": [{"function": "f", "cause": FIRST_CALL}] * 2}, [MADE_ANEW] * 2),
    ("ffF", "", {"own": True, "traces": [{"function": "f", "cause": FIRST_CALL}] * 2}, [FIRST_CALL] * 2),  # F: again
    ("", "g_1", {}, [OLD_GRAPH]),  # traced before
    ("f", "g_1 g_1 g_2", {}, [NOT_SAID, SAME_GRAPH, SAME_GRAPH, NOT_SAID]),
    ("f", "f_1 f_1", {"own": True, "traces": [{"function": "f", "cause": "mine"}]}, ["mine", "mine", SAME_GRAPH]),
    ("", "jit_g", {}, [NOT_SAID]),  # of JAX, whose programs have no graphs
])  # fmt: skip
def test_a_ledger_says_no_more_than_is_known(tmp_path, traced, compiled, notes, causes):
    python: list[Any] = [("train", 0, 1000, {"step_num": 0})]
    said = {True: "traced-nonXla", False: "notTraced-nonXla"}
    python += [(f.lower(), 10 * i, 9, {"tf_function_call": said[f.islower()]}) for i, f in enumerate(traced)]
    for i, name in enumerate(compiled.split()):
        module = {"name": name if name.startswith("jit") else f"a_inference_{name}__.3"}
        python += [
            ("call", 100 + 20 * i, 19, {"tf_function_call": "notTraced-xla"}),
            ("CpuCompiler::RunBackend", 105 + 20 * i, 8, module),
        ]
    lines = {"p": us(*python), "m": us(("d/A:A", 940, 10))}
    path = write(tmp_path / "vm.xplane.pb", {"/host:CPU": lines})
    assert [one.cause for one in read_attribution(path, parse_notes(notes)).ledger] == causes
