"""Prefixes: what they give, how many calls run at once, and what of them runs again in later passes."""

import threading

import numpy as np
import pytest
import tensorflow as tf

from tfperf.errors import UserError
from tfperf.inputs.consuming import open_iterator, take_elements
from tfperf.inputs.graph_copy import copy_graph
from tfperf.inputs.prefixes import CACHED, MOST_SHUFFLED, Prefixes
from tfperf.inputs.stages import read_pipeline, read_stages
from tfperf.inputs.tuning import read_tuning


def make(dataset):
    copy = copy_graph(dataset)
    return Prefixes(copy), [one.node for one in read_pipeline(copy).stages]


def take(dataset, count):
    return [np.asarray(element[0]).tolist() for element in dataset.take(count)]


class Calls:
    """Counts calls from Python, and how many run at once; the first wait until `together` are there."""

    def __init__(self, together=1):
        self.together, self.now, self.most, self.count = together, 0, 0, 0
        self.changed = threading.Condition()

    def call(self, x):
        with self.changed:
            self.now, self.count = self.now + 1, self.count + 1
            self.most = max(self.most, self.now)
            self.changed.notify_all()
            assert self.changed.wait_for(lambda: self.most >= self.together, timeout=20)
            self.now -= 1
        return x

    def map(self, x):
        return tf.numpy_function(self.call, [x], tf.int64)


def test_each_prefix_goes_on_without_end_by_either_way():
    dataset = tf.data.Dataset.range(3).map(lambda x: x * 2, num_parallel_calls=2).batch(2).prefetch(1)
    prefixes, nodes = make(dataset)
    for build in (prefixes.make_tuned, prefixes.make_single):
        assert take(build(nodes[0]), 4) == [0, 1, 2, 0]
        assert take(build(nodes[1]), 4) == [0, 2, 4, 0]
        assert take(build(nodes[3]), 3) == [[0, 2], [4], [0, 2]]


@pytest.mark.parametrize("way", ["make_tuned", "make_single"])
def test_parallel_calls_are_those_of_the_graph_or_one(way):
    calls = Calls(together=3 if way == "make_tuned" else 1)
    options = tf.data.Options()
    options.threading.private_threadpool_size = 3
    dataset = tf.data.Dataset.range(30).map(calls.map, num_parallel_calls=3).prefetch(4).with_options(options)
    prefixes, nodes = make(dataset)
    take(getattr(prefixes, way)(nodes[-1]), 9)
    assert calls.most == (3 if way == "make_tuned" else 1)


def test_of_one_thread_nothing_is_parallel_or_ahead():
    dataset = tf.data.Dataset.range(9).interleave(tf.data.Dataset.from_tensors, num_parallel_calls=tf.data.AUTOTUNE)
    dataset = dataset.prefetch(2).map(lambda x: x, num_parallel_calls=2).batch(2, num_parallel_calls=2).prefetch(2)
    prefixes, nodes = make(dataset)
    stages = read_stages(prefixes.make_single(nodes[-1])).stages
    assert [(one.kind, one.parallel) for one in stages] == [
        (kind, None) for kind in ("range", "interleave", "map", "batch", "repeat")
    ]
    assert [one.parallel for one in read_stages(prefixes.make_tuned(nodes[-1])).stages] == [
        None, "auto", None, 2, 2, None, None
    ]  # fmt: skip


def test_parallel_interleaves_batches_and_filters_have_a_sequential_form():
    dataset = tf.data.Dataset.range(4).interleave(
        lambda x: tf.data.Dataset.from_tensors(x).repeat(2), num_parallel_calls=tf.data.AUTOTUNE
    )
    prefixes, nodes = make(dataset.batch(2, num_parallel_calls=2))
    assert take(prefixes.make_single(nodes[-1]), 4) == [[0, 0], [1, 1], [2, 2], [3, 3]]


