"""Products and look-ups of a trainable's pass, against counts by hand."""

import keras
import pytest
import tensorflow as tf

from tests.place.trainables import CHANNELS, CLASSES, RATINGS, SEEN, SIDE, UNITS, WIDTH, Network, Recommender
from tfperf.place.demand import record_pass
from tfperf.place.look_ups import LookUp, trace_look_ups
from tfperf.place.method import Method
from tfperf.place.shapes import TensorType
from tfperf.place.trainable import PassOutcome, Trainable
from tfperf.runcard.model_optimizer import ModelOptimizer
from tfperf.runcard.placement import Placement

B = 4
IMAGES = [TensorType("double", (B, SIDE, SIDE, CHANNELS)), TensorType("int32", (B,))]
RATED = [TensorType("int32", (RATINGS,)), TensorType("int64", (RATINGS, SEEN)), TensorType("double", (RATINGS,))]


def count_flops(trainable, local_batch):
    method = Method(placement=Placement(), optimizer=ModelOptimizer(), precision=trainable.weights[0].dtype)
    return record_pass(trainable, method, local_batch).find_demand(statistics=True, metrics=True, xla=False).flops


class Plain(Trainable):
    """A layer, whose part is its input and whose loss is the sum of what it gives."""

    def __init__(self, layer, shape):
        self.layer = layer
        layer.build(shape)
        self.weights = layer.trainable_variables

    def compute(self, given):
        """The sum."""
        state = [tf.zeros(v.shape, v.dtype) for v in self.layer.non_trainable_variables]
        return PassOutcome(tf.reduce_sum(self.layer.stateless_call(given.weights, state, given.local_batch[0])[0]))


def test_products_of_convolutions_and_dense_layers():
    """Multiply and add, (outputs) x (inputs of each); twice again for gradients, but for those of the images."""
    first = 2 * B * SIDE * SIDE * 4 * (3 * 3 * CHANNELS)
    second = 2 * B * (2 * 2) * 4 * (3 * 3 * 4)  # three by three with strides of two, from six to two
    dense = 2 * B * UNITS * (2 * 2 * 4) + 2 * B * UNITS * CLASSES
    assert count_flops(Network(), IMAGES).whole == 2 * first + 3 * (second + dense)


def test_groups_have_the_same_products():
    assert count_flops(Network(groups=2), IMAGES) == count_flops(Network(), IMAGES)


@pytest.mark.parametrize(
    ("layer", "shape", "each"),
    [
        (keras.layers.DepthwiseConv2D(3, depth_multiplier=2, padding="same"), (B, 5, 5, 3), 25 * 6 * 9),
        (keras.layers.Conv1D(7, 3), (B, 9, 2), 7 * 7 * 3 * 2),
        (keras.layers.Conv3D(2, 2), (B, 3, 3, 3, 2), 8 * 2 * 8 * 2),
    ],
)
def test_other_convolutions(layer, shape, each):
    assert count_flops(Plain(layer, shape), [TensorType("float", shape)]).whole == 2 * 2 * B * each


def test_products_of_a_loop_are_not_known():
    layer = keras.layers.LSTM(3, use_cudnn=False)
    assert count_flops(Plain(layer, (B, 5, 2)), [TensorType("float", (B, 5, 2))]) is None


def test_look_ups_are_counted_and_it_is_known_who_finds_them():
    users, items = trace_look_ups(Recommender(), RATED)
    assert users == LookUp(RATINGS, 8 * WIDTH, 4, False)
    assert items == LookUp(RATINGS * SEEN, 8 * WIDTH, 8, True)
    assert (items.rows, items.ids) == (RATINGS * SEEN * 8 * WIDTH, RATINGS * SEEN * 8)
    assert trace_look_ups(Network(), IMAGES) == []
