"""Settings give the elements of the dataset itself, bit for bit, in every pass; and as many calls as they say."""

import gc
import threading
import time

import numpy as np
import pytest
import tensorflow as tf

from tfperf.errors import CardError
from tfperf.inputs.settings import apply_settings
from tfperf.inputs.stages import read_stages
from tfperf.runcard.input_settings import InputSettings

ALL = InputSettings(threads=3, parallel_calls=3, prefetch=2)


def add_one(x):
    return x + 1


def pair(x):
    return {"a": tf.cast(x, tf.float32) / 3, "b": (x, tf.strings.as_string(x))}


def make_seeds():
    seeds = tf.data.Dataset.random(5, rerandomize_each_iteration=True).batch(2, drop_remainder=True)
    numbers = tf.data.Dataset.zip((tf.data.Dataset.range(9), seeds))
    return numbers.map(lambda x, seed: (x, tf.random.stateless_uniform((3,), seed))).batch(2)


MAKERS = {
    "chain": lambda folder: tf.data.Dataset.range(20).map(add_one).map(lambda x: x * x).batch(3),
    "dict": lambda folder: tf.data.Dataset.range(11).map(pair).batch(4),
    "shuffle": lambda folder: tf.data.Dataset.range(30).shuffle(30, seed=3).map(add_one).batch(4),
    "shuffle without a seed": lambda folder: tf.data.Dataset.range(30).shuffle(7).map(add_one).batch(4),
    "shuffle once": lambda folder: tf.data.Dataset.range(30)
    .shuffle(30, reshuffle_each_iteration=False)
    .map(add_one)
    .batch(4),
    "cache": lambda folder: tf.data.Dataset.range(30).shuffle(9, seed=1).map(add_one).cache().map(add_one).batch(4),
    "file cache": lambda folder: tf.data.Dataset.range(9).map(add_one).cache(f"{folder}/cache").map(add_one).batch(4),
    "seeds": lambda folder: make_seeds(),
    "zip": lambda folder: tf.data.Dataset.zip(
        (tf.data.Dataset.range(9).map(add_one), tf.data.Dataset.range(9))
    ).batch(2),
    "interleave": lambda folder: tf.data.Dataset.range(4)
    .interleave(lambda i: tf.data.Dataset.from_tensors(i).repeat(5), cycle_length=2, num_parallel_calls=2)
    .map(add_one)
    .batch(3),
    "ragged": lambda folder: tf.data.Dataset.range(7).map(lambda x: tf.range(x)).ragged_batch(3).map(lambda x: x * 2),
    "repeat": lambda folder: tf.data.Dataset.range(7).shuffle(7, seed=4).map(add_one).repeat(2).batch(5).prefetch(1),
    "filter": lambda folder: tf.data.Dataset.range(20).filter(lambda x: x % 3 > 0).map(add_one).batch(4),
    "generator": lambda folder: tf.data.Dataset.from_generator(
        lambda: iter(range(9)), output_signature=tf.TensorSpec([], tf.int32)
    )
    .map(add_one)
    .batch(2),
    "python": lambda folder: tf.data.Dataset.range(9).map(lambda x: tf.numpy_function(np.square, [x], tf.int64)),
    "none": lambda folder: tf.data.Dataset.from_tensor_slices((np.arange(6.0), np.arange(6))).map(
        lambda x, y: (x, y, tf.sparse.from_dense([y]))
    ),
}  # fmt: skip


def list_elements(dataset):
    """Structure, types and bytes of all elements of a pass."""
    found = []
    for element in dataset:
        structure = tf.nest.map_structure(lambda one: type(one).__name__, element)
        parts = [part.numpy() for part in tf.nest.flatten(element, expand_composites=True)]
        # of texts the bytes are addresses
        values = [one.tolist() if one.dtype == object else one.tobytes() for one in parts]
        found.append((str(structure), [(one.dtype, one.shape) for one in parts], values))
    return found


@pytest.mark.parametrize("name", MAKERS)
def test_passes_are_those_of_the_dataset_itself(name, tmp_path):
    folders = tmp_path / "a", tmp_path / "b"
    found = []
    for folder in folders:
        folder.mkdir()
        tf.keras.utils.set_random_seed(7)
        dataset = MAKERS[name](folder)
        changed = dataset if folder is folders[0] else apply_settings(dataset, ALL)
        assert changed.element_spec == dataset.element_spec and int(changed.cardinality()) == int(dataset.cardinality())
        found.append([list_elements(changed) for _ in range(3)])
    assert found[0] == found[1] and found[0][0]
    if name == "shuffle":
        assert found[0][0] != found[0][1]


class CallCounter:
    """How many calls of a function ran at the same time, at most."""

    def __init__(self):
        self.now = self.most = 0
        self.lock = threading.Lock()

    def call(self, x):
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(0.01)
        with self.lock:
            self.now -= 1
        return x

    def make(self, **options):
        return tf.data.Dataset.range(40).map(
            lambda x: tf.ensure_shape(tf.numpy_function(self.call, [x], tf.int64), []), name="wait", **options
        )


