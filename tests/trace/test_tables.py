"""Variables that no step changes, and tables of which steps take few rows."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfperf.trace.functions import find_constant_operations, find_frozen, sample_untrained
from tfperf.trace.tables import find_table_work


def get_kinds(graph, names):
    return {operation.type for operation in graph.get_operations() if operation.name in names}


def test_all_that_an_optimizer_does_to_a_table_is_found_also_where_it_gives_nothing():
    words = keras.layers.Embedding(40, 3, name="words")
    words.build(())
    table, other = words.embeddings.value, tf.Variable(tf.zeros([5, 3]), name="other")

    @tf.function
    def step(gradient):
        with tf.name_scope("adam"):
            table.assign_sub(2.0 * gradient)
            other.assign_add(gradient[:5])
        return tf.reduce_sum(table)

    graph = step.get_concrete_function(tf.ones([40, 3])).graph
    found = dict(find_table_work(["adam"], [graph]))
    kinds = get_kinds(graph, {name for name, table in found.items() if table == "words"})
    assert {"Mul", "AssignSubVariableOp"} <= kinds and "AssignAddVariableOp" not in kinds and "Sum" not in kinds


@pytest.mark.parametrize("rows, count, product, told", [
    (2000, 8, False, True), (2000, 8, True, False),  # words whose logits are products with the same table
    (2000, 1500, False, False), (500, 8, False, False),
])  # fmt: skip
def test_what_a_step_does_to_all_rows_of_a_table_is_told_where_it_takes_few(rows, count, product, told):
    table = tf.Variable(tf.random.normal([rows, 6]), name="entities")

    @tf.function
    def step(which):
        some = tf.gather(table, which)
        table.scatter_sub(tf.IndexedSlices(0.1 * some, which))
        table.assign(tf.math.l2_normalize(table, 1))
        return tf.reduce_sum(some @ tf.transpose(table) if product else some)

    graph = step.get_concrete_function(tf.zeros([count], tf.int32)).graph
    found = dict(find_table_work(["adam"], [graph]))
    kinds = get_kinds(graph, found)
    assert bool(found) == told
    if told:
        assert set(found.values()) == {"entities"} and {"Square", "Mul", "AssignVariableOp"} <= kinds
        assert not {"ResourceGather", "ResourceScatterSub"} & kinds


def test_a_penalty_on_a_table_makes_work_of_all_its_rows():
    table = tf.Variable(tf.random.normal([2000, 6]), name="items")

    @tf.function
    def step(which):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(table, which)) + tf.reduce_sum(tf.square(table))
        table.assign_sub(0.1 * tf.convert_to_tensor(tape.gradient(loss, table)))
        return loss

    graph = step.get_concrete_function(tf.zeros([8], tf.int32)).graph
    assert {"Square", "Sum", "AssignSubVariableOp"} <= get_kinds(graph, dict(find_table_work(["adam"], [graph])))


def test_what_depends_on_frozen_weights_alone_is_constant():
    prompts = tf.constant(np.ones((4, 3), np.float32))
    frozen, learned = keras.layers.Dense(5, name="frozen"), keras.layers.Dense(5, name="learned")
    for layer in (frozen, learned):
        layer.build((None, 3))
    frozen.trainable = False
    counted = tf.Variable(0.0, trainable=False)

    @tf.function
    def step(x):
        counted.assign_add(1.0)
        texts = tf.tanh(frozen(prompts), name="texts")
        return tf.reduce_sum(texts * counted.read_value() + tf.tanh(learned(prompts), name="rows") + frozen(x))

    graph = step.get_concrete_function(tf.ones([4, 3])).graph
    names = find_constant_operations([graph])
    assert "texts" in names and "rows" not in names
    assert id(frozen.kernel.value.handle) in find_frozen([graph])
    assert not {id(counted.handle), id(learned.kernel.value.handle)} & find_frozen([graph])


def test_a_weight_that_another_function_changes_is_not_frozen():
    kept, other = keras.Variable(np.ones(3), dtype="float32", trainable=False), tf.Variable(1.0, trainable=False)

    @tf.function
    def use():
        return tf.reduce_sum(tf.exp(kept.value, name="used")) + tf.exp(other, name="by_hand")

    @tf.function
    def change():
        for _ in tf.range(2):
            kept.value.assign(kept.value * 0.9)

    graphs = [use.get_concrete_function().graph]
    assert id(kept.value.handle) in find_frozen(graphs) and "used" in find_constant_operations(graphs)
    assert "by_hand" not in find_constant_operations(graphs)  # which Python may assign at any time
    change()
    names = find_constant_operations()  # of all that there are
    assert "used" not in names


def test_a_table_whose_words_other_weights_score_is_one_and_sparse_updates_are_no_work_on_all_rows():
    words = keras.layers.Embedding(3000, 4, name="scored")
    words.build(())
    table, scores = words.embeddings.value, tf.Variable(tf.random.normal([4, 3000]), name="scores")

    @tf.function
    def step(which):
        logits = tf.gather(table, which) @ scores
        with tf.name_scope("adam"):
            table.assign_sub(0.1 * tf.square(table))
            table.scatter_sub(tf.IndexedSlices(tf.ones([8, 4]), which))
        return logits

    graph = step.get_concrete_function(tf.zeros([8], tf.int32)).graph
    found = dict(find_table_work(["adam"], [graph]))
    kinds = get_kinds(graph, found)
    assert "scored" in found[next(iter(found))] and "Square" in kinds and "ResourceScatterSub" not in kinds


def test_rows_of_what_is_computed_from_all_of_a_variable_are_no_table():
    users = tf.Variable(tf.random.normal([2000, 6]), name="users")
    edges = tf.sparse.from_dense(tf.eye(2000))

    @tf.function
    def step(which):
        return tf.reduce_sum(tf.gather(tf.sparse.sparse_dense_matmul(edges, users), which)) + tf.gather(users, which)

    graph = step.get_concrete_function(tf.zeros([8], tf.int32)).graph
    assert not find_table_work(["adam"], [graph])


def test_a_weight_that_python_changes_while_steps_are_recorded_is_not_frozen():
    teacher = keras.layers.Dense(5)
    teacher.build((None, 3))
    teacher.trainable = False

    @tf.function
    def step():
        return tf.tanh(teacher(tf.ones([4, 3])), name="guide")

    graphs, before = [step.get_concrete_function().graph], sample_untrained()
    assert "guide" in find_constant_operations(graphs, before)
    teacher.kernel.assign(0.9 * teacher.kernel)
    assert "guide" not in find_constant_operations(graphs, before)


def test_weights_that_cannot_be_read_end_no_training():
    empty = keras.Variable(np.ones((0, 3)), dtype="float32", trainable=False)
    kept = keras.Variable(np.ones(3), dtype="float32", trainable=False)
    found = sample_untrained()
    assert id(kept.value.handle) in found and id(empty.value.handle) not in found


def test_to_look_at_a_table_leaves_its_reads_as_they_are(monkeypatch):
    """A variable that was gathered from is copied by each read since then: 150 MB a step of a large table."""
    table = keras.layers.Embedding(1000, 8, trainable=False)
    table.build(())

    def is_shared():
        one, other = (memoryview(table.embeddings.value.read_value()) for _ in range(2))
        return np.shares_memory(np.asarray(one), np.asarray(other))

    assert is_shared()
    assert id(table.embeddings.value.handle) in sample_untrained() and is_shared()
    monkeypatch.setattr("tfperf.trace.functions.LARGEST_WEIGHT", 1000 * 8 * 4 - 1)
    assert id(table.embeddings.value.handle) not in sample_untrained(), "a read may copy it"
    table.embeddings.value.sparse_read([0])
    assert not is_shared(), "reads are not told apart: the test shows nothing"


def test_a_matrix_that_is_not_trained_is_constant_where_nothing_changes_it():
    """No weight of Keras', as the covariance of some noise; or a bank, of which Python assigns the later rows."""
    kept = tf.Variable(tf.random.normal((8, 8)), trainable=False)
    bank = tf.Variable(tf.random.normal((8, 8)), trainable=False)

    @tf.function
    def step(x):
        return tf.matmul(tf.linalg.inv(kept, name="kept"), x) + tf.nn.l2_normalize(bank, 1, name="bank")

    graphs, before = [step.get_concrete_function(tf.TensorSpec((8, 8))).graph], sample_untrained()
    found = find_constant_operations(graphs, before)
    assert "kept" in found and "bank" in found
    bank[5:7].assign(tf.zeros((2, 8)))
    found = find_constant_operations(graphs, before)
    assert "kept" in found and "bank" not in found
    assert "kept" not in find_constant_operations(graphs), "without an earlier look nobody knows"
