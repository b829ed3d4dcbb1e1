"""Why functions were traced, what of them is constant, and the ledger of a recorded window."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tests.trace.profiles import us, write
from tfperf.trace.attribution import read_attribution
from tfperf.trace.capture import capture
from tfperf.trace.functions import find_constant_operations, list_seen
from tfperf.trace.operations import GRAPH, find_ambiguous, list_instructions, make_stats_filter
from tfperf.trace.planes import decode_events, read_spaces


def test_the_ledger_names_the_cause_of_each_trace(tmp_path):
    @tf.function(jit_compile=True)
    def compiled_one(x, k):
        return tf.reduce_sum(tf.tanh(x @ tf.transpose(x))) * k

    arguments = [(100, 2)] * 4 + [(150, 2), (150, 3), (150, 3)]
    with capture(tmp_path, steps=5, skip=2) as taken:
        for i, (n, k) in enumerate(arguments):
            with taken.step(i):
                compiled_one(tf.ones([n, n]), k).numpy()
    ledger = read_attribution(tmp_path).ledger
    traces = [entry for entry in ledger if entry.kind == "trace"]
    assert [entry.function for entry in traces] == ["compiled_one"] * 2
    assert traces[0].cause == "new shape of x: (150, 150), was (100, 100)"
    assert traces[1].cause == "new Python value of k: 3, was 2"
    compilations = [entry for entry in ledger if entry.kind == "compilation"]
    assert [entry.function for entry in compilations] == ["compiled_one"] * 2
    assert [entry.cause for entry in compilations] == [entry.cause for entry in traces]
    assert all(0 < entry.seconds < 60 for entry in ledger)


def test_a_first_call_and_a_new_dtype_are_told():
    from tfperf.trace.functions import list_traces

    @tf.function
    def doubled(x):
        return x + x

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
    def never_called(x):
        return x

    before = list_seen()
    doubled(tf.ones([2]))
    doubled(tf.ones([2], tf.float64))
    mine = [one["cause"] for one in list_traces(before) if one["function"] == "doubled"]
    assert mine == ["first call", "new dtype of x: float64, was float32"]
    assert before.counts[id(never_called)] == 0 and not list_traces(list_seen()), "to look traces nothing"


def test_a_ledger_of_another_program_has_no_causes(tmp_path):
    python = [
        ("train", 0, 100, {"step_num": 0}), ("f", 5, 10, {"tf_function_call": "traced-xla"}),
        ("tf.function-graph_building", 6, 4),  # the rest of the call runs the function
        ("f", 20, 10, {"tf_function_call": "notTraced-xla"}), ("tf.function-graph_building", 21, 4),
        ("CpuCompiler::RunBackend", 6, 8, {"name": "a_inference_f_79__XlaMustCompile_true_x_.2"}),
        ("CpuCompiler::CompileCpuExecutable", 7, 4, {"name": "a_inference_f_79__XlaMustCompile_true_x_.2"}),
    ]  # fmt: skip
    lines = {"p": us(*python), "m": us(("d/A:A", 40, 10))}
    ledger = read_attribution(write(tmp_path / "vm.xplane.pb", {"/host:CPU": lines})).ledger
    assert [(e.kind, e.function, e.seconds, e.cause) for e in ledger] == [
        ("trace", "f", 4e-6, "not recorded"), ("compilation", "f", 8e-6, "not recorded"),
    ]  # fmt: skip


def test_each_call_has_its_own_compilation_whatever_other_threads_call_meanwhile(tmp_path):
    """An actor's call lies over three of the training's four calls."""
    module = {"name": "a_inference_f_79__XlaMustCompile_true_x_.2"}
    python: list[Any] = [("train", 0, 100, {"step_num": 0})]
    python += [("f", 25 * i, 20, {"tf_function_call": "notTraced-xla"}) for i in range(4)]
    python += [("CpuCompiler::RunBackend", 25 * i + 2, 8, module) for i in range(4)]
    actor = [("act", 10, 50, {"tf_function_call": "notTraced-nonXla"})]
    lines = {"p": us(*python), "a": us(*actor), "m": us(("d/A:A", 40, 10))}
    ledger = read_attribution(write(tmp_path / "vm.xplane.pb", {"/host:CPU": lines})).ledger
    assert [one.kind for one in ledger] == ["compilation"] * 4


def test_operations_on_captured_tensors_are_constant_those_on_variables_are_not():
    table, weight = tf.random.normal([8, 4]), tf.Variable(tf.ones([4, 3]))

    @tf.function
    def step(x):
        for _ in tf.range(2):
            turned = tf.transpose(table, name="turned") * tf.constant(2.0)
            x = x + tf.reduce_sum(turned) + tf.reduce_sum(tf.matmul(table, weight, name="learned"))
            x += tf.reduce_sum(tf.random.normal([3], name="drawn"))
        return tf.square(x, name="argument")

    step(tf.ones([]))
    names = {name.rpartition("/")[2] for name in find_constant_operations()}
    assert "turned" in names
    assert not {"learned", "drawn", "argument"} & names


def test_of_a_function_that_was_made_late_the_last_traces_are_those_of_the_window(tmp_path):
    def run(number):
        function = made.setdefault("one", tf.function(lambda x: tf.reduce_sum(x), reduce_retracing=False))
        function(tf.ones([3 if number < 6 else 4])).numpy()

    made: dict = {}
    with capture(tmp_path, steps=3, skip=4) as window:
        for number in range(9):
            with window.step(number):
                run(number)
    (entry,) = [one for one in read_attribution(tmp_path).ledger if one.kind == "trace"]
    assert "new shape" in entry.cause and "(4,)" in entry.cause


def test_constant_work_of_a_keras_fit_is_found(tmp_path):
    from tfperf.trace.callback import ProfileCallback

    class Folded(keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.table = tf.constant(np.random.default_rng(0).normal(size=(64, 200, 50)), tf.float32)

        def call(self, x):
            rearranged = tf.transpose(self.table, [2, 0, 1])  # the same every time
            return tf.einsum("bi,kij->bk", x, rearranged[:, :8])

    model = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(8), Folded(), keras.layers.Dense(1)])
    model.compile("adam", "mse", jit_compile=False)
    callback = ProfileCallback(tmp_path, steps=4, skip=2)
    model.fit(np.ones((80, 8)), np.ones((80, 1)), batch_size=10, verbose=0, callbacks=[callback])
    constant = read_attribution(tmp_path).constant
    assert [c.layer for c in constant if c.kind.endswith("Transpose")] == ["folded_1"]
    assert all("dense" not in c.name for c in constant)


def check_skipped_stats(spaces, known):
    """Stats are skipped of operations that are told by their names alone; other events that are skipped have none."""
    is_needed = make_stats_filter(known)
    every = decode_events(spaces)
    having = {every.names[every.name[row]] for rows, _ in every.stats.values() for row in rows}
    skipped = {name for name in every.names if not is_needed(name)}
    assert {name for name in skipped & having if name not in known and not GRAPH.fullmatch(name)} == set()
    assert any(name.startswith("end: ") for name in skipped) and not find_ambiguous(known) & skipped


def test_instructions_of_the_same_name_are_told_apart_by_their_module(tmp_path):
    a = tf.Variable(tf.random.stateless_uniform([300, 300], [1, 2]))

    def make(mark):
        @tf.function(jit_compile=True)
        def product():
            with tf.name_scope(f"tfperf.{mark}"):
                return tf.matmul(a, a)

        return product

    first, second = make("forward"), make("update")
    with capture(tmp_path, steps=4, skip=2) as taken:
        for i in range(6):
            with taken.step(i):
                for one in (first, second):
                    one().numpy()
    spaces = read_spaces(tmp_path)
    known = list_instructions(spaces.values())
    shared = find_ambiguous(known)
    assert shared, "no name in common: the test shows nothing"
    check_skipped_stats(spaces, known)
    counts = {(c.name in shared, c.phase): c.count for c in read_attribution(tmp_path).costs if c.name in shared}
    assert counts == {(True, "forward"): 1, (True, "update"): 1}


def test_a_function_that_holds_what_is_not_there_yet_is_named():
    def make():
        @tf.function
        def step(x):
            return x + later if x.shape.rank else x

        step(tf.constant(1.0))
        seen = list_seen([step])
        later = 1.0
        return seen, later

    (name,) = make()[0].traced
    assert name.endswith("make.<locals>.step")
