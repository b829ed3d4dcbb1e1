"""The time of a turn of a loop of small products."""

import pytest
import tensorflow as tf

from tfperf.measure.turns import measure_turn_seconds


@pytest.mark.parametrize("xla", [False, True])
def test_larger_products_take_longer_turns(xla):
    cpu = tf.config.list_logical_devices("CPU")[0].name
    small, large = (measure_turn_seconds(batch, units, "float32", cpu, xla) for batch, units in ((1, 4), (64, 96)))
    assert 0 < large < 0.1 and small < large, "a thirty-thousandth of the arithmetic"
