"""What a device computes of its part."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfperf.place.method import Method
from tfperf.place.state import list_all_variables
from tfperf.place.step import build_pass
from tfperf.place.trainable import PassInputs, PassOutcome, Statistic, Trainable
from tfperf.runcard.model_optimizer import ModelOptimizer
from tfperf.runcard.placement import Placement


class LookedUp(Trainable):
    """A weight (5, 2) of which rows are read, as of an Embedding inside of a Keras model; another that is not used."""

    def __init__(self):
        self.weights = [keras.Variable(np.ones(shape), name=name) for name, shape in (("rows", (5, 2)), ("idle", (3,)))]

    def compute(self, given):
        """The sum of the squares of the rows of these numbers."""
        return PassOutcome(tf.reduce_sum(tf.gather(given.weights[0], given.local_batch[0]) ** 2))


@pytest.mark.parametrize("xla", [False, True])
def test_gradients_of_weights_are_dense(xla):
    trainable, local_batch = LookedUp(), [tf.constant([4, 1, 4])]
    method = Method(placement=Placement(), optimizer=ModelOptimizer(), xla=xla)
    weights = [tf.convert_to_tensor(weight.value) for weight in trainable.weights]
    found = build_pass(trainable, method)(PassInputs(weights, (), (), local_batch, None, tf.constant(2.0, tf.float64)))
    assert float(found.loss) == 3.0
    np.testing.assert_array_equal(found.weights[0], [[0, 0], [1, 1], [0, 0], [0, 0], [2, 2]])
    assert found.weights[1] is None


def test_variables_have_paths_of_their_own():
    trainable = LookedUp()
    trainable.statistics = [Statistic(keras.Variable(0.0, name="rows"), "mean")]
    with pytest.raises(ValueError, match="need paths of their own; there are rows, idle"):
        list_all_variables(trainable)
