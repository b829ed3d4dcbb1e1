"""Stages as the graph has them, against what the dataset was written as."""

import math

import pytest
import tensorflow as tf

from tfperf.inputs.stages import name_kind, read_stages

AUTOTUNE = tf.data.AUTOTUNE
LINES = tf.data.Dataset.from_tensor_slices([__file__])


def add_one(x):
    return x + 1


def draw(x):
    return x + tf.random.uniform([], 0, 3, tf.int64)


def draw_by_seed(x):
    return x + tf.random.stateless_uniform([], [1, 2], 0, 3, tf.int64)


def call_python(x):
    return tf.numpy_function(lambda v: v, [x], tf.int64)


def nest_python(x):
    return tf.cond(x > 3, lambda: call_python(x), lambda: x)


def numbers():
    return tf.data.Dataset.range(100)


def last(dataset):
    return read_stages(dataset).stages[-1]


def test_a_pipeline_is_read_in_its_order():
    dataset = numbers().shuffle(10, name="mix").map(add_one, num_parallel_calls=3).cache().batch(8).repeat()
    stages = read_stages(dataset.prefetch(AUTOTUNE)).stages
    assert [one.label for one in stages] == ["range", "mix", "map", "cache", "batch", "repeat", "prefetch"]
    assert [one.inputs for one in stages] == [(), (0,), (1,), (2,), (3,), (4,), (5,)]
    assert [one.cardinality for one in stages] == [100.0] * 4 + [13.0, math.inf, math.inf]
    assert (stages[1].name, stages[1].buffer, stages[2].name) == ("mix", 10, None)
    assert (stages[4].size, stages[5].size, stages[6].buffer) == (8, -1, "auto")


@pytest.mark.parametrize(("calls", "parallel"), [(None, None), (4, 4), (AUTOTUNE, "auto")])
def test_parallel_calls_are_numbers_or_left_to_tensorflow(calls, parallel):
    assert last(numbers().map(add_one, num_parallel_calls=calls)).parallel == parallel
    assert last(numbers().batch(4, num_parallel_calls=calls)).parallel == parallel
    inner = numbers().interleave(lambda x: tf.data.Dataset.range(x), 5, num_parallel_calls=calls)
    assert (last(inner).parallel, last(inner).size) == (parallel, 5)


@pytest.mark.parametrize("deterministic", [None, True, False])
def test_order_is_kept_as_the_stage_says_or_the_options(deterministic):
    one = last(numbers().map(add_one, num_parallel_calls=2, deterministic=deterministic))
    assert one.keeps_order is deterministic
    assert last(numbers().shuffle(3)).keeps_order is None


def test_parallel_reads_of_records_are_parallel():
    stages = read_stages(tf.data.TFRecordDataset([__file__], num_parallel_reads=3)).stages
    assert [(one.kind, one.parallel, one.reads_files) for one in stages] == [
        ("tensor_slice", None, False), ("interleave", 3, True),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("function", "python", "random", "stateful"),
    [
        (add_one, (), (), ()),
        (draw, (), ("RandomUniformInt",), ("RandomUniformInt",)),
        (draw_by_seed, (), (), ()),
        (call_python, ("PyFunc",), (), ("PyFunc",)),
        (nest_python, ("PyFunc",), (), ("If", "PyFunc")),
    ],
)
def test_functions_tell_python_and_chance_however_deep(function, python, random, stateful):
    stage = last(numbers().map(function))
    assert stage.function is not None
    assert (stage.function.python, stage.function.random, stage.function.stateful) == (python, random, stateful)
    assert stage.has_python is bool(python) and stage.draws is bool(random)


def test_a_generator_is_python():
    dataset = tf.data.Dataset.from_generator(lambda: iter([1]), output_signature=tf.TensorSpec([], tf.int32))
    stages = read_stages(dataset.batch(1)).stages
    assert [(one.kind, one.has_python, one.is_generator) for one in stages] == [
        ("tensor", False, False), ("flat_map", True, True), ("batch", False, False),
    ]  # fmt: skip


def test_files_are_read_by_functions_and_by_datasets_inside():
    read = last(LINES.map(tf.io.read_file))
    assert read.reads_files and not last(LINES.map(tf.strings.length)).reads_files
    inner = last(LINES.interleave(lambda path: tf.data.TextLineDataset(path).skip(1).map(tf.strings.length)))
    assert inner.reads_files and inner.function is not None
    assert inner.function.stages[1].reads_files
    assert [(one.kind, one.inputs, one.size) for one in inner.function.stages] == [
        ("tensor_slice", (), None), ("flat_map", (0,), None), ("skip", (1,), 1), ("map", (2,), None),
    ]  # fmt: skip


def test_branches_come_before_what_joins_them():
    left, right = numbers().map(add_one), numbers().take(7).repeat()
    pipeline = read_stages(tf.data.Dataset.zip((left, right, numbers())).concatenate(tf.data.Dataset.zip((left,) * 3)))
    kinds = [one.kind for one in pipeline.stages]
    assert kinds == [
        "range",
        "map",
        "range",
        "take",
        "repeat",
        "range",
        "zip",
        *["range", "map"] * 3,
        "zip",
        "concatenate",
    ]
    joined = pipeline.stages[6]
    assert joined.inputs == (1, 4, 5) and pipeline.stages[-1].inputs == (6, 13)
    assert pipeline.list_parents(6) == [0, 1, 2, 3, 4, 5] and pipeline.list_children(3) == [4, 6, 14]


def test_options_are_no_stage_but_are_told():
    options = tf.data.Options()
    options.threading.private_threadpool_size = 3
    options.deterministic = False
    options.experimental_optimization.inject_prefetch = False
    pipeline = read_stages(numbers().with_options(options).batch(2))
    assert [one.kind for one in pipeline.stages] == ["range", "batch"]
    told = pipeline.options
    assert (told.threads, told.keeps_order, told.inject_prefetch, told.parallelize_maps) == (3, False, False, True)
    plain = read_stages(numbers()).options
    assert (plain.threads, plain.keeps_order, plain.autotune, plain.inject_prefetch) == (None, True, True, True)


def test_without_default_optimizations_only_those_that_are_asked_for_are_on():
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False
    options.experimental_optimization.inject_prefetch = True
    options.autotune.enabled = False
    told = read_stages(numbers().with_options(options)).options
    assert (told.inject_prefetch, told.parallelize_maps, told.autotune) == (True, False, False)


@pytest.mark.parametrize(
    ("op", "kind"),
    [("LegacyParallelInterleaveDatasetV2", "interleave"), ("ParallelBatchDataset", "batch"),
     ("TFRecordDatasetV2", "tfrecord"), ("ShuffleAndRepeatDatasetV2", "shuffle_and_repeat")],
)  # fmt: skip
def test_kinds_are_the_same_for_all_versions(op, kind):
    assert name_kind(op) == kind
