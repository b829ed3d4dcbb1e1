"""Batches that a model takes are let through; those that it cannot take are told."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from tfperf.workloads.keras.batch_shapes import find_misfit

pytestmark = pytest.mark.filterwarnings("ignore:When providing `inputs` as a dict")  # Keras takes them


def make_functional(shape=(3,), **options):
    model = keras.Sequential([keras.Input(shape, **options), layers.Dense(1)])
    model.compile("sgd", "mse")
    return model


class OwnStep(keras.Model):
    """Its step takes another batch than its call."""

    def train_step(self, data):
        return {}


def make_own_step():
    inputs = keras.Input((2,))
    model = OwnStep(inputs, layers.Dense(1)(inputs))
    model.compile("sgd", "mse")
    return model


class Named(keras.Model):
    """Has an attribute of the name that Keras has for tensors."""

    def __init__(self):
        super().__init__()
        self.inputs = ["age", "height"]

    def call(self, inputs):
        return inputs


def make_dict():
    """The keys of its inputs are not their names."""
    a, b = keras.Input((3,), name="a"), keras.Input((4,), name="b")
    model = keras.Model({"b": a, "a": b}, layers.Dense(1)(layers.Concatenate()([a, b])))
    model.compile("sgd", "mse")
    return model


def make_instance_loss():
    model = make_functional()
    model.compute_loss = lambda **found: tf.reduce_mean(found["y_pred"])
    return model


def of(*shape):
    return tf.constant(np.zeros(shape, "float32"))


@pytest.mark.parametrize(
    ("make", "batch"),
    [
        (make_functional, (of(5, 3), of(5, 1))),
        (lambda: make_functional((1,)), (of(5), of(5, 1))),
        (lambda: make_functional(batch_shape=(32, 3), shape=None), (of(20, 3), of(20, 1))),
        (make_own_step, ((of(5, 4), of(5, 4)),)),
        (make_own_step, of(5, 4)),
        (Named, (of(5, 4), of(5, 1))),
        (make_dict, ({"b": of(5, 3), "a": of(5, 4), "more": of(5)}, of(5, 1))),
        (make_instance_loss, of(5, 3)),
        (make_functional, (tf.sparse.from_dense(np.ones((5, 3))), of(5, 1))),
    ],
)
def test_what_keras_takes_is_no_misfit(make, batch):
    assert find_misfit(make(), batch, "train_step") is None


@pytest.mark.parametrize(
    ("make", "batch", "said"),
    [
        (make_functional, (of(5, 4), of(5, 1)), "the input has shape (5, 4); the model takes (None, 3)"),
        (make_functional, (of(3), of(1)), "single samples, must be batches"),
        (make_functional, of(5, 3), "batches have no targets"),
        (make_dict, ({"b": of(5, 4), "a": of(5, 4)}, of(5, 1)), "the input b has shape (5, 4); the model takes"),
        (make_functional, ((of(5, 3), of(5, 3)), of(5, 1)), "batches have 2 inputs; the model takes 1"),
    ],
)
def test_what_no_model_takes_is_told(make, batch, said):
    found = find_misfit(make(), batch, "train_step")
    assert found is not None and said in found
