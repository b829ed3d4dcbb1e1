"""Losses and metrics of each replica, where Keras computes them from what an activation was given."""

import keras
import numpy as np
import pytest
from keras import layers

from tests.workloads.keras.stacked.pairs import assert_same, compile_model, draw

CLASSES = np.eye(3)[np.random.default_rng(1).integers(0, 3, 19)]


@pytest.mark.parametrize(
    ("end", "loss", "targets"),
    [
        (lambda: layers.Dense(3, "softmax"), "categorical_crossentropy", CLASSES),
        (lambda: layers.Dense(1, "sigmoid"), "binary_crossentropy", CLASSES[:, :1]),
        (lambda: layers.Dense(3, "softmax"), "sparse_categorical_crossentropy", CLASSES.argmax(axis=1)),
    ],
)
def test_saturated_probabilities(end, loss, targets):
    def build():
        rate = keras.optimizers.SGD(1e-3, momentum=0.9)
        return compile_model([keras.Input((4,)), end()], loss, [loss, "accuracy"], rate)

    x = 30 * draw(19, 4)
    assert_same(build, (x, targets), (x[:9], targets[:9]), replicas=2)
