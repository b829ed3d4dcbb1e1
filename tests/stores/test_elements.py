"""Elements of any kind are stored as they are, or refused with words."""

import os
import signal
import threading
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf

import tfperf
from tests.stores.pipelines import read_bytes, store
from tfperf.errors import Interrupted, UserCodeError, UserError
from tfperf.inputs.graph_copy import copy_graph
from tfperf.stores import first_elements

NUMBERS = tf.data.Dataset.range(5)


class Named(NamedTuple):
    """A tuple with names."""

    left: tf.Tensor
    right: tf.Tensor


def halve(number):
    return tf.cast(number, tf.float32) / 2


KINDS = {
    "scalars": lambda i: i,
    "texts and truths as numbers": lambda i: (i > 2, tf.strings.length(tf.strings.as_string(i))),
    "bfloat16": lambda i: {"x": tf.cast(halve(i), tf.bfloat16), "y": tf.cast(tf.fill((2, 1), i), tf.bfloat16)},
    "a tuple of one": lambda i: (i,),
    "nested": lambda i: ({"b": (i, {"c": halve(i)}), "a": i + 1}, ((i + 2, i + 3), {"": i, "d/e": i + 4})),
    "the same names": lambda i: {"a.b": i, "a": {"b": i + 1}},
    "no values in some": lambda i: (
        tf.zeros((0, 2)),
        i,
        {"x": tf.zeros((3, 0), tf.bool), "y": tf.zeros((0,), tf.int8)},
    ),
}


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_elements_come_back_as_they_were(kind, shuffled, tmp_path):
    def make():
        source = NUMBERS.shuffle(5, seed=1) if shuffled else NUMBERS
        return source.map(KINDS[kind], name="prepare").batch(2)

    store(tmp_path / "store", make())
    whole, plain = tfperf.open_store(tmp_path / "store", pipeline=make()), NUMBERS.map(KINDS[kind])
    assert whole.element_spec == make().element_spec and read_bytes(whole) == read_bytes(make())
    for got in (tfperf.open_store(tmp_path / "store"), tfperf.open_store(tmp_path / "store", chunk=9)):
        assert got.element_spec == plain.element_spec
        assert sorted(read_bytes(got)) == sorted(read_bytes(plain))
    assert read_bytes(tfperf.open_store(tmp_path / "store")) == read_bytes(plain)


@pytest.mark.parametrize("name", ["prepare", None])
def test_how_elements_nest_is_found_without_a_name_too(name, tmp_path):
    cached = NUMBERS.map(lambda i: {"a": i, "b": (i, halve(i))}, name=name).cache(str(tmp_path / "cache"))
    dataset = cached.with_options(tf.data.Options()).shuffle(5).map(lambda one: tf.random.uniform(()) * one["b"][1])
    tfperf.store(dataset, tmp_path / "store")
    got = tfperf.open_store(tmp_path / "store")
    assert got.element_spec == cached.element_spec and read_bytes(got) == read_bytes(cached)


def test_tuples_with_names_come_as_plain_ones_without_their_pipeline(tmp_path):
    dataset = NUMBERS.map(lambda i: {"x": Named(i, halve(i))}, name="prepare")
    store(tmp_path / "store", dataset)
    assert tfperf.open_store(tmp_path / "store", pipeline=dataset).element_spec == dataset.element_spec
    got = tfperf.open_store(tmp_path / "store")
    assert got.element_spec == {"x": tuple(dataset.element_spec["x"])} and read_bytes(got) == read_bytes(dataset)


def test_nests_that_cannot_be_kept_are_refused_without_their_pipeline(tmp_path):
    dataset = NUMBERS.map(lambda i: {1: i, 2: i + 1}, name="prepare")
    store(tmp_path / "store", dataset)
    assert read_bytes(tfperf.open_store(tmp_path / "store", pipeline=dataset)) == read_bytes(dataset)
    for chunk in (None, 2):
        with pytest.raises(UserError, match=r"how its elements nest cannot be told.*give pipeline"):
            tfperf.open_store(tmp_path / "store", chunk=chunk)


def make_sparse(number):
    return tf.SparseTensor(tf.zeros((1, 1), tf.int64), [number], [9])


