"""Stored elements in their pipeline are those of the pipeline, bit by bit and pass by pass."""

import h5py
import numpy as np
import pytest
import tensorflow as tf

import tfperf
from tests.stores.pipelines import BEFORE, COUNT, make, prepare, read_bytes, store
from tfperf.errors import UserError
from tfperf.inputs.graph_copy import copy_graph
from tfperf.stores.fingerprint import iterate_nodes


@pytest.mark.parametrize("kind", BEFORE)
def test_three_passes_are_those_of_the_pipeline(kind, tmp_path):
    store(tmp_path / "store", make(kind))
    truth, got = make(kind), tfperf.open_store(tmp_path / "store", pipeline=make(kind))
    assert got.element_spec == truth.element_spec
    want = read_bytes(truth, 3)
    assert read_bytes(got, 3) == want and want[: len(want) // 3] != want[len(want) // 3 : 2 * len(want) // 3]


@pytest.mark.parametrize("kind", ["in order", "shuffled"])
def test_stored_stages_are_not_run(kind, tmp_path):
    calls = []

    def note(number):
        calls.append(number)
        return number

    def make_noting():
        dataset = BEFORE[kind](tf.data.Dataset.range(COUNT))
        dataset = dataset.map(lambda i: tf.ensure_shape(tf.numpy_function(note, [i], tf.int64), ()), name="prepare")
        return dataset.map(lambda i: i * 2).batch(7)

    store(tmp_path / "store", make_noting())
    want, passed = read_bytes(make_noting()), len(calls)
    assert read_bytes(tfperf.open_store(tmp_path / "store", pipeline=make_noting())) == want
    assert len(calls) == passed > COUNT


def test_elements_are_read_in_the_order_of_their_source_and_nest_as_they_did(tmp_path):
    store(tmp_path / "store", make("shuffled"))
    truth = tf.data.Dataset.range(COUNT).map(prepare)
    got = tfperf.open_store(tmp_path / "store")
    assert got.element_spec == truth.element_spec and int(got.cardinality()) == COUNT
    assert read_bytes(got) == read_bytes(truth)
    with h5py.File(tmp_path / "store" / "elements.h5") as file:  # any other program reads them, too
        assert file["elements"].dtype["0"].base == np.uint8 and file["elements"].chunks is None
        assert np.array_equal(file["elements"]["1.a"], np.arange(COUNT, dtype=np.float32) / 3)


def test_chunks_come_whole_in_another_order(tmp_path):
    store(tmp_path / "store", make("in order"))
    want = read_bytes(tfperf.open_store(tmp_path / "store"))
    got = tfperf.open_store(tmp_path / "store", chunk=8, seed=3)
    first, second = read_bytes(got), read_bytes(got)
    assert int(got.cardinality()) == COUNT
    assert first != want and first != second and sorted(first) == sorted(second) == sorted(want)
    again = read_bytes(tfperf.open_store(tmp_path / "store", chunk=8, seed=3))
    assert again == first
    with pytest.raises(UserError, match="chunk: got 0"):
        tfperf.open_store(tmp_path / "store", chunk=0)


TYPES = ("bfloat16", "bool", "complex64", "float16", "float64", "int16", "int64", "int8", "uint16", "uint32", "uint64")


def test_all_types_of_numbers_are_kept(tmp_path):
    dataset = tf.data.Dataset.range(1, 9).map(
        lambda i: {name: tf.cast(tf.fill((2, 1), i), name) for name in TYPES}, name="prepare"
    )
    store(tmp_path / "store", dataset)
    assert read_bytes(tfperf.open_store(tmp_path / "store")) == read_bytes(dataset)
    both = tfperf.open_store(tmp_path / "store", pipeline=dataset.shuffle(8, seed=1))
    assert both.element_spec == dataset.element_spec


@pytest.mark.parametrize("size", [1, 5, 4096, 5_000_001])
def test_elements_of_any_size_are_found_by_their_number(size, tmp_path):
    def make_sized():
        dataset = tf.data.Dataset.range(5).shuffle(5, seed=1)
        return dataset.map(lambda i: tf.fill((size,), tf.cast(i, tf.uint8)), name="prepare")

    store(tmp_path / "store", make_sized())
    assert read_bytes(tfperf.open_store(tmp_path / "store", pipeline=make_sized())) == read_bytes(make_sized())


def test_without_a_name_all_that_is_deterministic_is_stored(tmp_path):
    dataset = tf.data.Dataset.range(9).map(lambda i: i * i).map(lambda i: i + 1).batch(2)
    found = tfperf.store(dataset, tmp_path / "store")
    assert found.summary["elements"] == 9 and found.summary["stage"] is None
    got = tfperf.open_store(tmp_path / "store", pipeline=dataset)
    assert read_bytes(got) == read_bytes(dataset)
    ops = {node.op for node in iterate_nodes(copy_graph(got))}
    assert "FixedLengthRecordDatasetV2" in ops and "BatchDatasetV2" in ops and "RangeDataset" not in ops


def test_order_and_tuning_may_change_without_storing_again(tmp_path):
    store(tmp_path / "store", make("shuffled"))
    for kind, options in (("shuffled, taken", {}), ("in order", {"num_parallel_calls": 2, "deterministic": False})):
        got = tfperf.open_store(tmp_path / "store", pipeline=make(kind, **options))
        assert read_bytes(got) == read_bytes(make(kind))


def test_a_finished_store_is_verified_when_it_is_stored_again(tmp_path):
    first = store(tmp_path / "store", make("shuffled"))
    before = {path: path.read_bytes() for path in (tmp_path / "store").iterdir()}
    assert store(tmp_path / "store", make("shuffled")).summary == first.summary
    assert {path: path.read_bytes() for path in (tmp_path / "store").iterdir()} == before
