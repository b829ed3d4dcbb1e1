"""Work that a capture notes of the graphs that ran."""

import gc

import tensorflow as tf

from tests.trace.profiles import us, write
from tfperf.trace import noted_work
from tfperf.trace.capture import capture
from tfperf.trace.noted_work import complete_shapes, find_noted_work
from tfperf.trace.notes import read_notes
from tfperf.trace.planes import read_spaces


def note(tmp_path, graph, *events):
    path = write(
        tmp_path / "vm.xplane.pb", {"/host:CPU": {"m": us(*((event, i, 1) for i, event in enumerate(events)))}}
    )
    rows = find_noted_work(read_spaces(path).values(), [graph])
    return {(row["name"], row["kind"]): (row["flops"], row["bytes"]) for row in rows}


def make_graph(rows=None):
    """A dense layer whose output is flattened by a shape that is computed, and its update of a variable."""
    weight, total = tf.Variable(tf.ones([5, 7])), tf.Variable(tf.zeros([7]))

    @tf.function(input_signature=[tf.TensorSpec([rows, 5])])
    def step(x):
        y = tf.nn.relu(tf.nn.bias_add(tf.matmul(x, weight, name="product"), tf.ones([7]), name="bias"), name="relu")
        total.assign_add(tf.reduce_sum(y, 0))
        return tf.square(tf.reshape(y, [tf.shape(y)[0] * 7]), name="flat")

    return step.get_concrete_function().graph


def test_a_batch_that_is_not_fixed_is_that_of_the_datasets(tmp_path, monkeypatch):
    monkeypatch.setattr(noted_work, "find_batch_size", lambda: 3)
    events = "f/product:MatMul", "f/flat:Square", "AssignAddVariableOp:AssignAddVariableOp"
    found = note(tmp_path, make_graph(), *(event.removeprefix("f/") for event in events), "step/relu:_FusedMatMul")
    assert found["product", "MatMul"] == (2 * 3 * 5 * 7, 4 * (15 + 35 + 21))
    assert found["flat", "Square"] == (21, 4 * 42), "the product of shapes is worked out, not taken for the batch"
    assert found["AssignAddVariableOp", "AssignAddVariableOp"] == (7, 4 * 21)
    monkeypatch.setattr(noted_work, "find_batch_size", lambda: None)
    assert set(note(tmp_path, make_graph(), *(event.removeprefix("f/") for event in events))) == {
        ("AssignAddVariableOp", "AssignAddVariableOp")
    }


def test_what_is_fused_with_a_product_is_one_operation(tmp_path):
    found = note(tmp_path, make_graph(3), "while/body/_5/relu:_MklNativeFusedMatMul", "other:Mul")
    # product, bias and activation; what goes between them stays where it is
    assert found == {("relu", "FusedMatMul"): (2 * 3 * 5 * 7 + 2 * 21, 4 * (15 + 35 + 7 + 21))}


def test_a_name_that_stands_for_different_work_is_left_out(tmp_path):
    path = write(tmp_path / "vm.xplane.pb", {"/host:CPU": {"m": us(("product:MatMul", 0, 1))}})
    graphs = [make_graph(3), make_graph(4)]
    assert find_noted_work(read_spaces(path).values(), graphs) == []
    assert len(find_noted_work(read_spaces(path).values(), graphs[:1] * 2)) == 1


def test_only_leading_dimensions_are_taken_for_the_batch():
    @tf.function(input_signature=[tf.TensorSpec([None, None, 5]), tf.TensorSpec([None])])
    def step(x, y):
        return tf.identity(x, name="two"), tf.identity(y, name="one")

    found = complete_shapes(step.get_concrete_function().graph, 3)
    assert found["one:0"] == (3,) and "two:0" not in found


def test_a_capture_notes_the_machine_and_what_ran(tmp_path):
    weight = tf.Variable(tf.ones([30, 20]))

    @tf.function
    def step(x):
        return tf.reduce_sum(tf.matmul(x, weight, name="noted_product"))

    batches = list(tf.data.Dataset.from_tensor_slices(tf.ones([40, 30])).batch(10))
    with capture(tmp_path, steps=2, skip=1) as window:
        for number, batch in enumerate(batches):
            with window.step(number):
                step(batch).numpy()
    notes = read_notes(tmp_path)
    assert notes.cpu and notes.cores and notes.threads and not notes.missing
    assert [(one.name, one.flops) for one in notes.work if one.name == "noted_product"] == [
        ("noted_product", 2 * 10 * 30 * 20)
    ]


def test_padded_batches_count_as_batches(monkeypatch):
    data = tf.data.Dataset.range(8)
    kept = [data.padded_batch(4), data.batch(2)]
    monkeypatch.setattr(gc, "get_objects", lambda: kept)
    assert noted_work.find_batch_size() is None
    kept.pop()
    assert noted_work.find_batch_size() == 4
