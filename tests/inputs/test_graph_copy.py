"""Copies give the elements of their datasets, and leave no trace in them."""

import numpy as np
import pytest
import tensorflow as tf

from tfperf.errors import UserError
from tfperf.inputs.graph_copy import copy_graph, make_flat_spec
from tfperf.inputs.graph_nodes import list_dataset_inputs, name_inputs, read_constant


def flat(dataset):
    return [[np.asarray(one).tolist() for one in tf.nest.flatten(element)] for element in dataset]


def make_records(folder):
    path = str(folder / "records")
    with tf.io.TFRecordWriter(path) as writer:
        for text in (b"a", b"bc", b"def"):
            writer.write(text)
    return tf.data.TFRecordDataset(path)


TABLE_KEYS = [3, 4]


def make_table():
    rows = tf.lookup.KeyValueTensorInitializer(tf.constant(TABLE_KEYS, tf.int64), tf.constant([30, 40], tf.int64))
    return tf.lookup.StaticHashTable(rows, -1)


MAKERS = {
    "arrays": lambda folder: tf.data.Dataset.from_tensor_slices({"x": np.arange(6.0), "y": np.arange(6)}).batch(4),
    "generator": lambda folder: tf.data.Dataset.from_generator(
        lambda: iter([1, 2, 3]), output_signature=tf.TensorSpec([], tf.int32)
    ).enumerate(),
    "records": make_records,
    "python": lambda folder: tf.data.Dataset.range(3).map(lambda x: tf.numpy_function(np.square, [x], tf.int64)),
    "table": lambda folder: tf.data.Dataset.range(5).map(make_table().lookup),
    "zip": lambda folder: tf.data.Dataset.zip((tf.data.Dataset.range(3), tf.data.Dataset.range(9).skip(4))),
    "ragged": lambda folder: tf.data.Dataset.range(4).ragged_batch(2),
    "interleave": lambda folder: tf.data.Dataset.range(3).interleave(
        lambda i: tf.data.Dataset.from_tensors(i).repeat(2), cycle_length=2, num_parallel_calls=2
    ),
}


@pytest.mark.parametrize("name", MAKERS)
def test_a_copy_gives_the_same_elements(name, tmp_path):
    dataset = MAKERS[name](tmp_path)
    copy = copy_graph(dataset)
    assert flat(copy.build()) == flat(dataset)


def test_a_dataset_is_cut_after_any_stage():
    dataset = tf.data.Dataset.range(6).map(lambda x: x + 1).batch(4).map(lambda x: x * 10)
    copy = copy_graph(dataset)
    cuts = {node.op: flat(copy.cut(node.name).build()) for node in copy.graph.node if "Dataset" in node.op}
    assert cuts["RangeDataset"] == [[i] for i in range(6)]
    assert cuts["BatchDatasetV2"] == [[[1, 2, 3, 4]], [[5, 6]]]
    assert flat(dataset) == [[[10, 20, 30, 40]], [[50, 60]]]


def test_shuffles_of_a_copy_do_not_advance_those_of_the_dataset():
    def make():
        return tf.data.Dataset.range(40).shuffle(40, seed=5)

    untouched, dataset = make(), make()
    tf.random.set_seed(1)
    want = [flat(untouched) for _ in range(3)]
    tf.random.set_seed(1)
    got = [flat(dataset)]
    copy = copy_graph(dataset)
    assert sorted(flat(copy.build())) == sorted(want[0])
    got += [flat(dataset), flat(dataset)]
    assert got == want and want[0] != want[1]


def test_caches_of_a_copy_are_its_own(tmp_path):
    calls = []

    def note(x):
        calls.append(x)
        return x

    dataset = tf.data.Dataset.range(3).map(lambda x: tf.numpy_function(note, [x], tf.int64)).cache()
    copy = copy_graph(dataset)
    for _ in range(2):
        flat(copy.build())
    assert len(calls) == 6
    flat(dataset)
    flat(dataset)
    assert len(calls) == 9  # the dataset's own cache was empty, and is full after one pass
    in_files = tf.data.Dataset.range(3).cache(str(tmp_path / "cache"))
    copy = copy_graph(in_files)
    assert flat(copy.build()) == [[0], [1], [2]] and not list(tmp_path.iterdir())


def test_variables_of_a_copy_are_its_own():
    calls = tf.Variable(4)
    dataset = tf.data.Dataset.range(3).map(lambda x: calls.assign_add(1))
    copy = copy_graph(dataset)
    assert flat(copy.build()) == [[5], [6], [7]] and int(calls) == 4
    assert flat(dataset) == [[5], [6], [7]] and int(calls) == 7


def test_options_of_the_dataset_hold_for_its_copy():
    options, more = tf.data.Options(), tf.data.Options()
    options.threading.private_threadpool_size = 3
    more.autotune.enabled = False
    built = copy_graph(tf.data.Dataset.range(3).with_options(options)).build(more).options()
    assert built.threading.private_threadpool_size == 3 and built.autotune.enabled is False


def test_inputs_have_the_names_of_their_arguments():
    offset = tf.constant(7, tf.int64)
    dataset = tf.data.Dataset.range(6).map(lambda x: x + offset, num_parallel_calls=3).shuffle(2)
    copy = copy_graph(dataset)
    by_op = {node.op: node for node in copy.graph.node}
    mapped, shuffled = by_op["ParallelMapDatasetV2"], by_op["ShuffleDataset"]
    assert read_constant(mapped, "num_parallel_calls", copy.nodes) == 3
    assert len(name_inputs(mapped)["other_arguments"]) == 1
    assert read_constant(shuffled, "buffer_size", copy.nodes) == 2
    assert read_constant(shuffled, "cycle_length", copy.nodes) is None
    assert list_dataset_inputs(shuffled, copy.nodes) == [mapped.name]
    assert make_flat_spec(shuffled) == (tf.TensorSpec([], tf.int64),)


def test_a_graph_that_is_too_large_to_be_written_is_told(monkeypatch):
    monkeypatch.setattr(tf.raw_ops, "DatasetToGraphV2", lambda **settings: tf.constant(b""))
    with pytest.raises(UserError, match="larger than 2 GB"):
        copy_graph(tf.data.Dataset.range(3))
