"""Up to where a pipeline can be run once, and what reading stored elements costs."""

import numpy as np
import pytest
import tensorflow as tf

from tfperf.inputs.ahead import find_store_point, measure_read_seconds, measure_store_point
from tfperf.inputs.stages import read_stages


def make(x):
    return tf.cast(tf.fill((2, 3), x), tf.uint8)


def draw(x):
    return tf.cast(x, tf.float32) + tf.random.uniform((2, 3))


def numbers():
    return tf.data.Dataset.range(10, name="numbers")


@pytest.mark.parametrize(
    ("build", "stage"),
    [
        (lambda: numbers().map(make, name="make").shuffle(4).map(draw).batch(2), "make"),
        (lambda: numbers().map(make, name="make").map(make_larger, name="larger").cache().prefetch(1), "larger"),
        (lambda: numbers().map(make, name="make").batch(2, drop_remainder=True, name="batch").map(draw), "batch"),
        (lambda: numbers().map(tf.strings.as_string).map(make_of_text, name="made"), "made"),  # texts have no length
        (lambda: numbers().map(draw_scalar).map(make, name="make"), None),
        (lambda: numbers().repeat().map(make, name="make"), None),
        (lambda: numbers().map(lambda x: tf.numpy_function(np.abs, [x], tf.int64)).map(make, name="make"), None),
        (lambda: tf.data.Dataset.zip(numbers(), tf.data.Dataset.random(1)).map(lambda x, _: make(x)), None),
        (lambda: numbers().batch(3), None),  # the last batch is smaller
        (numbers, None),  # there is nothing that could be left out
    ],
)
def test_the_last_stage_that_is_the_same_in_each_pass(build, stage):
    pipeline = read_stages(build())
    place = find_store_point(pipeline, lambda stage: True, lambda stage: False)
    assert (None if place is None else pipeline.stages[place].name) == stage


def test_a_stage_where_no_store_can_be_made_is_passed_over():
    stages = read_stages(numbers().map(make, name="make").map(make_larger, name="larger"))
    place = find_store_point(stages, lambda stage: stage.name != "larger", lambda stage: False)
    assert place is not None and stages.stages[place].name == "make"


def draw_scalar(x):
    return x + tf.random.uniform((), 0, 2, tf.int64)


def make_of_text(x):
    return tf.fill((4,), tf.strings.length(x))


def make_larger(x):
    return tf.tile(x, (2, 1))


def test_bytes_of_an_element_are_those_of_its_tensors():
    dataset = tf.data.Dataset.from_tensor_slices((np.zeros((4, 5), np.float32), np.zeros(4, np.int64)))
    mapped = dataset.map(lambda x, y: (x[:3], tf.cast(y, tf.uint8)))
    stages = read_stages(mapped.batch(2)).stages
    assert [one.element_bytes for one in stages] == [5 * 4 + 8, 3 * 4 + 1, None]
    assert read_stages(tf.data.Dataset.from_tensors("text")).stages[-1].element_bytes is None


def test_larger_records_take_longer_to_read():
    small, large = measure_read_seconds(100), measure_read_seconds(4_000_000)
    assert 0 < small < large


def test_the_point_has_its_bytes_and_seconds():
    stages = read_stages(numbers().map(make, name="make").map(draw))
    point = measure_store_point(stages, lambda stage: True, lambda stage: False)
    assert point is not None and point.element_bytes == 6 and point.read_seconds > 0
    assert measure_store_point(read_stages(numbers()), lambda stage: True, lambda stage: True) is None


def test_what_python_makes_is_stored_where_two_passes_agree():
    call = numbers().map(lambda x: tf.ensure_shape(tf.numpy_function(np.abs, [x], tf.int64), ()), name="call")
    stages = read_stages(call.map(make, name="make").map(draw))
    asked = []

    def is_same(stage):
        asked.append(stage.name)
        return stage.name == "call"

    place = find_store_point(stages, lambda stage: True, is_same)
    assert place is not None and stages.stages[place].name == "call" and asked == ["make", "call"]
