"""Noise and penalties on what goes through, as a stack: each replica has what it would have alone."""

import keras
import numpy as np
import pytest
from keras import layers

from tests.workloads.keras.stacked.pairs import assert_same, compile_model, draw

SHAPES = {1: (4, 6), 2: (3, 4, 6), 3: (2, 3, 4, 6)}


def build(layer, axes=1):
    """A network with a layer that a function makes; axes: of inputs between samples and features."""

    def make():
        hidden = [layers.Dense(6, "tanh"), layer(), layers.Flatten(), layers.Dense(2)]
        return compile_model([keras.Input(SHAPES[axes]), *hidden], metrics=["mae"])

    return make


def draw_data(axes=1):
    """Of training and validation."""
    return (draw(21, *SHAPES[axes]), draw(21, 2, seed=1)), (draw(13, *SHAPES[axes], seed=2), draw(13, 2, seed=3))


NOISES = {
    "noise": lambda: layers.GaussianNoise(0.3),
    "factors": lambda: layers.GaussianDropout(0.3),
    "alpha": lambda: layers.AlphaDropout(0.3),
    "spatial": lambda: layers.SpatialDropout1D(0.4),
    "seed": lambda: layers.GaussianNoise(0.3, seed=3),
    "alike": lambda: layers.AlphaDropout(0.3, noise_shape=(None, 1, 6)),
    "no noise": lambda: layers.GaussianNoise(0.0),
    "no factors": lambda: layers.GaussianDropout(0.0),
    "no alpha": lambda: layers.AlphaDropout(0.0),
    "nothing": lambda: layers.SpatialDropout1D(1.0),
}


@pytest.mark.parametrize("noise", NOISES)
def test_each_draws_what_it_would_draw_alone(noise):
    assert_same(build(NOISES[noise]), *draw_data())


@pytest.mark.parametrize("noise", ["noise", "factors", "alpha", "spatial"])
def test_with_xla(noise):
    assert_same(build(NOISES[noise]), *draw_data(), xla=True)


@pytest.mark.parametrize("order", ["channels_first", "channels_last"])
@pytest.mark.parametrize(("layer", "axes"), [(layers.SpatialDropout2D, 2), (layers.SpatialDropout3D, 3)])
def test_whole_channels_are_dropped(layer, axes, order):
    assert_same(build(lambda: layer(0.4, data_format=order), axes), *draw_data(axes))


def test_replicas_draw_from_seeds_of_their_own():
    stack = assert_same(build(NOISES["noise"]), *draw_data())
    (seeds,) = (value for name, value in stack.items() if "seed_generator" in name)
    assert len(np.unique(seeds, axis=0)) == len(seeds)


@pytest.mark.parametrize(("options", "xla"), [({"l1": 0.1}, False), ({"l1": 0.1, "l2": 0.2}, True), ({}, False)])
def test_penalties_on_what_goes_through(options, xla):
    assert_same(build(lambda: layers.ActivityRegularization(**options)), *draw_data(), xla=xla)
