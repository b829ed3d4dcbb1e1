"""Variables and tables that the functions of a pipeline hold: those that may change are not frozen in silence."""

import subprocess
import sys

import pytest
import tensorflow as tf

import tfperf
from tests.stores.pipelines import read_bytes, store
from tfperf.errors import UserError
from tfperf.inputs.graph_copy import read_graph
from tfperf.stores.fingerprint import hash_pipeline
from tfperf.stores.manifest import StoreManifest

NUMBERS = tf.data.Dataset.range(6)


def make_table(values=(5, 7)):
    given = tf.lookup.KeyValueTensorInitializer(tf.constant([1, 3], tf.int64), tf.constant(values, tf.int64))
    return tf.lookup.StaticHashTable(given, -1)


def make_changing_table(values=(5, 7)):
    table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, -1)
    table.insert(tf.constant([1, 3], tf.int64), tf.constant(values, tf.int64))
    return table


def make_dense_table(values=(5, 7)):
    table = tf.lookup.experimental.DenseHashTable(tf.int64, tf.int64, -1, empty_key=-2, deleted_key=-3)
    table.insert(tf.constant([1, 3], tf.int64), tf.constant(values, tf.int64))
    return table


def multiply(values=(5, 7)):
    factors = tf.Variable(values, dtype=tf.int64)
    return lambda number: number * factors[1]


def look_up(table):
    return lambda number: table.lookup(number)


HOLDERS = {
    "variables": multiply,
    "lookup tables": lambda values=(5, 7): look_up(make_changing_table(values)),
}


def make_after(function):
    return NUMBERS.shuffle(6, seed=1).map(lambda i: i + 1, name="prepare").map(function).batch(2)


@pytest.mark.parametrize("name", HOLDERS)
def test_what_stages_after_the_store_hold_is_refused(name, tmp_path):
    function = HOLDERS[name]()
    found = tfperf.store(make_after(function), tmp_path / "store", after="prepare")
    said = rf"stages after 'prepare' \(map\) hold {name}, of which they would have copies"
    with pytest.raises(UserError, match=said):
        tfperf.open_store(tmp_path / "store", pipeline=make_after(function))
    assert "hold" in found.summary["fault"]
    got = tfperf.open_store(tmp_path / "store").shuffle(6, seed=1).map(function).batch(2)
    assert read_bytes(got) == read_bytes(make_after(function))


def test_tables_that_are_filled_once_stay(tmp_path):
    function = look_up(make_table())
    store(tmp_path / "store", make_after(function))
    got = tfperf.open_store(tmp_path / "store", pipeline=make_after(function))
    again = tfperf.open_store(tmp_path / "store", pipeline=make_after(function))
    want = read_bytes(make_after(function), 2)
    assert read_bytes(got, 2) == want and read_bytes(again, 2) == want


def test_a_table_that_is_shared_stays_shared(tmp_path):
    table = make_dense_table()
    store(tmp_path / "store", make_after(look_up(table)))
    got = tfperf.open_store(tmp_path / "store", pipeline=make_after(look_up(table)))
    before = read_bytes(got)
    table.insert(tf.constant([3], tf.int64), tf.constant([9], tf.int64))
    assert before != read_bytes(got)
    again = make_after(look_up(table))
    want = read_bytes(again, 2)[3:]
    assert read_bytes(tfperf.open_store(tmp_path / "store", pipeline=make_after(look_up(table))), 2)[3:] == want


def test_a_stage_with_a_table_that_cannot_be_read_is_not_stored(tmp_path):
    dataset = NUMBERS.map(lambda i: i + 1).map(look_up(make_dense_table()), name="prepare")
    with pytest.raises(UserError, match=r"stage .prepare. \(map\) holds a table"):
        store(tmp_path / "store", dataset)
    tfperf.store(dataset, tmp_path / "store")
    assert StoreManifest.read(tmp_path / "store").position == 1


@pytest.mark.parametrize("name", [*HOLDERS, "static"])
def test_values_that_stored_stages_hold_count(name, tmp_path):
    make = HOLDERS.get(name, lambda values=(5, 7): look_up(make_table(values)))

    def make_before(values):
        return NUMBERS.shuffle(6, seed=1).map(make(values), name="prepare").batch(2)

    store(tmp_path / "store", make_before((5, 7)))
    same = make_before((5, 7))
    assert read_bytes(tfperf.open_store(tmp_path / "store", pipeline=same)) == read_bytes(make_before((5, 7)))
    with pytest.raises(UserError, match="the stages up to 'prepare'"):
        tfperf.open_store(tmp_path / "store", pipeline=make_before((5, 8)))


def test_no_stage_that_holds_what_may_change_is_chosen(tmp_path):
    dataset = make_after(HOLDERS["variables"]())
    tfperf.store(dataset, tmp_path / "store")
    assert StoreManifest.read(tmp_path / "store").stage == "prepare"
    tfperf.store(NUMBERS.map(lambda i: i + 1).map(look_up(make_table())), tmp_path / "static")
    assert StoreManifest.read(tmp_path / "static").position == 2
    with pytest.raises(UserError, match="stage map: it, or one before it, holds variables"):
        tfperf.store(NUMBERS.map(HOLDERS["variables"]()), tmp_path / "none")


PROGRAM = """
import tensorflow as tf
from tests.stores.test_states import HOLDERS, NUMBERS, look_up, make_table
from tfperf.inputs.graph_copy import read_graph
from tfperf.stores.fingerprint import hash_pipeline
for make in (*HOLDERS.values(), lambda: look_up(make_table())):
    print(hash_pipeline(read_graph(NUMBERS.map(make()))))
"""


@pytest.mark.slow
def test_what_is_held_is_known_again_in_another_process():
    found = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout
    functions = [make() for make in (*HOLDERS.values(), lambda: look_up(make_table()))]
    assert found.split() == [hash_pipeline(read_graph(NUMBERS.map(one))) for one in functions]