def test_caches_give_what_is_there_in_later_passes():
    calls, later = Calls(), Calls()
    dataset = tf.data.Dataset.range(1000).map(calls.map).cache().map(later.map).repeat().batch(2)
    prefixes, nodes = make(dataset)
    assert calls.count == CACHED and later.count == 0
    got = take(prefixes.make_single(nodes[-1]), CACHED)
    assert got == [[i % CACHED, i % CACHED + 1] for i in range(0, 2 * CACHED, 2)]
    take(prefixes.make_tuned(nodes[2]), 3 * CACHED)
    assert calls.count == CACHED
    take(prefixes.make_single(nodes[1]), 5)  # what is before the cache still runs
    assert calls.count == CACHED + 5


@pytest.mark.parametrize(("buffer", "asked"), [(7, 7), (100_000, MOST_SHUFFLED)])
def test_long_shuffles_are_short(buffer, asked):
    calls = Calls()
    prefixes, nodes = make(tf.data.Dataset.range(100_000).map(calls.map).shuffle(buffer))
    take(prefixes.make_single(nodes[-1]), 1)
    assert calls.count == asked


def test_elements_are_counted_and_bytes_are_those_of_the_files(tmp_path):
    size = 50_000
    (tmp_path / "file").write_bytes(bytes(size))
    path = str(tmp_path / "file")
    dataset = tf.data.Dataset.from_tensors(path).repeat(5).map(lambda x: tf.strings.length(tf.io.read_file(x)))
    prefixes, nodes = make(dataset)
    for is_alone in (False, True):
        found = take_elements(prefixes.make_single(nodes[-1]), 0.1, is_alone)
        read, elements = found.counts.read_characters, sum(one.elements for one in found.blocks)
        assert elements * size <= read < elements * size + 200_000 * len(found.blocks)  # with what watching reads
        assert all(one.seconds > 0 and one.cpu_seconds >= 0 and one.ready_seconds >= 0 for one in found.blocks)
        assert found.first_seconds > 0


def test_a_stage_without_elements_is_told():
    prefixes, nodes = make(tf.data.Dataset.range(3).filter(lambda x: x > 5))
    with pytest.raises(UserError, match="no elements"):
        take_elements(prefixes.make_single(nodes[-1]), 0.05)


def test_tuning_tells_each_stage_by_its_place():
    calls = Calls()
    left = tf.data.Dataset.range(100).map(calls.map, num_parallel_calls=2).batch(2)
    right = (
        tf.data.Dataset.range(100)
        .map(lambda x: x)
        .interleave(lambda x: tf.data.Dataset.range(1).map(lambda y: y + x), cycle_length=3, num_parallel_calls=2)
    )
    dataset = tf.data.Dataset.zip((left, right)).prefetch(5)
    copy = copy_graph(dataset)
    pipeline = read_pipeline(copy)
    for seconds in (0.5, 2.0, 8.0):  # it begins to tell after a tenth or so, on a busy machine later
        found = take_elements(Prefixes(copy).make_tuned(copy.output), seconds)
        tuning = read_tuning(found.iterator, pipeline)
        if len(tuning) == len(pipeline.stages):
            break
    assert set(tuning) == set(range(len(pipeline.stages)))
    by_place = {place: (pipeline.stages[place].kind, one.parallelism) for place, one in tuning.items()}
    assert by_place[1] == ("map", 2.0) and by_place[5] == ("interleave", 2.0) and by_place[0] == ("range", None)
    assert tuning[4].is_parallelized and not tuning[1].is_parallelized  # the sequential map has no state
    assert tuning[7].buffer_size == 5 and not tuning[7].is_tuned
    assert tuning[2].elements <= tuning[1].elements / 2 <= calls.count / 2


def test_without_autotune_nothing_is_told():
    options = tf.data.Options()
    options.autotune.enabled = False
    copy = copy_graph(tf.data.Dataset.range(3))
    assert read_tuning(open_iterator(copy.build(options)), read_pipeline(copy)) == {}


@pytest.mark.parametrize("kind", ["make_tuned", "make_single"])
def test_a_batch_behind_a_cache_is_whole(kind):
    dataset = tf.data.Dataset.range(100).cache().batch(32, drop_remainder=True, name="batch")
    copy = copy_graph(dataset)
    made = getattr(Prefixes(copy), kind)(copy.output)
    sizes = [int(tf.shape(one[0])[0]) for one in made.take(3)]
    assert sizes == [32, 32, 32]
