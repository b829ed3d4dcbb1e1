"""How long it takes until a pass has its first element."""

import time

import pytest
import tensorflow as tf

from tfperf.errors import UserError
from tfperf.inputs.delivery import measure_beginning


def test_a_pass_begins_when_its_first_element_is_there():
    def generate():
        time.sleep(0.2)
        for number in range(5):
            time.sleep(0.01)
            yield number

    slow = tf.data.Dataset.from_generator(generate, output_signature=tf.TensorSpec((), tf.int32))
    assert 0.2 < measure_beginning(slow) < 1.0
    assert measure_beginning(tf.data.Dataset.range(5).batch(2)) < 0.1
    with pytest.raises(UserError, match="no batch"):
        measure_beginning(tf.data.Dataset.range(0))


def test_orders_of_the_dataset_do_not_go_on():
    def make():
        return tf.data.Dataset.range(50).shuffle(50, seed=1)

    looked_at, other = make(), make()
    measure_beginning(looked_at)
    assert list(looked_at.as_numpy_iterator()) == list(other.as_numpy_iterator())