OTHERS = {
    "sparse": (lambda i: (i, make_sparse(i)), "component 1 is of type variant, as ragged and sparse tensors"),
    "ragged": (lambda i: tf.RaggedTensor.from_row_lengths([i, i], [2, 0]), "component 0 is of type variant"),
    "texts": (lambda i: {"x": tf.fill((2,), "a"), "y": i}, "component x is of type string, whose values have no fixed"),
    "small": (
        lambda i: tf.cast(halve(i), tf.dtypes.experimental.float8_e5m2),
        "type float8_e5m2, which a store does not hold",
    ),
    "no values": (lambda i: (tf.zeros((0,)), tf.zeros((2, 0))), "its elements have no values"),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_other_elements_are_refused(kind, tmp_path):
    function, said = OTHERS[kind]
    for after in ("prepare", None):
        with pytest.raises(UserError, match=said if after else "none can be stored by itself|have no values"):
            tfperf.store(NUMBERS.map(function, name="prepare").prefetch(1), tmp_path / "store", after=after)
    assert not list(tmp_path.iterdir())


def test_windows_are_refused_and_what_comes_before_them_is_chosen(tmp_path):
    dataset = NUMBERS.map(lambda i: i * 3).window(2)
    found = tfperf.store(dataset, tmp_path / "store")
    assert found.summary["components"] == ["0 int64 ()"] and found.summary["elements"] == 5
    with pytest.raises(UserError, match="of type variant, as ragged and sparse tensors and datasets are"):
        store(tmp_path / "other", NUMBERS.window(2, name="prepare"))


@pytest.mark.parametrize("count", [0, 1])
def test_one_element_is_enough(count, tmp_path):
    def make(**options):
        return NUMBERS.take(count).shuffle(3, seed=1).map(halve, name="prepare", **options).repeat(2).batch(3)

    if not count:
        with pytest.raises(UserError, match="has no elements"):
            store(tmp_path / "store", make())
        return
    store(tmp_path / "store", make())
    assert read_bytes(tfperf.open_store(tmp_path / "store", pipeline=make())) == read_bytes(make())
    for chunk in (None, 3):
        assert read_bytes(tfperf.open_store(tmp_path / "store", chunk=chunk)) == [[np.float32(0).tobytes()]]


ENDLESS = {
    "repeated before": lambda: NUMBERS.repeat().map(halve, name="prepare"),
    "repeated after": lambda: NUMBERS.map(halve, name="prepare").repeat(),
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_of_an_endless_dataset_one_pass_is_stored(kind, tmp_path):
    store(tmp_path / "store", ENDLESS[kind]())
    got = tfperf.open_store(tmp_path / "store", pipeline=ENDLESS[kind]())
    assert read_bytes(got.take(12)) == read_bytes(ENDLESS[kind]().take(12))
    assert int(tfperf.open_store(tmp_path / "store").cardinality()) == 5


def test_of_large_elements_few_are_kept_in_memory(monkeypatch):
    monkeypatch.setattr(first_elements, "MOST_BYTES", 2000)
    for size, count in ((10, 8), (900, 3), (5000, 1)):
        dataset = tf.data.Dataset.range(20).map(lambda i, n=size: tf.fill((n,), tf.cast(i, tf.uint8)))
        assert len(first_elements.take_first(copy_graph(dataset))) == count


def test_counting_without_an_end_can_be_stopped(tmp_path):
    endless = NUMBERS.interleave(lambda i: tf.data.Dataset.from_tensors(i).repeat(), name="prepare")
    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(Interrupted):  # TensorFlow does not tell that it has no end
        store(tmp_path / "store", endless)
    assert not list(tmp_path.iterdir())


def test_errors_of_the_first_elements_and_while_they_are_counted_are_told(tmp_path):
    def check(number, least):
        with tf.control_dependencies([tf.debugging.assert_less(number, tf.constant(least, tf.int64))]):
            return tf.identity(number)

    for least in (2, 30):
        dataset = tf.data.Dataset.range(40).filter(lambda i, n=least: check(i, n) >= 0).map(halve, name="prepare")
        with pytest.raises(UserCodeError, match=r"'prepare' \(map\) could not be made: .*assert"):
            store(tmp_path / "store", dataset)
    assert not list(tmp_path.iterdir())
