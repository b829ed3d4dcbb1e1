"""Gradients that are clipped, as a stack: each replica's by its own norms, as alone."""

import keras
import pytest
from keras import layers

from tests.workloads.keras.stacked.pairs import assert_same, compile_model, draw


@pytest.mark.slow
@pytest.mark.parametrize("limits", [{"clipnorm": 0.1}, {"global_clipnorm": 0.1}, {"clipvalue": 0.01}])
def test_limits_that_are_no_float32(limits):
    def make():
        optimizer = keras.optimizers.SGD(1e-1, momentum=0.9, **limits)
        return compile_model([keras.Input((5,)), layers.Dense(7, "tanh"), layers.Dense(2)], optimizer=optimizer)

    assert_same(make, (draw(21, 5), draw(21, 2, seed=1)), replicas=2)