@pytest.mark.parametrize("calls", [1, 5])
def test_as_many_calls_run_at_once_as_were_set(calls):
    counter = CallCounter()
    made = apply_settings(counter.make(), InputSettings(threads=8, parallel_calls={"wait": calls}))
    assert [int(x) for x in made] == list(range(40)) and counter.most == calls
    assert read_stages(made).stages[-1].parallel == (None if calls == 1 else calls)


def test_no_more_calls_run_than_the_pool_has_threads():
    counter = CallCounter()
    list(apply_settings(counter.make(num_parallel_calls=2), InputSettings(threads=3, parallel_calls=16)))
    assert counter.most == 3  # a map that was parallel before is changed by one number for all


def test_maps_with_a_state_stay_sequential_unless_they_are_named():
    def make():
        numbers = tf.data.Dataset.range(50).map(add_one, name="add")
        drawn = numbers.map(lambda x: x + tf.random.uniform([], 0, 99, tf.int64, seed=3), name="draw")
        return drawn.map(lambda x: tf.numpy_function(np.square, [x], tf.int64), name="python").batch(5)

    tf.random.set_seed(1)
    want = list_elements(make())
    tf.random.set_seed(1)
    made = apply_settings(make(), InputSettings(parallel_calls="auto"))
    calls = {stage.label: stage.parallel for stage in read_stages(made).stages}
    assert calls == {"range": None, "add": "auto", "draw": None, "python": None, "batch": None}
    assert list_elements(made) == want
    named = read_stages(apply_settings(make(), InputSettings(parallel_calls={"draw": 4, "python": "auto"}))).stages
    assert [stage.parallel for stage in named] == [None, None, 4, "auto", None]


def test_options_and_prefetch():
    numbers = tf.data.Dataset.range(4).map(add_one)
    found = read_stages(apply_settings(numbers, InputSettings(threads=5, prefetch="auto", ordered=False)))
    assert (found.options.threads, found.options.keeps_order) == (5, False)
    assert (found.stages[-1].kind, found.stages[-1].buffer, found.stages[-2].parallel) == ("prefetch", "auto", None)
    assert read_stages(apply_settings(numbers, InputSettings(prefetch=3))).stages[-1].buffer == 3


def test_a_dataset_lives_as_long_as_what_was_made_of_it():
    def make():
        scale = 3
        numbers = tf.data.Dataset.range(5).map(lambda x: tf.numpy_function(lambda y: y * scale, [x], tf.int64))
        return apply_settings(numbers.map(add_one), ALL).map(add_one)

    made = make()
    gc.collect()
    iterator = iter(made)
    del made
    gc.collect()
    assert [int(x) for x in iterator] == [2, 5, 8, 11, 14]


def test_what_cannot_be_set_is_told():
    numbers = tf.data.Dataset.range(4).map(add_one, name="add").batch(2)
    with pytest.raises(CardError, match="got 'ad'; allowed: add"):
        apply_settings(numbers, InputSettings(parallel_calls={"ad": 4}))
    weight = tf.Variable(2, dtype=tf.int64)
    with pytest.raises(CardError, match="hold variables"):
        apply_settings(numbers.map(lambda x: x * weight), InputSettings(parallel_calls=4))
    # options change no graph
    made = apply_settings(numbers.map(lambda x: x * weight), InputSettings(threads=2))
    assert [x.numpy().tolist() for x in made] == [[2, 4], [6, 8]]


@pytest.mark.parametrize("settings", [InputSettings(parallel_calls="auto"), InputSettings(threads=4, parallel_calls=8)])
@pytest.mark.parametrize("calls", [None, 1])
def test_maps_of_one_call_that_leave_something_behind_keep_their_turns(settings, calls):
    count = iter(range(10**6))

    def number(x):
        time.sleep(0.002 if int(x) % 3 else 0.006)
        return np.int64(next(count))

    def call(x):
        return x, tf.ensure_shape(tf.numpy_function(number, [x], tf.int64), ())

    dataset = tf.data.Dataset.range(20).map(call, num_parallel_calls=calls)
    found = np.array(list(apply_settings(dataset, settings).as_numpy_iterator()))
    np.testing.assert_array_equal(np.diff(found[:, 1]), 1)
    np.testing.assert_array_equal(found[:, 0], np.arange(20))


@pytest.mark.parametrize("calls", [None, 1])
def test_a_sequential_map_gives_its_order_where_the_options_would_let_it_go(calls):
    def work(x):
        size = tf.where(x % 8 == 0, 600, 2)
        return x + tf.cast(tf.reduce_sum(tf.linalg.matmul(tf.zeros((size, size)), tf.zeros((size, size)))), tf.int64)

    options = tf.data.Options()
    options.deterministic = False
    dataset = tf.data.Dataset.range(64).map(work, num_parallel_calls=calls, deterministic=None).with_options(options)
    found = list(apply_settings(dataset, InputSettings(threads=8, parallel_calls=8)).as_numpy_iterator())
    assert found == list(range(64))


def test_stages_without_a_name_are_copied_as_they_are():
    choice = tf.data.Dataset.range(2).repeat(5)
    both = tf.data.Dataset.choose_from_datasets([tf.data.Dataset.range(5), tf.data.Dataset.range(10, 15)], choice)
    dataset = both.map(add_one)
    found = apply_settings(dataset, InputSettings(parallel_calls=2))
    assert list(found.as_numpy_iterator()) == list(dataset.as_numpy_iterator())
