"""A store is refused once what it was made of has changed, and says what."""

import os
import subprocess
import sys

import pytest
import tensorflow as tf

import tfperf
from tests.stores.pipelines import make, prepare, read_bytes, store
from tfperf.errors import UserError
from tfperf.inputs.graph_copy import read_graph
from tfperf.stores.fingerprint import hash_pipeline
from tfperf.stores.manifest import StoreManifest


def make_read(folder, scale=1.0):
    files = tf.data.Dataset.from_tensor_slices(sorted(str(path) for path in folder.glob("*.txt")))
    numbers = files.shuffle(9, seed=1).map(
        lambda path: tf.strings.to_number(tf.io.read_file(path)) * scale, name="prepare"
    )
    return numbers.batch(2)


@pytest.fixture
def texts(tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    for number in range(6):
        (folder / f"{number}.txt").write_text(str(number))
    store(tmp_path / "store", make_read(folder))
    return folder


def test_files_that_changed_are_named(texts, tmp_path):
    assert read_bytes(tfperf.open_store(tmp_path / "store", pipeline=make_read(texts))) == read_bytes(make_read(texts))
    (texts / "3.txt").write_text("7")
    with pytest.raises(UserError, match=r"changed .*3\.txt; store again"):
        tfperf.open_store(tmp_path / "store", pipeline=make_read(texts))


def test_files_that_are_new_or_gone_are_named(texts, tmp_path):
    os.rename(texts / "5.txt", texts / "6.txt")
    with pytest.raises(UserError, match=r"missing .*5\.txt; new .*6\.txt"):
        tfperf.open_store(tmp_path / "store", pipeline=make_read(texts))


def test_files_that_change_while_elements_are_stored_are_named(tmp_path):
    file = tmp_path / "factor.txt"
    file.write_text("2")

    def change(number):
        if number == 40:
            file.write_text("33")
        return number

    def multiply(number):
        factor = tf.strings.to_number(tf.io.read_file(str(file)), tf.int64)
        return factor * tf.ensure_shape(tf.numpy_function(change, [number], tf.int64), ())

    with pytest.raises(UserError, match=r"while the elements were stored: changed .*factor\.txt; nothing was kept"):
        store(tmp_path / "store", tf.data.Dataset.range(50).map(multiply, name="prepare"))
    assert [path.name for path in tmp_path.iterdir()] == ["factor.txt"]


def test_values_in_stored_stages_count(texts, tmp_path):
    with pytest.raises(UserError, match=r"the stages up to 'prepare' \(map\), or values"):
        tfperf.open_store(tmp_path / "store", pipeline=make_read(texts, 2.0))


def test_a_stage_that_is_gone_is_named(tmp_path):
    store(tmp_path / "store", make("in order"))
    with pytest.raises(UserError, match="has changed: stage: got prepare; the pipeline has no stage of that name"):
        tfperf.open_store(tmp_path / "store", pipeline=tf.data.Dataset.range(9))


PROGRAM = """
from tests.stores.pipelines import make
from tfperf.inputs.graph_copy import read_graph
from tfperf.stores.fingerprint import hash_pipeline
print(hash_pipeline(read_graph(make("files side by side"))))
"""


@pytest.mark.slow
def test_a_fingerprint_is_the_same_in_another_process():
    found = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout
    assert found.strip() == hash_pipeline(read_graph(make("files side by side")))


def test_a_fingerprint_does_not_depend_on_what_was_made_before():
    first = hash_pipeline(read_graph(make("files side by side")))
    make("shuffled")
    assert hash_pipeline(read_graph(make("files side by side"))) == first


CHANGES = {
    "a constant": lambda: tf.data.Dataset.range(9).map(lambda i: i + 2),
    "an operation": lambda: tf.data.Dataset.range(9).map(lambda i: i * 1),
    "a source": lambda: tf.data.Dataset.range(8).map(lambda i: i + 1),
    "a stage": lambda: tf.data.Dataset.range(9).map(lambda i: i + 1).map(lambda i: i + 0),
    "inside a function": lambda: tf.data.Dataset.range(9).interleave(lambda i: tf.data.Dataset.from_tensors(i + 1)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_each_change_has_another_fingerprint(name):
    def get(dataset):
        return hash_pipeline(read_graph(dataset))

    truth = get(tf.data.Dataset.range(9).map(lambda i: i + 1))
    assert get(CHANGES[name]()) != truth
    assert get(tf.data.Dataset.range(9).map(lambda i: i + 1, num_parallel_calls=4, name="x").prefetch(3)) == truth


def test_a_function_that_is_called_inside_counts():
    @tf.function
    def double(x):
        return x * 2

    @tf.function
    def triple(x):
        return x * 3

    digests = {hash_pipeline(read_graph(tf.data.Dataset.range(3).map(lambda i, f=f: f(i)))) for f in (double, triple)}
    assert len(digests) == 2


def make_ragged(values):
    return tf.ragged.constant([[1, 2], values, [6, 7, 8]], dtype=tf.int64)


def make_sparse(values):
    return tf.sparse.from_dense([[1, 0, 2], [*values, 0], [0, 0, 0]])


SLICED = {"ragged": make_ragged, "sparse": make_sparse, "both": lambda values: {
    "a": make_ragged(values), "b": make_sparse(values)}}  # fmt: skip


@pytest.mark.parametrize("make_source", [tf.data.Dataset.from_tensor_slices, tf.data.Dataset.from_tensors])
@pytest.mark.parametrize("kind", SLICED)
def test_values_of_ragged_and_sparse_arrays_count(kind, make_source, tmp_path):
    def make_sliced(values):
        def add(one):
            parts = tf.nest.flatten(one, expand_composites=True)
            return tf.add_n([tf.reduce_sum(tf.cast(part, tf.int64)) for part in parts])

        return make_source(SLICED[kind](values)).map(add, name="prepare").batch(2)

    store(tmp_path / "store", make_sliced([3, 5]))
    got = tfperf.open_store(tmp_path / "store", pipeline=make_sliced([3, 5]))
    assert read_bytes(got) == read_bytes(make_sliced([3, 5])) != read_bytes(make_sliced([3, 4]))
    with pytest.raises(UserError, match=r"the stages up to 'prepare' \(map\), or values"):
        tfperf.open_store(tmp_path / "store", pipeline=make_sliced([3, 4]))


def test_another_number_of_elements_is_told(tmp_path, monkeypatch):
    store(tmp_path / "store", make("shuffled"))
    known = StoreManifest.read(tmp_path / "store").fingerprint
    monkeypatch.setattr("tfperf.stores.applying.hash_pipeline", lambda made: known)
    longer = tf.data.Dataset.range(51).map(prepare, name="prepare").batch(4)
    with pytest.raises(UserError, match="it gives 51 elements, 50 are stored; store again"):
        tfperf.open_store(tmp_path / "store", pipeline=longer)
