"""What a pass asks for, of a trainable of which nobody asks for much."""

import numpy as np
import pytest
import tensorflow as tf

from tests.place.uncommon import LENGTH, ROWS, Uncommon
from tfperf.errors import UserError
from tfperf.place.demand import record_pass
from tfperf.place.method import Method
from tfperf.place.optimizer import clip
from tfperf.place.shapes import UNKNOWN, TensorType
from tfperf.place.trainable import Metric
from tfperf.runcard.model_optimizer import ModelOptimizer
from tfperf.runcard.placement import Placement

METHOD = Method(placement=Placement(), optimizer=ModelOptimizer(), precision="float64")
PART = (
    TensorType("int32", (4, 2)), TensorType("int32", (4, 0)), TensorType("double", (4, UNKNOWN)),
    TensorType("double", (4, 16)), TensorType("double", (4,)),
)  # fmt: skip


@pytest.fixture(scope="module")
def recorded():
    return record_pass(Uncommon(), METHOD, PART)


def test_what_nothing_depends_on_is_not_asked_for(recorded):
    found = recorded.find_demand(statistics=True, metrics=True, xla=False)
    assert found.gradients == [True, True, False, True, False, True]
    assert found.variables == [True, True, False, True, False, True]
    assert found.statistics == [False, False, True, True, True]  # of what sums the change is found
    assert found.sides == [True, True, False, True, True] and not any(found.look_ups)
    assert all(found.statistics_vary) and all(found.metrics_vary)


def test_only_the_first_device_is_asked_for_what_all_find(recorded):
    first, other = (recorded.find_demand(statistics=one, metrics=one, xla=False) for one in (True, False))
    assert other.statistics == [False, False, False, True, True]
    assert first.flops.whole - other.flops.whole == 2 * 16 * 16 * 64


def test_constants_are_known_as_the_trainable_has_them_and_as_they_are_made(recorded):
    found = recorded.find_demand(statistics=True, metrics=True, xla=False)
    assert len(found.constants) >= 2  # of a table, and sines of so many positions
    assert [one.size for one in found.captured] == [8 * ROWS * 16] and 8 * LENGTH > 4096


def test_what_is_compiled_is_given_everything(recorded):
    found = recorded.find_demand(statistics=True, metrics=True, xla=True)
    assert all([*found.variables, *found.statistics, *found.sides]) and not all(found.gradients)


def test_metrics_are_of_the_type_that_they_were_made_with():
    trainable = Uncommon()
    trainable.metrics = [Metric("error", "sum", "float32"), *trainable.metrics[1:]]
    with pytest.raises(UserError, match="compute: metric error: got float64; must be float32, as it was made"):
        record_pass(trainable, METHOD, PART)
    trainable.metrics = trainable.metrics[1:]
    with pytest.raises(UserError, match="compute: metrics: got 5; must be as many as the trainable has, 4"):
        record_pass(trainable, METHOD, PART)


class Counting(Uncommon):
    """Tells a number of Python's."""

    def compute(self, given):
        found = super().compute(given)
        return found._replace(metrics=[8.0, *found.metrics[1:]])


def test_numbers_of_python_are_metrics():
    assert record_pass(Counting(), METHOD, PART).found.metrics[0].dtype == tf.float64


def test_gradients_of_several_types_are_clipped_together():
    card = ModelOptimizer(global_clipnorm=1.0)
    wide, narrow = clip(card, [tf.constant([3.0], tf.float64), None, tf.constant([4.0])], [None] * 3)[::2]
    assert wide is not None and narrow is not None
    np.testing.assert_allclose([wide[0], narrow[0]], [0.6, 0.8], rtol=1e-6)
    assert (wide.dtype, narrow.dtype) == (tf.float64, tf.float32)
